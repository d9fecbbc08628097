"""Weights of one bit: quantisation with a straight-through estimator.

Rounding has a derivative of zero almost everywhere, so a network of rounded weights would not
learn. The straight-through estimator rounds in the forward pass and hands the gradient on as if
nothing had happened, except to weights beyond the range, which get none. Here it is a Function of a
few lines, attached to ordinary Linear layers as a parametrization: `layer.weight` is the rounded
weight, and the full-precision one that is trained lies beside it.

A digit classifier of full precision loses about ten points of accuracy when each weight is rounded
to one of two values; trained further through the rounding it reaches 93 % with them.

    python examples/quantisation.py --epochs 6 --seed 0
"""

import argparse
import copy

from sklearn.datasets import load_digits

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.nn.utils import parametrize


class Rounding(torch.autograd.Function):
    """Rounds to the nearest of 2**bits levels `step` apart; gradients pass straight through."""

    @staticmethod
    def forward(ctx, x, step, bits):
        half = 2 ** (bits - 1)
        scaled = x / step
        ctx.save_for_backward(scaled.abs() <= half)
        return (torch.floor(scaled).clamp(-half, half - 1) + 0.5) * step

    @staticmethod
    def backward(ctx, gradient):
        (inside,) = ctx.saved_tensors
        return gradient * inside, None, None


class Quantised(nn.Module):
    """A parametrization: the weight with `bits` bits, in steps that fit its spread."""

    def __init__(self, weight, bits):
        super().__init__()
        self.bits = bits
        self.register_buffer("step", 2.5 * weight.detach().std() / 2 ** (bits - 1))

    def forward(self, weight):
        return Rounding.apply(weight, self.step, self.bits)


def quantise(model, bits):
    for module in model.modules():
        if isinstance(module, nn.Linear):
            parametrize.register_parametrization(module, "weight", Quantised(module.weight, bits))
    return model


def load(seed):
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 8 - 1
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return (images[order[360:]], labels[order[360:]]), (images[order[:360]], labels[order[:360]])


def train(model, images, labels, epochs, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(32):
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    return (model(images).argmax(dim=1) == labels).float().mean().item()


def main(epochs=6, seed=0, bits=1):
    """Returns the accuracy of the full model, of the rounded one and of the one trained rounded."""
    torch.manual_seed(seed)
    training, testing = load(seed)
    model = nn.Sequential(
        *(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    )
    train(model, *training, epochs, rate=3e-3)
    full = accuracy(model, *testing)
    print(f"full precision               {full:.1%}")

    quantise(model, bits)
    rounded = accuracy(model, *testing)
    print(f"rounded to {2**bits} values          {rounded:.1%}")

    train(model, *training, epochs, rate=2e-3)
    trained = accuracy(model, *testing)
    print(f"trained through the rounding {trained:.1%}")

    plain = copy.deepcopy(model)
    for module in plain.modules():
        if isinstance(module, nn.Linear):
            parametrize.remove_parametrizations(module, "weight")
    levels = [len(set(m.weight.flatten().tolist())) for m in plain if isinstance(m, nn.Linear)]
    print(f"values of a weight, by layer {levels}")
    assert max(levels) <= 2**bits
    assert accuracy(plain, *testing) == trained
    return full, rounded, trained


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bits", type=int, default=1)
    main(**vars(parser.parse_args()))

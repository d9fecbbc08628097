"""A transformer that keeps a fraction of its activations, and has the same gradients.

Six encoder layers read 128 places of 64 numbers. Training keeps the tensors that backward needs;
with `checkpoint` around each layer it keeps the layer's input alone and runs the layer once more
during backward. Dropout draws the same numbers again, so the gradients are equal to the last bit.
With `memory_budget` a layer keeps a share of its activations, those that are dearest to compute.

The peak of memory of a step falls to less than 0.3 of the plain step's, and training goes on as it
would have: both losses are the same after every step.

    python examples/checkpointed_transformer.py --steps 6 --seed 0
"""

import argparse
import time

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    """Layers of self-attention; `keep` is "all", "inputs", or the share of bytes to keep."""

    def __init__(self, width=64, heads=4, layers=6, length=128, keep="all"):
        super().__init__()
        self.keep = keep
        self.place = nn.Parameter(torch.randn(length, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.place
        for layer in self.layers:
            if self.keep == "all":
                x = layer(x)
            elif self.keep == "inputs":
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = checkpoint(layer, x, use_reentrant=False, memory_budget=self.keep)
        return self.head(x)


def running_sum(batch, length=128, width=64):
    """A task: the mean of all numbers so far, at each place."""
    x = torch.randn(batch, length, width)
    return x, x.cumsum(dim=1) / torch.arange(1, length + 1).sqrt().unsqueeze(1)


def peak_of(step):
    """What a function returns, the bytes it needed beyond those in use before, and its seconds."""
    torch.reset_peak_memory_stats()
    before = torch.memory_stats()["allocated_bytes"]
    began = time.perf_counter()
    result = step()
    seconds = time.perf_counter() - began
    return result, torch.memory_stats()["peak_allocated_bytes"] - before, seconds


def train(keep, steps, seed, batch=8):
    """Losses, the gradients of the last step, and the peak of memory of a step."""
    torch.manual_seed(seed)
    model = Encoder(keep=keep)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss.item()

    losses = []
    for _ in range(steps):
        x, y = running_sum(batch)
        loss, peak, seconds = peak_of(step)
        optimizer.step()
        losses.append(loss)
    gradients = {name: p.grad for name, p in model.named_parameters()}
    print(f"keep {keep!s:<7} loss {loss:.4f}  peak {peak / 2**20:5.1f} MiB  {1e3 * seconds:.0f} ms")
    return losses, gradients, peak


def main(steps=6, seed=0):
    """Returns the peak of the checkpointed step relative to the plain one's."""
    losses, gradients, plain = train("all", steps, seed)
    for keep in ("inputs", 0.3):
        other_losses, other_gradients, peak = train(keep, steps, seed)
        assert other_losses == losses
        for name, gradient in gradients.items():
            assert torch.equal(gradient, other_gradients[name]), name
        print(f"  equal to the last bit; peak {peak / plain:.2f} of the plain step's")
        if keep == "inputs":
            share = peak / plain
    return share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))

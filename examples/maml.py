"""MAML: learning a start from which a few steps of gradient descent suffice.

Each task is a sine wave of its own amplitude and phase, of which ten points are shown. The network
takes a step of gradient descent on those points; what is trained is where that step starts from.
The loss after the step is differentiated through the step itself, so its gradient holds second
derivatives (`create_graph=True`).

The weights of all tasks are rows of one batched tensor: their steps are taken together.

Mean squared error on new waves: about 3.2 before adapting, below 0.8 after five steps (a network
that was trained on all waves at once stays near 3).

    python examples/maml.py --iterations 600 --seed 0
"""

import argparse
import math
from itertools import pairwise

import rushlight as torch
from rushlight import nn


class Regressor(nn.Module):
    """A perceptron whose forward takes its weights, one set per task."""

    def __init__(self, hidden=40):
        super().__init__()
        sizes = (1, hidden, hidden, 1)
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(sizes))

    def weights(self, tasks):
        """The parameters, repeated for each task; gradients reach them as a sum."""
        return [p.expand(tasks, *p.shape) for p in self.parameters()]

    def forward(self, x, weights):
        pairs = list(zip(weights[::2], weights[1::2], strict=True))
        for i, (weight, bias) in enumerate(pairs):
            x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
            if i < len(pairs) - 1:
                x = torch.relu(x)
        return x


def waves(tasks):
    """Amplitudes and phases of some tasks."""
    return torch.rand(tasks, 1, 1) * 4.9 + 0.1, torch.rand(tasks, 1, 1) * math.pi


def points(wave, count=10):
    amplitude, phase = wave
    x = torch.rand(len(amplitude), count, 1) * 10 - 5
    return x, amplitude * torch.sin(x - phase)


def losses(model, weights, x, y):
    """Mean squared error of each task."""
    return (model(x, weights) - y).square().mean(dim=(1, 2))


def adapted(model, weights, x, y, steps, rate=0.01, create_graph=True):
    """The weights after some steps of gradient descent on the points of each task."""
    for _ in range(steps):
        loss = losses(model, weights, x, y).sum()
        gradients = torch.autograd.grad(loss, weights, create_graph=create_graph)
        weights = [w - rate * g for w, g in zip(weights, gradients, strict=True)]
    return weights


def evaluate(model, tasks=100, steps=5):
    """Errors on new waves: before adapting, and after."""
    wave = waves(tasks)
    x, y = points(wave)
    test_x, test_y = points(wave, 50)
    start = model.weights(tasks)
    end = adapted(model, start, x, y, steps, create_graph=False)
    with torch.no_grad():
        return [losses(model, w, test_x, test_y).mean().item() for w in (start, end)]


def main(iterations=600, seed=0, tasks=25):
    """Trains and returns the error on new waves after five steps."""
    torch.manual_seed(seed)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i in range(1, iterations + 1):
        wave = waves(tasks)
        x, y = points(wave)
        fresh_x, fresh_y = points(wave)
        weights = adapted(model, model.weights(tasks), x, y, steps=1)
        loss = losses(model, weights, fresh_x, fresh_y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % max(1, iterations // 6) == 0:
            before, after = evaluate(model)
            print(f"iteration {i:5}  error {before:.3f} before, {after:.3f} after five steps")
    return evaluate(model, tasks=400)[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))

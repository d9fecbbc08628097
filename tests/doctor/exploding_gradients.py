"""Gradients that grow without bound."""

import rushlight as torch
from doctor.parts import sgd
from rushlight import nn


def train(length, clip):
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    optimizer = sgd(model, 1e-12)
    with torch.no_grad():
        model.weight.copy_(torch.eye(8) * 3)
    for step in range(10):
        optimizer.zero_grad()
        state = torch.randn(4, 8)
        for _ in range(length if step > 4 else 2):
            state = model(state)
        state.square().mean().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()  # found


def faulty():
    train(12, False)


def clean():
    train(2, False)


def clean_clipped():
    train(12, True)


IGNORED = {"update-too-small"}

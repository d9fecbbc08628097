"""Clipping under a GradScaler."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(unscale, clip):
    model = classifier()
    optimizer = sgd(model)
    scaler = torch.GradScaler("cpu", init_scale=1024.0)
    for x, y in batches():
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        if unscale:
            scaler.unscale_(optimizer)
        clip(model.parameters(), 1.0)  # found
        scaler.step(optimizer)
        scaler.update()


def faulty_norm():
    train(False, nn.utils.clip_grad_norm_)


def faulty_value():
    train(False, nn.utils.clip_grad_value_)


def clean_norm():
    train(True, nn.utils.clip_grad_norm_)


def clean_value():
    train(True, nn.utils.clip_grad_value_)

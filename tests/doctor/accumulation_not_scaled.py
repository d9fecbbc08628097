"""Several passes before a step."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(loss_of, between=lambda model: None):
    model = classifier()
    optimizer = sgd(model)
    for i, (x, y) in enumerate(batches(12)):
        loss_of(model(x), y).backward()  # found
        if i % 4 == 3:
            between(model)
            optimizer.step()
            optimizer.zero_grad()


def faulty():
    train(F.cross_entropy)


def faulty_clipped():
    train(F.cross_entropy, lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1.0))


def faulty_with_a_scaler():
    """That it divides gradients by its own scale changes nothing."""
    model = classifier()
    optimizer = sgd(model)
    scaler = torch.GradScaler("cpu", init_scale=128.0)
    for i, (x, y) in enumerate(batches(12)):
        scaler.scale(F.cross_entropy(model(x), y)).backward()  # found
        if i % 4 == 3:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def clean():
    train(lambda output, y: F.cross_entropy(output, y) / 4)


def clean_sums():
    train(lambda output, y: F.cross_entropy(output, y, reduction="sum"))


def clean_divided_later():
    def divide(model):
        for p in model.parameters():
            p.grad.div_(4)

    train(F.cross_entropy, divide)


def clean_one_pass():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def clean_two_losses():
    """Two losses of one batch are no accumulation."""
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        for label in (y, y.roll(1)):
            F.cross_entropy(model(x), label).backward()
        optimizer.step()

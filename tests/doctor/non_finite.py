"""NaN and infinity."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(loss_of):
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()


def faulty_log():
    def loss(output, y):
        shares = output - 5
        logs = shares.log()  # found
        return F.nll_loss(logs * 2, y)

    train(loss)


def faulty_division():
    def loss(output, y):
        zero = output.relu().mean() * 0
        return F.cross_entropy(output, y) / zero  # found

    train(loss)


def faulty_only_in_backward():
    def loss(output, y):
        distance = (output - output).square().sum().sqrt()  # found
        return F.cross_entropy(output, y) + distance

    train(loss)


def faulty_data():
    model = classifier()
    for x, y in batches():
        x[0, 0] = float("nan")
        F.cross_entropy(model[2](model[1](model[0](x))), y).backward()  # found


def faulty_in_a_step_that_is_not_watched():
    """What is left of it is seen in the end."""
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches(9):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found
    with torch.no_grad():
        model[0].weight.fill_(float("nan"))


def clean():
    train(F.cross_entropy)


def clean_masked():
    """Minus infinity in a mask is no mistake."""

    def loss(output, y):
        mask = torch.zeros_like(output, dtype=torch.bool)
        mask[:, 2] = True
        return F.cross_entropy(output.masked_fill(mask, float("-inf")), y.clamp(max=1))

    train(loss)

"""Gradients that nothing clears."""

from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


def faulty():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def clean():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def clean_zeros_stay():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def clean_by_hand():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        for p in model.parameters():
            p.grad = None


def clean_of_the_module():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def clean_two_models():
    """The critic's pass leaves gradients in the generator, which clears them before its own."""
    generator, critic = nn.Linear(8, 8), nn.Linear(8, 1)
    of_generator, of_critic = sgd(generator), sgd(critic)
    for x, _ in batches():
        of_critic.zero_grad()
        critic(generator(x)).mean().backward()
        of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(x)).mean()).backward()
        of_generator.step()

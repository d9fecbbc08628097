"""Evaluation in train mode."""

import rushlight as torch
from doctor.parts import batches, classifier, data, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(layer, evaluate):
    model = classifier(8, 16, layer)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    evaluate(model)


def without_eval(model):
    x, _ = data(32, seed=1)
    with torch.no_grad():
        for part in x.split(8):
            model(part)  # found


def with_eval(model):
    model.eval()
    without_eval(model)


def faulty_dropout():
    train(nn.Dropout(0.5), without_eval)


def faulty_batch_norm():
    train(nn.BatchNorm1d(16), without_eval)


def clean():
    train(nn.Dropout(0.5), with_eval)


def clean_nothing_depends_on_it():
    train(nn.LayerNorm(16), without_eval)


def clean_part_of_training():
    """Samples for another model: a pass follows each."""
    generator, critic = classifier(8, 16, nn.BatchNorm1d(16)), nn.Linear(3, 1)
    of_critic, of_generator = sgd(critic), sgd(generator)
    for x, _ in batches():
        with torch.no_grad():
            fake = generator(x)
        of_critic.zero_grad()
        critic(fake).square().mean().backward()
        of_critic.step()
        of_generator.zero_grad()
        critic(generator(x)).square().mean().backward()
        of_generator.step()

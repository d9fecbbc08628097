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


def faulty_a_single_batch_now_and_then():
    model = classifier(8, 16, nn.Dropout(0.5))
    optimizer = sgd(model)
    held_out, _ = data(32, seed=1)
    for i, (x, y) in enumerate(batches(8)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if i % 3 == 1:
            with torch.no_grad():
                model(held_out)  # found


class Functional(nn.Module):
    def __init__(self, **mode):
        super().__init__()
        self.layer, self.mode = nn.Linear(8, 3), mode

    def forward(self, x):
        return F.dropout(self.layer(x), 0.5, **self.mode)  # found


def train_functional(**mode):
    model = Functional(**mode)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    with_eval(model)


def faulty_function():
    train_functional()


def clean_function_that_is_meant():
    train_functional(training=True)


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


def clean_teacher():
    """A model that follows another one makes the targets of every step."""
    model, teacher = (classifier(8, 16, nn.BatchNorm1d(16)) for _ in range(2))
    teacher.requires_grad_(False)
    optimizer = sgd(model)
    for x, _ in batches():
        with torch.no_grad():
            targets = teacher(x), teacher(x + 0.1)
        optimizer.zero_grad()
        sum(F.mse_loss(model(x), target) for target in targets).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, other in zip(teacher.parameters(), model.parameters(), strict=True):
                mine.lerp_(other, 0.01)


def clean_samples_of_a_generator():
    generator, critic = classifier(8, 16, nn.BatchNorm1d(16)), nn.Linear(3, 1)
    of_critic, of_generator = sgd(critic), sgd(generator)
    for x, _ in batches():
        fake = generator(x)
        of_critic.zero_grad()
        critic(fake.detach()).square().mean().backward()
        of_critic.step()
        of_generator.zero_grad()
        (1 - critic(fake)).square().mean().backward()
        of_generator.step()
        with torch.no_grad():
            generator(x)

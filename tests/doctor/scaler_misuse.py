"""A GradScaler that is used in part."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(step, scaled=True, update=True):
    model = classifier()
    optimizer = sgd(model, 1e-3)
    scaler = torch.GradScaler("cpu", init_scale=16.0)
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        in_scale = scaler.scale(loss)
        (in_scale if scaled else loss).backward()
        if step == "scaler":
            scaler.step(optimizer)
        else:
            optimizer.step()
        if update:
            scaler.update()


def faulty_steps_itself():
    train("optimizer", update=False)


def faulty_not_scaled():
    train("scaler", scaled=False)


def faulty_never_updated():
    train("scaler", update=False)


def clean():
    train("scaler")

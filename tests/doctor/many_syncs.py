"""Values read one by one."""

from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(count):
    model = classifier()
    optimizer = sgd(model)
    right = 0
    for x, y in batches(6, 48):
        optimizer.zero_grad()
        output = model(x)
        F.cross_entropy(output, y).backward()
        optimizer.step()
        right += count(output.argmax(1), y)


def faulty():
    def count(found, y):
        right = 0
        for i in range(len(y)):
            right += found[i].item() == y[i].item()  # found
        return right

    train(count)


def clean_one_by_one_from_tensors_of_their_own():
    """An environment wants numbers: nothing is taken apart for them."""
    model = classifier()
    optimizer = sgd(model)
    for x, _ in batches(6, 48):
        steps, total = x.split(1), 0.0
        for step in steps:
            output = model(step)
            action = output.argmax(1)
            total = total + output[0, action.item()]
        optimizer.zero_grad()
        (total / 48).backward()
        optimizer.step()


def clean():
    train(lambda found, y: (found == y).sum().item())

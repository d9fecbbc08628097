"""Scores where log-probabilities are wanted."""

from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(activate):
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.nll_loss(activate(model(x)), y).backward()  # found
        optimizer.step()


def faulty():
    train(lambda output: output)


def faulty_softmax():
    train(lambda output: output.softmax(1))


def train_sequences(activate):
    model = nn.Linear(8, 5)
    optimizer = sgd(model)
    for x, y in batches():
        scores = activate(model(x.view(4, 4, 8)))
        optimizer.zero_grad()
        F.nll_loss(scores.transpose(1, 2), y.view(4, 4)).backward()  # found
        optimizer.step()


def faulty_sequences():
    train_sequences(lambda output: output)


def clean_sequences():
    train_sequences(lambda output: output.log_softmax(-1))


def clean():
    train(lambda output: output.log_softmax(1))


def clean_in_two_steps():
    train(lambda output: output.softmax(1).log())


def clean_by_hand():
    train(lambda output: output - output.logsumexp(1, keepdim=True))

"""Values that leave the graph between the parameters and the loss."""

import rushlight as torch
from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


class Model(nn.Module):
    def __init__(self, middle):
        super().__init__()
        self.encoder, self.head = nn.Linear(8, 8), nn.Linear(8, 3)
        self.middle = middle

    def forward(self, x):
        return self.head(self.middle(self.encoder(x)))


def train(middle):
    torch.manual_seed(0)
    model = Model(middle)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def faulty_detach():
    train(lambda h: h.detach())  # found


def faulty_data():
    train(lambda h: h.data * 2)  # found


def faulty_numpy():
    train(lambda h: torch.from_numpy(h.detach().numpy()))  # found


def faulty_integers():
    train(lambda h: (h * 4).long().float())  # found


def faulty_new_tensor():
    train(lambda h: torch.tensor(h.tolist()))  # found


def faulty_argmax():
    train(lambda h: F.one_hot(h.argmax(1), 8).float())  # found


def faulty_comparison():
    train(lambda h: (h > 0).float())  # found


def faulty_item():
    model = nn.Linear(8, 3)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        torch.tensor(loss.item(), requires_grad=True).backward()  # found
        optimizer.step()


def faulty_backward_raises():
    model = nn.Linear(8, 3)
    for x, y in batches():
        loss = F.cross_entropy(model(x), y).detach()  # found
        loss.backward()


def clean():
    train(lambda h: h.tanh())


def clean_metrics():
    """Values are read, and the loss does not come from them."""
    model = nn.Linear(8, 3)
    optimizer = sgd(model)
    right, total = 0, 0.0
    for x, y in batches():
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        right += (output.detach().argmax(1) == y).sum().item()
        total += loss.item()

"""A program with types, as a user writes one: mypy --strict and pyright accept it, and it runs."""

from collections.abc import Callable, Iterator
from typing import Any, assert_type

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor, nn
from rushlight.optim.lr_scheduler import CosineAnnealingLR
from rushlight.utils.data import DataLoader, Dataset, TensorDataset


class Net(nn.Module):
    scale: Tensor

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, classes)
        )
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y * self.scale


class Points(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, count: int) -> None:
        self.x = torch.randn(count, 2)
        self.y = (self.x[:, 0] * self.x[:, 1] > 0).long()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x: Tensor
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def tensors() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert_type(x, Tensor)
    assert_type(x + 1, Tensor)
    assert_type(2 * x, Tensor)
    assert_type(x @ x.T, Tensor)
    assert_type(x[0, 1:], Tensor)
    assert_type(x > 0, Tensor)
    assert_type(x.sum(dim=1, keepdim=True), Tensor)
    assert_type(x.shape, torch.Size)
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device, torch.device)
    assert_type(x.requires_grad, bool)
    assert_type(x.numel(), int)
    assert_type(torch.cat([x, x], dim=0), Tensor)
    assert_type(F.softmax(x, dim=-1), Tensor)
    assert_type(torch.linalg.inv(x @ x.T + torch.eye(3, dtype=torch.float64)), Tensor)
    for row in x:
        assert_type(row, Tensor)
    values, places = x.topk(2)
    assert values.shape == places.shape == (3, 2)


def derivatives() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (slope,) = torch.autograd.grad((x**2).sum(), x, create_graph=True)
    assert_type(slope, Tensor)
    f: Callable[[Tensor], Tensor] = lambda x: (x**3).sum()
    assert torch.equal(torch.func.grad(f)(x.detach()), 3 * x.detach() ** 2)
    assert torch.func.hessian(f)(x.detach()).shape == (2, 2)
    y: Tensor = Cube.apply(x)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 12.0]


def batches(data: Dataset[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    yield from DataLoader(data, batch_size=16, shuffle=True)


def train(epochs: int = 30) -> float:
    torch.manual_seed(0)
    data, model = Points(128), Net(2, 16, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.0)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    loss = torch.zeros(())
    for _ in range(epochs):
        for x, y in batches(data):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        scores: Tensor = model(data.x)
        right = (scores.argmax(dim=1) == data.y).float().mean()
    assert_type(right, Tensor)
    pairs = TensorDataset(data.x, data.y)
    assert len(pairs) == 128
    return float(right.item())


if __name__ == "__main__":
    tensors()
    derivatives()
    assert train() > 0.85

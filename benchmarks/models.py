"""The train steps that are measured, written as for PyTorch: each takes the library it runs on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]
Wrap = Callable[[Any], Any]


def step_of(torch: Any, model: Any, optimizer: Any, loss: Callable[[], Any]) -> Step:
    """One step of training: gradients anew, forward, backward, update."""

    def step() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return step


def classifier(torch: Any, model: Any, shape: tuple[int, ...], classes: int, lr: float) -> Step:
    """A step of SGD on one batch of noise."""
    x, y = torch.randn(*shape), torch.randint(0, classes, (shape[0],))
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return step_of(torch, model, optimizer, lambda: loss(model(x), y))


def itself(model: Any) -> Any:
    return model


def mlp(
    torch: Any, inputs: int, hidden: int, classes: int, batch: int, wrap: Wrap = itself
) -> Step:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    return classifier(torch, wrap(model), (batch, inputs), classes, 1e-3)


def rnn(torch: Any, steps: int = 16, hidden: int = 32, batch: int = 8, inputs: int = 16) -> Step:
    """A recurrent network written out by hand."""
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.take = nn.Linear(inputs, hidden)
            self.keep = nn.Linear(hidden, hidden)
            self.give = nn.Linear(hidden, inputs)

        def forward(self, x: Any) -> Any:
            state = torch.zeros(x.shape[1], hidden)
            for step in x:
                state = torch.tanh(self.take(step) + self.keep(state))
            return self.give(state)

    torch.manual_seed(0)
    model = Network()
    x, y = torch.randn(steps, batch, inputs), torch.randn(batch, inputs)
    loss = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    return step_of(torch, model, optimizer, lambda: loss(model(x), y))


def gpt_model(torch: Any, layers: int, width: int, heads: int, length: int, vocabulary: int) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            parts = self.mix(self.norm1(x)).split(width, dim=2)
            q, k, v = (p.view(b, t, heads, width // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.join(y.transpose(1, 2).reshape(b, t, width))
            return x + self.narrow(F.gelu(self.wide(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(vocabulary, width)
            self.place = nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def gpt(
    torch: Any,
    layers: int,
    width: int,
    length: int,
    batch: int,
    heads: int,
    bf16: bool = False,
    wrap: Wrap = itself,
) -> Step:
    vocabulary = 65
    torch.manual_seed(0)
    model = wrap(gpt_model(torch, layers, width, heads, length, vocabulary))
    tokens = torch.randint(0, vocabulary, (batch, length + 1))
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = torch.nn.functional.cross_entropy

    def value() -> Any:
        region = torch.autocast("cpu", dtype=torch.bfloat16) if bf16 else contextlib.nullcontext()
        with region:
            logits = model(x)
            return loss(logits.view(-1, vocabulary), y.view(-1))

    return step_of(torch, model, optimizer, value)


def lenet(torch: Any, batch: int = 32) -> Step:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    return classifier(torch, model, (batch, 1, 28, 28), 10, 1e-3)


def resnet(torch: Any, batch: int = 16) -> Step:
    """Three stages of two residual blocks, 16 to 64 channels."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
            same = inputs == outputs and stride == 1
            self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = F.relu(self.norm1(self.conv1(x)))
            return F.relu(self.norm2(self.conv2(y)) + self.skip(x))

    torch.manual_seed(0)
    stages = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(Block(*stage) for stage in stages),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    return classifier(torch, model, (batch, 3, 32, 32), 10, 1e-3)


STEPS: dict[str, Callable[[Any], Step]] = {
    "MLP 2-16-2, batch 4": lambda torch: mlp(torch, 2, 16, 2, 4),
    "MLP 64-128-10, batch 32": lambda torch: mlp(torch, 64, 128, 10, 32),
    "RNN by hand, 16 steps, hidden 32": rnn,
    "tiny GPT, 2 layers, 32 wide, T 16, B 4": lambda torch: gpt(torch, 2, 32, 16, 4, 4),
    "MLP 784-512-10, batch 128": lambda torch: mlp(torch, 784, 512, 10, 128),
    "char GPT, 4 layers, 128 wide, T 64, B 16": lambda torch: gpt(torch, 4, 128, 64, 16, 4),
    "char GPT in bf16 autocast": lambda torch: gpt(torch, 4, 128, 64, 16, 4, bf16=True),
    "LeNet, batch 32": lenet,
    "ResNet, 3x32x32, batch 16": resnet,
}

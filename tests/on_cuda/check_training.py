"""Models train on the device with the numbers of the CPU."""

import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

torch.backends.cudnn.allow_tf32 = False  # which the CPU knows nothing of


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=17, width=32, heads=4, layers=2, length=12):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def mlp():
    return nn.Sequential(
        nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 5)
    )


def losses(model, inputs, targets, make, device, steps, clip=None):
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = make(model.parameters())
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(inputs)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), targets.reshape(-1))
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        seen.append(loss.item())
    return seen, [p.detach().cpu() for p in model.parameters()]


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-3),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-3),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-3),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
    "asgd": lambda p: torch.optim.ASGD(p, lr=1e-2),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1e-3),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=1e-3, amsgrad=True, weight_decay=1e-2),
}


def compare(model, inputs, targets, make, steps, limit=1e-4, **options):
    twin = copy.deepcopy(model)
    wanted, weights = losses(model, inputs, targets, make, "cpu", steps, **options)
    found, there = losses(twin, inputs, targets, make, "cuda", steps, **options)
    assert found == pytest.approx(wanted, rel=limit)
    assert wanted[-1] < wanted[0]
    for ours, theirs in zip(there, weights, strict=True):
        assert torch.allclose(ours, theirs, rtol=limit * 10, atol=limit * 10)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_mlp(name):
    torch.manual_seed(0)
    inputs, targets = torch.randn(24, 12), torch.randint(0, 5, (24,))
    compare(mlp(), inputs, targets, OPTIMIZERS[name], 6, limit=1e-3 if name == "rprop" else 1e-4)


def test_clipped_gradients():
    torch.manual_seed(0)
    inputs, targets = torch.randn(24, 12), torch.randint(0, 5, (24,))
    compare(mlp(), inputs, targets, OPTIMIZERS["sgd"], 5, clip=0.5)


def test_a_small_gpt():
    torch.manual_seed(0)
    ids = torch.randint(0, 17, (3, 13))
    compare(GPT(), ids[:, :-1], ids[:, 1:], OPTIMIZERS["adamw"], 5, limit=5e-4)


def test_halves():
    torch.manual_seed(0)
    inputs = torch.randn(24, 12, dtype=torch.bfloat16)
    targets = torch.randint(0, 5, (24,))
    model = mlp().to(torch.bfloat16)
    compare(model, inputs, targets, OPTIMIZERS["sgd"], 4, limit=2e-2)


def test_dropout_is_the_counter_of_the_cpu():
    torch.manual_seed(3)
    here = F.dropout(torch.ones(1000), 0.3)
    torch.manual_seed(3)
    there = F.dropout(torch.ones(1000, device="cuda"), 0.3)
    assert torch.equal(here, there.cpu())


def test_second_derivatives():
    x = torch.linspace(-1, 1, 7)
    results = []
    for device in ("cpu", "cuda"):
        y = x.detach().to(device).requires_grad_()
        (g,) = torch.autograd.grad((y.sin() * y.exp()).sum(), y, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), y)
        results.append(h.cpu())
    assert torch.allclose(*results, rtol=1e-5, atol=1e-6)


def test_mixed_precision():
    torch.manual_seed(0)
    inputs, targets = torch.randn(24, 12).cuda(), torch.randint(0, 5, (24,)).cuda()
    model = mlp().cuda()
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_enabled("cpu")
        logits = model(inputs)
        assert logits.dtype == torch.bfloat16
        assert (
            torch.ones(2, 2) @ torch.ones(2, 2)
        ).dtype == torch.float32  # the CPU's are not cast
        loss = F.cross_entropy(logits, targets)
    assert loss.dtype == torch.float32
    loss.backward()
    plain = copy.deepcopy(model)
    plain.zero_grad()
    F.cross_entropy(plain(inputs), targets).backward()
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        assert a.grad.dtype == torch.float32
        assert torch.allclose(a.grad, b.grad, rtol=0.05, atol=5e-3)
    with torch.autocast("cpu"):
        assert model(inputs).dtype == torch.float32


def test_scaled_gradients():
    torch.manual_seed(0)
    inputs, targets = torch.randn(24, 12).cuda(), torch.randint(0, 5, (24,)).cuda()
    model = mlp().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
    found = []
    for _ in range(6):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = F.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    assert found[-1] < found[0]

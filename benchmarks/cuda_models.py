"""Training steps on a CUDA device, rushlight and PyTorch alternately in one process.

``python benchmarks/cuda_models.py [words]`` runs the rows whose names have one of the words.
"""

import sys
import time

import torch as pytorch

import rushlight


def wall(torch, f, calls, repeats=5):
    """The least time of a step, in microseconds."""
    best = float("inf")
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def training(torch, net, x, y, loss_of, rule, half=None):
    optimizer = rule(net.parameters())

    def step():
        optimizer.zero_grad()
        if half is None:
            loss = loss_of(net(x), y)
        else:
            with torch.autocast("cuda", half):
                loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()

    return step


def captured(torch, step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def small(torch, rule="AdamW"):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to("cuda")
    x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    more = {"capturable": True} if rule == "AdamW" and torch is pytorch else {}
    make = getattr(torch.optim, rule)
    return training(torch, net, x, y, nn.functional.cross_entropy, lambda p: make(p, 1e-3, **more))


def mlp(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).to("cuda")
    x, y = (torch.randn(1024, 1024, device="cuda") for _ in range(2))
    sgd = torch.optim.SGD
    return training(torch, net, x, y, nn.functional.mse_loss, lambda p: sgd(p, 0.01))


def gpt(torch, half):
    nn, f = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.first, self.second = nn.LayerNorm(n), nn.LayerNorm(n)
            self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
            self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

        def forward(self, x):
            b, t, n = x.shape
            q, k, v = (
                part.reshape(b, t, 8, n // 8).transpose(1, 2)
                for part in self.qkv(self.first(x)).split(n, dim=2)
            )
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, n))
            return x + self.down(f.gelu(self.up(self.second(x))))

    class GPT(nn.Module):
        def __init__(self, words=8192, n=512, t=1024, layers=8):
            super().__init__()
            self.words, self.places = nn.Embedding(words, n), nn.Embedding(t, n)
            self.blocks = nn.Sequential(*[Block(n) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, words, bias=False)

        def forward(self, ids):
            places = torch.arange(ids.shape[1], device=ids.device)
            return self.head(self.norm(self.blocks(self.words(ids) + self.places(places))))

    def loss(logits, targets):
        return f.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    ids = torch.randint(0, 8192, (8, 1025), device="cuda")
    rule = torch.optim.AdamW
    return training(
        torch, GPT().to("cuda"), ids[:, :-1], ids[:, 1:], loss, lambda p: rule(p, 1e-4), half
    )


def resnet(torch, half):
    nn, f = torch.nn, torch.nn.functional

    class Bottleneck(nn.Module):
        def __init__(self, n, width, stride):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(n, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
            )  # fmt: skip
            self.short = None
            if stride > 1 or n != 4 * width:
                self.short = nn.Sequential(
                    nn.Conv2d(n, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
                )

        def forward(self, x):
            return f.relu(self.layers(x) + (x if self.short is None else self.short(x)))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
              nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    n = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            layers.append(Bottleneck(n, width, 2 if i == 0 and width > 64 else 1))
            n = 4 * width
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 1000))
    net = net.to("cuda").to(memory_format=torch.channels_last)
    x = torch.randn(32, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (32,), device="cuda")
    sgd = torch.optim.SGD
    return training(torch, net, x, y, f.cross_entropy, lambda p: sgd(p, 0.1, momentum=0.9), half)


def adamw(torch):
    p = torch.nn.Parameter(torch.zeros(100_000_000, device="cuda"))
    p.grad = torch.ones_like(p)
    more = {"fused": True} if torch is pytorch else {}
    return torch.optim.AdamW([p], 1e-3, **more).step


def tf32(torch, allowed):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


ROWS = {
    "MLP 64-128-10 AdamW": (small, 100),
    "MLP 64-128-10 AdamW captured": (lambda torch: captured(torch, small(torch)), 200),
    "MLP 64-128-10 SGD captured": (lambda torch: captured(torch, small(torch, "SGD")), 200),
    "MLP 1024-4096-1024": (mlp, 20),
    "MLP 1024-4096-1024 tf32": (mlp, 20),
    "GPT 8 x 512, T 1024, bf16": (lambda torch: gpt(torch, torch.bfloat16), 5),
    "GPT 8 x 512, T 1024, fp32": (lambda torch: gpt(torch, None), 5),
    "ResNet-50 bf16": (lambda torch: resnet(torch, torch.bfloat16), 3),
    "ResNet-50 fp32": (lambda torch: resnet(torch, None), 3),
    "AdamW of 1e8": (adamw, 10),
}


def jax_step():
    """The small MLP's step, compiled by jax; None where that is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (32, 64))
    y = jnp.zeros((32,), int)
    w = [jax.random.normal(keys[1], (64, 128)) / 8, jnp.zeros(128),
         jax.random.normal(keys[2], (128, 10)) / 11, jnp.zeros(10)]  # fmt: skip

    def loss(w):
        logits = jax.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]
        return -jax.nn.log_softmax(logits)[jnp.arange(32), y].mean()

    @jax.jit
    def step(w, m, v, t):
        g = jax.grad(loss)(w)
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g, strict=True)]
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        w = [a * (1 - 1e-5) - rate * b / (jnp.sqrt(c) + 1e-8)
             for a, b, c in zip(w, m, v, strict=True)]  # fmt: skip
        return w, m, v, t + 1

    zeros = [jnp.zeros_like(a) for a in w]
    state = [(w, zeros, zeros, jnp.ones(()))]

    def run():
        state[0] = step(*state[0])

    run.wait = lambda: jax.block_until_ready(state[0])
    return run


def main(words):
    for name, (make, calls) in ROWS.items():
        if words and not any(word in name for word in words):
            continue
        times, peaks = [], []
        for torch in (rushlight, pytorch):
            tf32(torch, "tf32" in name)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            try:
                step = make(torch)
                for _ in range(5):
                    step()
                times.append(wall(torch, step, calls))
                peaks.append(torch.cuda.max_memory_allocated() / 2**20)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}"[:300])
                times.append(float("nan"))
                peaks.append(float("nan"))
            step = None
        print(f"{name:32}{times[0]:12.1f} us{times[1]:12.1f} us{times[1] / times[0]:7.2f}x   "
              f"{peaks[0]:8.0f} /{peaks[1]:8.0f} MiB", flush=True)  # fmt: skip
    step = jax_step() if not words or "jax" in words else None
    if step:
        for _ in range(20):
            step()
        step.wait()
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(200):
                step()
            step.wait()
            best = min(best, (time.perf_counter() - start) / 200)
        print(f"jax.jit, MLP 64-128-10 AdamW: {best * 1e6:.1f} us")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

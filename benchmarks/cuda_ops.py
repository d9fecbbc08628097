"""Times on a CUDA device, rushlight and PyTorch alternately in one process.

Small work is bound by the host: wall time over many calls, the device waited for at the end. Large
work is timed by the device's own events.
"""

import sys
import time

import torch as pytorch

import rushlight


def wall(torch, f, calls, repeats=7):
    """The least time of a call, in microseconds."""
    best = float("inf")
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            f()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def device(torch, f, calls=10, repeats=5):
    best = float("inf")
    f()
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            f()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / calls)
    return best * 1e3


def small(torch):
    a, b = (torch.ones(10, device="cuda") for _ in range(2))
    g = torch.ones(10, device="cuda", requires_grad=True)
    m = torch.ones(64, 64, device="cuda")

    def chain():
        y = g
        for _ in range(100):
            y = y * b
        y.sum().backward()

    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    net = net.to("cuda")
    x, t = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    loss_of = torch.nn.functional.cross_entropy

    def train(optimizer):
        def step():
            optimizer.zero_grad()
            loss_of(net(x), t).backward()
            optimizer.step()

        return step

    yield "add of 10 floats", wall, lambda: a + b, 2000
    yield "add in place", wall, lambda: a.add_(b), 2000
    yield "add of a number", wall, lambda: a + 2.5, 2000
    yield "add with a graph", wall, lambda: g + b, 2000
    yield "sum of 10", wall, lambda: a.sum(), 1000
    yield "64x64 @ 64x64", wall, lambda: m @ m, 1000
    yield "chain of 100 products, forward + backward", wall, chain, 20
    yield "MLP 64-128-10, SGD", wall, train(torch.optim.SGD(net.parameters(), lr=0.01)), 100
    yield "MLP 64-128-10, AdamW", wall, train(torch.optim.AdamW(net.parameters(), lr=0.01)), 100


def large(torch):
    n = 100_000_000
    x, y = torch.ones(n, device="cuda"), torch.ones(n, device="cuda")
    m = torch.randn(16384, 4096, device="cuda", requires_grad=True)
    g = torch.ones(16384, 4096, device="cuda")
    w, bias = torch.ones(4096, device="cuda"), torch.zeros(4096, device="cuda")
    f = torch.nn.functional
    labels = torch.randint(0, 4096, (16384,), device="cuda")
    a = torch.randn(8192, 8192, device="cuda").to(torch.bfloat16)
    b = torch.randn(4096, 4096, device="cuda")

    def both(run):
        def step():
            m.grad = None
            run().backward(g)

        return step

    def loss():
        m.grad = None
        f.cross_entropy(m, labels).backward()

    yield "copy of 1e8 floats", device, lambda: x.clone(), 10
    yield "add of 1e8 floats", device, lambda: x + y, 10
    yield "exp of 1e8 floats", device, lambda: x.exp(), 10
    yield "sum of 1e8 floats", device, lambda: x.sum(), 10
    yield "transposed copy of 16384 x 4096", device, lambda: g.t().contiguous(), 10
    yield "bias of 16384 x 4096", device, lambda: g + bias, 10
    yield "sum over rows of 16384 x 4096", device, lambda: g.sum(0), 10
    yield "softmax 16384 x 4096, fwd + bwd", device, both(lambda: f.softmax(m, 1)), 5
    yield (
        "layer_norm 16384 x 4096, fwd + bwd",
        device,
        both(lambda: f.layer_norm(m, (4096,), w, bias)),
        5,
    )
    yield "cross_entropy 16384 x 4096, fwd + bwd", device, loss, 5
    yield "bf16 product 8192", device, lambda: a @ a, 5
    yield "fp32 product 4096", device, lambda: b @ b, 5


def main():
    for group in (small, large):
        rows = zip(group(rushlight), group(pytorch), strict=True)
        for (name, timer, ours, calls), (_, _, theirs, _) in rows:
            times = []
            for torch, f in ((rushlight, ours), (pytorch, theirs)):
                try:
                    for _ in range(3):
                        f()
                    times.append(timer(torch, f, calls))
                except Exception as error:
                    print(f"{name}: {type(error).__name__}: {error}"[:200])
                    times.append(float("nan"))
            print(
                f"{name:44}{times[0]:12.2f} us{times[1]:12.2f} us{times[1] / times[0]:8.2f}x",
                flush=True,
            )
        rushlight.cuda.empty_cache()
        pytorch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())

"""Half precision: matrix products, layers in a mixed precision region, casts, elementwise ops."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

MANY = 1 << 20


def operands(torch: Any, m: int, k: int, n: int, dtype: str) -> dict[str, Any]:
    kind = getattr(torch, dtype)
    return {"a": torch.randn(m, k).to(kind), "b": torch.randn(k, n).to(kind)}


def products() -> Iterable[Case]:
    for size, bar in ((32, 1.0), (64, 1.0), (128, 1.0), (256, 1.0), (512, 1.0), (1024, 1.0)):
        for dtype in ("bfloat16", "float16"):
            names = lambda t, n=size, d=dtype: operands(t, n, n, n, d)  # noqa: E731
            yield Case(f"gemm {size}, {dtype}", names, "a @ b", bar=bar, flops=2.0 * size**3)
    for m, k, n in ((1024, 128, 384), (1024, 128, 512), (128, 1024, 512)):
        names = lambda t, m=m, k=k, n=n: operands(t, m, k, n, "bfloat16")  # noqa: E731
        yield Case(f"gemm {m}x{k}x{n}, bfloat16", names, "a @ b", bar=1.0, flops=2.0 * m * k * n)


def heads(torch: Any) -> dict[str, Any]:
    q = torch.randn(64, 64, 32).bfloat16()
    return {"q": q, "k": torch.randn(64, 64, 32).bfloat16()}


def layer(torch: Any, rows: int, width: int, out: int) -> dict[str, Any]:
    x = torch.randn(rows, width, requires_grad=True)
    w = torch.randn(out, width, requires_grad=True)
    b = torch.randn(out, requires_grad=True)

    def work() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.nn.functional.linear(x, w, b)
        y.backward(torch.ones_like(y))
        x.grad = w.grad = b.grad = None

    return {"work": work}


def layers() -> Iterable[Case]:
    yield Case("scores of 64 heads, 64 x 32, bfloat16", heads, "q @ k.transpose(1, 2)", bar=1.0)
    for rows, width, out in ((4, 16, 16), (1024, 128, 128), (1024, 128, 512), (1024, 512, 128)):
        names = lambda t, r=rows, w=width, o=out: layer(t, r, w, o)  # noqa: E731
        yield Case(f"linear {rows} x {width} -> {out}, fwd+bwd, autocast", names, bar=1.3)


def elementwise() -> Iterable[Case]:
    def names(torch: Any) -> dict[str, Any]:
        f = torch.randn(MANY)
        rows = torch.randn(MANY // 128, 128)
        F = torch.nn.functional
        return {
            "torch": torch, "f": f, "b": f.bfloat16(), "h": f.half(), "F": F,
            "rows": rows.bfloat16(), "bf": torch.bfloat16, "hf": torch.float16,
            "gain": torch.ones(128).bfloat16(),
        }  # fmt: skip

    work = {
        "float32 -> bfloat16": "f.to(bf)",
        "bfloat16 -> float32": "b.float()",
        "float32 -> float16": "f.to(hf)",
        "float16 -> float32": "h.float()",
        "add, bfloat16": "b + b",
        "mul, float16": "h * h",
        "gelu, bfloat16": "F.gelu(b)",
        "tanh, bfloat16": "torch.tanh(b)",
        "softmax of rows of 128, bfloat16": "torch.softmax(rows, -1)",
        "layer_norm of rows of 128, bfloat16": "F.layer_norm(rows, (128,), gain, gain)",
        "sum, bfloat16": "b.sum()",
        "sum over rows, bfloat16": "rows.sum(0)",
        "copy of the transpose, bfloat16": "rows.T.contiguous()",
    }
    for name, statement in work.items():
        yield Case(f"{name}, 2^20", names, statement, bar=1.0)


def rows(bench: Bench) -> Iterable[Row]:
    for cases in (products(), layers(), elementwise()):
        yield from bench.compare_all(cases)


if __name__ == "__main__":
    main(rows, "halves: half precision")

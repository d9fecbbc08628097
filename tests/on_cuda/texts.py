"""Asks for every kernel that the registry's samples need, on a device that runs none of them.

tools/cuda_texts starts it on the emulated device and compiles what it asked for.
"""

import contextlib

from check_ops import CASES, drawn, gradients, moved

import rushlight as torch
from rushlight.nn import functional as F
from samples import function

DTYPES = [torch.float32, torch.int64, torch.complex64, torch.complex128]


def ask(f):
    # New memory is zero there and stays so, as nothing is computed: an op may refuse that.
    torch.cuda.empty_cache()
    with contextlib.suppress(Exception):
        f()


def registry():
    for name, make in CASES:
        f = function(name)
        for dtype in DTYPES:
            for args, kwargs in drawn(make, dtype):
                here = moved((args, kwargs))
                ask(lambda: f(*here[0], **here[1]))  # noqa: B023 -- called at once
        for dtype in (torch.float32, torch.complex64):
            for args, kwargs in drawn(make, dtype):
                here = moved((args, kwargs))
                ask(lambda: gradients(f, *here))  # noqa: B023


def halves():
    for dtype in (torch.bfloat16, torch.float16):
        for width in (16, 64, 128):
            q, k, v = (
                torch.ones(1, 2, 70, width, dtype=dtype, device="cuda", requires_grad=True)
                for _ in range(3)
            )
            ask(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward)
        x = torch.ones(8, 16, dtype=dtype, device="cuda", requires_grad=True)
        for f in (
            F.gelu,
            lambda t: F.softmax(t, -1),
            torch.exp,
            lambda t: F.layer_norm(t, (16,)),
            torch.sum,
        ):
            ask(lambda: f(x).sum().backward())  # noqa: B023


def training():
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam"):
        p = torch.nn.Parameter(torch.ones(4, device="cuda"))
        p.grad = torch.ones(4, device="cuda")
        ask(getattr(torch.optim, name)([p]).step)


if __name__ == "__main__":
    halves()
    training()
    registry()

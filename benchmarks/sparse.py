"""Sparse tensors: products with ordinary matrices, their gradients, conversions."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

STATEMENTS = {
    "csr @ vector": "csr @ v",
    "csr @ 16 columns": "csr @ narrow",
    "csr @ 128 columns": "csr @ wide",
    "coo @ 16 columns": "coo @ narrow",
    "coo @ 128 columns": "coo @ wide",
    "sparse.mm, forward + backward": "torch.sparse.mm(a, x).sum().backward()",
    "sampled_addmm": "torch.sparse.sampled_addmm(csr, left, right)",
    "coalesce": "torch.sparse_coo_tensor(twice, values, size).coalesce()",
    "to_sparse_csr": "dense.to_sparse_csr()",
    "softmax": "torch.sparse.softmax(coo, 1)",
    "coo @ 4 x 4, small": "small @ tiny",
    # A gradient that stays grows with every run.
    "embedding, sparse gradient": "embed(ids, table, sparse=True).sum().backward(); del table.grad",
}


def operands(torch: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    n = 4000
    dense = torch.randn(n, n) * (torch.rand(n, n) < 0.005)
    coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    indices = coo.indices()
    return {
        "torch": torch, "dense": dense, "coo": coo, "csr": csr, "size": (n, n),
        "v": torch.randn(n), "narrow": torch.randn(n, 16), "wide": torch.randn(n, 128),
        "a": coo.detach().clone().requires_grad_(),
        "x": torch.randn(n, 16, requires_grad=True),
        "left": torch.randn(n, 32), "right": torch.randn(32, n),
        "twice": torch.cat([indices.flip(1), indices], 1), "values": torch.cat([coo.values()] * 2),
        "small": torch.eye(4).to_sparse(), "tiny": torch.randn(4, 4),
        "embed": torch.nn.functional.embedding, "ids": torch.randint(0, n, (512,)),
        "table": torch.randn(n, 64, requires_grad=True),
    }  # fmt: skip


def cases() -> Iterable[Case]:
    for label, statement in STATEMENTS.items():
        yield Case(label, operands, statement, bar=1.0)


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(cases())


if __name__ == "__main__":
    main(rows, "sparse: 4000 x 4000 with 80,000 elements, float32")

"""Methods of tensors that are made of others: loaded when first called."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


_SPLITS = ("split_with_sizes", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes")
_HOMES = {
    "histogram": "_histograms",
    "istft": "_spectral",
    "stft": "_spectral",
    **dict.fromkeys(("narrow_copy", *_SPLITS), "_copies"),
}


def _late(name: str, example: str, result: str, home: str = "_composed") -> Any:
    home = _HOMES.get(name, home)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        import importlib

        if hasattr(type(self), "_recipe"):  # Tensor.coalesce(x) of a sparse x
            own = getattr(type(self), name)
            if own is not method:
                return own(self, *args, **kwargs)
        return getattr(importlib.import_module(f"rushlight.{home}"), name)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"The method of ``rushlight.{name}``.\n\n>>> {example}\n{result}\n"
    return method


def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The tensor where the condition holds, else the other.

    >>> torch.tensor([1, 2]).where(torch.tensor([True, False]), 0)
    tensor([1, 0])
    """
    return _C._namespaces[""]["where"](condition, self, other)


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that broadcasting from this size would make.

    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = self.dim() - len(shape)
    if extra < 0 or any(
        want not in (1, have) for want, have in zip(shape, self.shape[extra:], strict=True)
    ):
        raise RuntimeError(
            f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}."
        )
    ones = [
        i + extra
        for i, (want, have) in enumerate(zip(shape, self.shape[extra:], strict=True))
        if want == 1 and have != 1
    ]
    dims = [*range(extra), *ones]
    if not shape:
        return self.sum()
    return self.sum(dims, keepdim=True).reshape(shape) if dims else self


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Writes a number to the diagonal; `wrap` begins it anew below a tall matrix.

    >>> torch.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])
    """
    if self.dim() < 2:
        raise RuntimeError(f"fill_diagonal_: dimensions must larger than 1, got {self.dim()}")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_: all dimensions of input must be of equal length, got "
            f"{list(self.shape)}"
        )
    step, count = sum(self.stride()), min(self.shape)
    self.as_strided((count,), (step,), self.storage_offset()).fill_(fill_value)
    rows, columns = self.shape[0], self.shape[1]
    if wrap and self.dim() == 2:
        for start in range(columns + 1, rows, columns + 1):
            self[start:].diagonal().fill_(fill_value)
    return self


def dim_order(self: Tensor, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    >>> torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).dim_order()
    (0, 2, 3, 1)
    """
    strides = self.stride()
    order = sorted(range(self.dim()), key=lambda i: -strides[i])
    if ambiguity_check and self.dim() > 1 and (1 in self.shape or len({*strides}) < len(order)):
        raise RuntimeError(
            "dim_order: The tensor does not have unique dim order, or cannot map to exact one of "
            f"the given memory formats: shape {list(self.shape)}, strides {list(self.stride())}"
        )
    return tuple(order)


def is_distributed(self: Tensor) -> bool:
    """False.

    >>> torch.ones(2).is_distributed()
    False
    """
    return False


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Writes ``callable(a, b, c)`` of the elements of three tensors into the first.

    >>> torch.ones(2).map2_(torch.arange(2.0), torch.full((2,), 3.0), lambda a, b, c: a + b * c)
    tensor([1., 4.])
    """
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError(
            "map2_: Can't call map2_() on Variable that requires grad. Use var.detach().map2_()"
        )
    others = [t.expand_as(self).reshape(-1).tolist() for t in (x, y)]
    values = [callable(*v) for v in zip(self.reshape(-1).tolist(), *others, strict=True)]
    return self.copy_(self.new_tensor(values).view(self.shape))


def reinforce(self: Tensor, reward: Any) -> Any:
    """Raises: a sample of ``torch.distributions`` has ``log_prob``, which stands in its place.

    >>> torch.ones(2).reinforce(1.0)
    Traceback (most recent call last):
        ...
    RuntimeError: reinforce() was removed...
    """
    raise RuntimeError(
        "reinforce() was removed. Use torch.distributions instead: loss = -m.log_prob(m.sample()) "
        "* reward for a distribution m, such as torch.distributions.Categorical(probs)"
    )


def _written(name: str, example: str, result: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        found = getattr(self.clone(), name)(*args, **kwargs)  # a derivative may need it as it was
        if found.shape != self.shape:
            raise RuntimeError(
                f"{name}_: output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(found.shape)}"
            )
        return self.copy_(found)

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__doc__ = f"``{name}`` in place.\n\n>>> {example}\n{result}\n"
    return method


_methods: dict[str, Any] = {
    f.__name__: f
    for f in (where, sum_to_size, fill_diagonal_, dim_order, is_distributed, map2_, reinforce)
}
for _name, _example, _result in (
    ("gcd", "torch.tensor([12]).gcd_(torch.tensor([8]))", "tensor([4])"),
    ("lcm", "torch.tensor([4]).lcm_(torch.tensor([6]))", "tensor([12])"),
    ("renorm", "torch.tensor([[3.0, 4.0]]).renorm_(2, 0, 1.0)", "tensor([[0.6000, 0.8000]])"),
    (
        "index_reduce",
        "torch.ones(2).index_reduce_(0, torch.tensor([1]), torch.tensor([3.0]), 'amax')",
        "tensor([1., 3.])",
    ),
):
    _methods[f"{_name}_"] = _written(_name, _example, _result)
_gone = "Traceback (most recent call last):\n    ...\nRuntimeError: torch.{0}: ..."
for _name in ("eig", "lstsq", "solve", "symeig"):
    _methods[_name] = _late(_name, f"torch.eye(2).{_name}()", _gone.format(_name), "_removed")
for _name, _example, _result in (
    ("quantile", "torch.tensor([0.0, 1.0, 3.0]).quantile(0.5)", "tensor(1.)"),
    ("nanquantile", "torch.tensor([0.0, 1.0, 3.0]).nanquantile(0.5)", "tensor(1.)"),
    ("nanmedian", "torch.tensor([1.0, float('nan')]).nanmedian()", "tensor(1.)"),
    ("frexp", "torch.tensor([3.0]).frexp().exponent", "tensor([2], dtype=torch.int32)"),
    (
        "index_reduce",
        "torch.ones(2).index_reduce(0, torch.tensor([1]), torch.tensor([3.0]), 'amax')",
        "tensor([1., 3.])",
    ),
    ("gcd", "torch.tensor([12]).gcd(torch.tensor([8]))", "tensor([4])"),
    ("lcm", "torch.tensor([4]).lcm(torch.tensor([6]))", "tensor([12])"),
    ("renorm", "torch.tensor([[3.0, 4.0]]).renorm(2, 0, 1.0)", "tensor([[0.6000, 0.8000]])"),
    ("histogram", "torch.tensor([1.0, 2.0]).histogram(2)[0]", "tensor([1., 1.])"),
    ("narrow_copy", "torch.arange(4).narrow_copy(0, 1, 2)", "tensor([1, 2])"),
    ("nonzero_static", "torch.tensor([0, 2]).nonzero_static(size=1)", "tensor([[1]])"),
    ("split_with_sizes", "torch.arange(2).split_with_sizes([1, 1])", "(tensor([0]), tensor([1]))"),
    ("unsafe_chunk", "torch.arange(2).unsafe_chunk(2)", "(tensor([0]), tensor([1]))"),
    ("unsafe_split", "torch.arange(2).unsafe_split(1)", "(tensor([0]), tensor([1]))"),
    (
        "unsafe_split_with_sizes",
        "torch.arange(2).unsafe_split_with_sizes([1, 1])",
        "(tensor([0]), tensor([1]))",
    ),
    ("stft", "torch.ones(8).stft(4, return_complex=True).shape", "torch.Size([3, 9])"),
    (
        "istft",
        "torch.ones(8).stft(4, return_complex=True).istft(4)[:2]",
        "tensor([1., 1.])",
    ),
):
    _methods[_name] = _late(_name, _example, _result)
_methods["to_padded_tensor"] = _late(
    "to_padded_tensor",
    "torch.nested.nested_tensor([[1, 2], [3]]).to_padded_tensor(0)",
    "tensor([[1, 2],\n        [3, 0]])",
    "nested",
)
_error = "Traceback (most recent call last):\n    ...\nRuntimeError: {0} expected sparse ..."
for _name, _example, _result in (
    ("to_sparse", "torch.eye(2).to_sparse().indices()", "tensor([[0, 1],\n        [0, 1]])"),
    ("to_sparse_coo", "torch.eye(2).to_sparse_coo().layout", "torch.sparse_coo"),
    ("to_sparse_csr", "torch.eye(2).to_sparse_csr().crow_indices()", "tensor([0, 1, 2])"),
    ("to_sparse_csc", "torch.eye(2).to_sparse_csc().row_indices()", "tensor([0, 1])"),
    ("to_sparse_bsr", "torch.eye(4).to_sparse_bsr((2, 2)).col_indices()", "tensor([0, 1])"),
    ("to_sparse_bsc", "torch.eye(4).to_sparse_bsc((2, 2)).row_indices()", "tensor([0, 1])"),
    ("to_dense", "torch.tensor([0, 5]).to_sparse().to_dense()", "tensor([0, 5])"),
    ("sparse_dim", "torch.eye(2).sparse_dim(), torch.eye(2).to_sparse(1).sparse_dim()", "(0, 1)"),
    ("dense_dim", "torch.eye(2).dense_dim(), torch.eye(2).to_sparse(1).dense_dim()", "(2, 1)"),
    (
        "sparse_mask",
        "torch.tensor([[1, 2], [3, 4]]).sparse_mask(torch.eye(2).to_sparse()).values()",
        "tensor([1, 4])",
    ),
    ("smm", "torch.eye(2).to_sparse().smm(torch.ones(2, 1)).values()", "tensor([1., 1.])"),
    (
        "sspaddmm",
        "torch.eye(1).to_sparse().sspaddmm(torch.eye(1).to_sparse(), torch.ones(1, 1)).to_dense()",
        "tensor([[2.]])",
    ),
    (
        "resize_as_sparse_",
        "torch.eye(2).to_sparse().resize_as_sparse_(torch.eye(3).to_sparse()).shape",
        "torch.Size([3, 3])",
    ),
    *(
        (name, f"torch.ones(2).{name}()", _error.format(name))
        for name in (
            "coalesce", "is_coalesced", "indices", "values", "crow_indices", "col_indices",
            "ccol_indices", "row_indices",
        )
    ),
    *(
        (name, f"torch.ones(2).{name}((2, 2), 2, 0)", _error.format(name))
        for name in ("sparse_resize_", "sparse_resize_and_clear_")
    ),
    *((name, "1", "1") for name in ("_nnz", "_indices", "_values", "_dimI", "_dimV",
                                    "_coalesced_", "_to_sparse")),
):  # fmt: skip
    _methods[_name] = _late(_name, _example, _result, "_sparse.methods")
_C._add_tensor_methods(_methods)

"""The class of nested tensors."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import jagged
from rushlight._nested.structure import Jagged, NestedSize, Pieces
from rushlight._structured.base import Structured, content, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]


class NestedTensor(Structured):
    """A batch whose parts have different sizes; see ``torch.nested``."""

    _structure: Any
    _kind = "NestedTensor"
    _words = "nested tensors"
    _plain = "to_padded_tensor"

    def _recipe(self) -> Any:
        return self._structure

    def _take(self, other: Any) -> None:
        if not isinstance(other, NestedTensor) or not self._structure.same(other._structure):
            raise RuntimeError("a nested tensor takes values of the same structure alone")
        self._structure, self._raw = other._structure, other._raw

    def _to_dense(self) -> Tensor:
        return self.to_padded_tensor(0)

    @property
    def is_nested(self) -> bool:
        return True

    @property
    def layout(self) -> Any:
        return self._structure.layout

    @property
    def shape(self) -> Any:
        return self._structure.shape(self._raw)

    @property
    def ndim(self) -> int:
        return self.dim()

    def dim(self) -> int:
        if isinstance(self._structure, Pieces):
            return 1 + (len(self._structure.sizes[0]) if self._structure.sizes else 0)
        return self._raw.dim() + 1

    ndimension = dim

    def numel(self) -> int:
        if isinstance(self._structure, Jagged) and self._structure.lengths is not None:
            rows = int(self._structure.lengths.sum())
            return self._raw.numel() // max(self._raw.shape[self._structure.ragged - 1], 1) * rows
        return self._raw.numel()

    nelement = numel

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        d = dim % self.dim()
        if isinstance(self._structure, Jagged):
            return self.shape[d]
        if d == 0:
            return self._structure.batch
        sizes = {size[d - 1] for size in self._structure.sizes}
        if len(sizes) != 1:
            raise RuntimeError(f"Given dimension {d} is irregular and does not have a size.")
        return sizes.pop()

    def stride(self, dim: Any = None) -> Any:
        raise RuntimeError("NestedTensorImpl doesn't support strides: ask values().stride()")

    def __len__(self) -> int:
        return int(self._structure.batch)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if isinstance(self._structure, Pieces):
            lines = []
            for part in self.unbind():
                lines.append("  " + repr(part.detach()).replace("\n", "\n  "))
            body = ",\n".join(lines)
            tail = ", requires_grad=True" if self.requires_grad else ""
            return f"nested_tensor([\n{body}\n]{tail})"
        size = tuple(self.shape)
        facts = f"size={size}, offsets={self.offsets()}"
        if self.grad_fn is not None:
            facts += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            facts += ", requires_grad=True"
        return f"NestedTensor({facts}, contiguous={self.is_contiguous()})"

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    # -- parts ------------------------------------------------------------------------------------

    def _jagged(self, name: str) -> Jagged:
        if not isinstance(self._structure, Jagged):
            raise AttributeError(
                f"'Tensor' object has no attribute '{name}': it is of strided layout"
            )
        return self._structure

    def offsets(self) -> Tensor:
        return self._jagged("offsets").offsets

    def lengths(self) -> Tensor | None:
        return self._jagged("lengths").lengths

    def values(self) -> Tensor:
        return content(self)

    @property
    def _values(self) -> Any:
        return self._raw if isinstance(self._structure, Jagged) else content(self)

    @property
    def _offsets(self) -> Tensor:
        return self.offsets()

    @property
    def _lengths(self) -> Tensor | None:
        return self.lengths()

    @property
    def _ragged_idx(self) -> int:
        return self._jagged("_ragged_idx").ragged

    @property
    def _max_seqlen(self) -> int:
        return self._jagged("_max_seqlen").longest()

    @property
    def _min_seqlen(self) -> int:
        return self._jagged("_min_seqlen").shortest()

    _maybe_max_seqlen, _maybe_min_seqlen = _max_seqlen, _min_seqlen

    def _nested_tensor_size(self) -> Tensor:
        return _C._tensor([list(p.shape) for p in self.unbind()], None, None, False)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        if dim % self.dim() != 0:
            raise RuntimeError(
                f"NestedTensor can only be unbound along dimension 0 got dimension {dim}"
            )
        return tuple(self._structure.parts(content(self)))

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        s = self._structure
        if isinstance(s, Pieces):
            return True
        return s.lengths is None and self._raw.is_contiguous()

    def contiguous(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_contiguous():
            return self
        s = self._structure
        values, rows = content(self), s.rows()
        if rows is not None:
            values = values.index_select(s.ragged - 1, rows)
            zero = s.offsets.new_zeros(1)
            s = Jagged(_ops["cat"]([zero, s.lengths.cumsum(0)]), None, s.ragged)
        return wrap(values.contiguous(), s)

    def to_padded_tensor(self, padding: float = 0.0, output_size: Any = None) -> Tensor:
        return padded(self, padding, output_size)

    def tolist(self) -> Any:
        return [p.tolist() for p in self.unbind()]

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self._raw.item()

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for nested tensors: use to_padded_tensor")

    def __getitem__(self, index: Any) -> Any:
        return self._rules["__getitem__"](self, index)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        return self.to(dtype) if dtype is not None else Tensor.type(self._raw)

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        from rushlight._structured.base import overwrite

        if not isinstance(src, NestedTensor) or not self._structure.same(src._structure):
            raise RuntimeError("copy_(): expected a nested tensor of the same structure")
        return overwrite(self, wrap(content(src).clone(), self._structure))


def padded(x: Any, padding: float, output_size: Any = None) -> Tensor:
    """An ordinary tensor in which shorter parts are filled up."""
    parts = x.unbind()
    if not parts:
        return x._raw
    most = [max(p.shape[d] for p in parts) for d in range(parts[0].dim())]
    if output_size is not None:
        wanted = tuple(int(n) for n in output_size)
        if len(wanted) != len(most) + 1 or any(
            w < m for w, m in zip(wanted[1:], most, strict=True)
        ):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size: got "
                f"{list(wanted)}, the parts need {[len(parts), *most]}"
            )
        most = list(wanted[1:])
    pad = _C._namespaces["nn.functional"]["pad"]
    filled = []
    for part in parts:
        widths: list[int] = []
        for d in reversed(range(part.dim())):
            widths += [0, most[d] - part.shape[d]]
        filled.append(pad(part, widths, value=padding) if any(widths) else part)
    made = _ops["stack"](filled)
    return made


def is_nested(x: object) -> bool:
    return isinstance(x, NestedTensor)


def is_jagged(x: Any) -> bool:
    return is_nested(x) and x.layout is jagged


from rushlight._nested import rules  # noqa: E402  the rules name the class

NestedTensor._rules = rules.RULES
__all__ = ["NestedSize", "NestedTensor"]

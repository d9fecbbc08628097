"""Counting the arithmetic of a program: multiplications and additions of matrix products.

>>> import rushlight as torch
>>> from rushlight.utils.flop_counter import FlopCounterMode
>>> with FlopCounterMode(display=False) as counter:
...     torch.nn.Linear(4, 8)(torch.ones(2, 4)).sum().backward()
>>> counter.get_total_flops()
256
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import wraps

import rushlight as torch
from rushlight._C import Tensor
from rushlight.utils._python_dispatch import TorchDispatchMode

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = torch.ops.aten
flop_registry: dict[Any, Callable[..., int]] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Says how many operations an op makes: a function of the shapes of its tensors.

    >>> import rushlight as torch
    >>> from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula
    >>> @register_flop_formula(torch.ops.aten.tan)
    ... def tan_flop(shape, out_shape=None, **kwargs):
    ...     return 10 * shape.numel()
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = torch.ones(3).tan()
    >>> counter.get_total_flops()
    30
    """

    def register(formula: Any) -> Any:
        from rushlight.utils._pytree import tree_map_only

        @wraps(formula)
        def of_shapes(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
            if not get_raw:
                args, kwargs, out_shape = tree_map_only(
                    Tensor, lambda t: t.shape, (args, kwargs, out_val)
                )
                kwargs["out_shape"] = out_shape
            else:
                kwargs["out_val"] = out_val
            return int(formula(*args, **kwargs))

        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if target in flop_registry:
                raise ValueError(f"duplicate registrations for {target}")
            flop_registry[target] = of_shapes
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a matrix product."""
    return a_shape[0] * a_shape[1] * b_shape[1] * 2


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, **kwargs: Any) -> int:
    """Of a matrix product and a sum; the sum is not counted."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, **kwargs: Any) -> int:
    """Of a batch of matrix products."""
    return a_shape[0] * a_shape[1] * a_shape[2] * b_shape[2] * 2


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Any, b_shape: Any, **kwargs: Any) -> int:
    """Of a batch of matrix products and a sum."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Of a convolution: each element of the output takes a window of the input."""
    places = (x_shape if transposed else out_shape)[2:]
    return math.prod(places) * math.prod(w_shape) * x_shape[0] * 2


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(
    x_shape: Any,
    w_shape: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Of attention: scores, and what they weigh."""
    b, h, q, d = query_shape
    k, width = key_shape[2], value_shape[3]
    return b * h * q * k * (d + width) * 2


_ATTENTION = (
    aten._scaled_dot_product_flash_attention_for_cpu,
    aten.scaled_dot_product_attention,
)


@register_flop_formula(_ATTENTION)
def sdpa_flop(query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, **kwargs: Any) -> int:
    """Of attention."""
    if len(query_shape) != 4:
        batch = math.prod(query_shape[:-2])
        shapes = [(batch, 1, *s[-2:]) for s in (query_shape, key_shape, value_shape)]
        return sdpa_flop_count(*shapes)
    return sdpa_flop_count(query_shape, key_shape, value_shape)


@register_flop_formula(aten.einsum, get_raw=True)
def einsum_flop(equation: Any, *operands: Any, out_val: Any = None, **kwargs: Any) -> int:
    """Of a sum of products of two operands: one step for each combination of its letters."""
    tensors = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    )
    if len(tensors) != 2 or not isinstance(equation, str) or "..." in equation:
        return 0
    sizes: dict[str, int] = {}
    inputs = equation.replace(" ", "").partition("->")[0].split(",")
    for letters, tensor in zip(inputs, tensors, strict=True):
        sizes.update(zip(letters, tensor.shape, strict=True))
    return 2 * math.prod(sizes.values())


# By name: not all of them are among the ops of aten.
_RECURRENT = {
    f"{name}{form}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("", "_cell")
}


def _recurrent_weights(packet: Any, args: Sequence[Any]) -> tuple[list[list[Any]], int, Any]:
    """The matrices of a recurrent layer by layer and direction (by input, by state, and what
    projects that), how many of these meet its own input, and the state that it begins with."""
    if packet.__name__.endswith("_cell"):
        return [list(args[2:4])], 1, args[1]
    # Two lists: the state of an LSTM has three dimensions, weights have two or one.
    at = next(i for i, a in enumerate(args) if isinstance(a, (list, tuple)) and a[0].dim() == 2)
    directions = 2 if args[at + 5] else 1
    size = len(args[at]) // (directions * args[at + 2])
    groups = [args[at][i : i + size] for i in range(0, len(args[at]), size)]
    matrices = [[w for w in group if w.dim() == 2] for group in groups]
    return matrices, directions, args[at - 1]


def _recurrent_flop(packet: Any, args: Sequence[Any]) -> int:
    """Every step multiplies by every matrix."""
    steps = args[0].numel() // max(1, args[0].shape[-1])
    groups, _, _ = _recurrent_weights(packet, args)
    return 2 * steps * sum(w.numel() for group in groups for w in group)


def _recurrent_backward(packet: Any, args: Sequence[Any], flops: int) -> int:
    """A product for each matrix that learns, and one for what met it, unless nobody asks."""
    steps = args[0].numel() // max(1, args[0].shape[-1])
    groups, first, state = _recurrent_weights(packet, args)
    state = state[0] if isinstance(state, (list, tuple)) else state
    learnt = sum(w.numel() for group in groups for w in group if w.requires_grad)
    of_input = 0 if args[0].requires_grad else sum(group[0].numel() for group in groups[:first])
    of_state = 0 if state.requires_grad else sum(group[1].numel() for group in groups)
    return 2 * steps * (learnt - of_input) + flops - 2 * state.shape[-2] * of_state


_PRODUCTS = {
    aten.mm: (0, 1), aten.addmm: (1, 2), aten.bmm: (0, 1), aten.baddbmm: (1, 2),
    aten.convolution: (0, 1), aten.einsum: (1, 2),
}  # fmt: skip

_GRADIENTS = {aten.addmm: aten.mm, aten.baddbmm: aten.bmm}  # the ops that PyTorch's rules call


def _backward_flop(packet: Any, args: Sequence[Any], flops: int) -> int:
    """Of the gradients: a product gives one more for each factor that needs one."""
    if packet in _PRODUCTS:
        factors = [args[i] if i < len(args) else None for i in _PRODUCTS[packet]]
        if packet is aten.einsum:
            factors = list(args[1]) if isinstance(args[1], (list, tuple)) else list(args[1:])
        return flops * sum(isinstance(t, Tensor) and t.requires_grad for t in factors)
    if packet.__name__ in _RECURRENT:
        return _recurrent_backward(packet, args, flops)
    if packet in (
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten.scaled_dot_product_attention,
    ):
        # The scores again, then the gradients of both factors of both products.
        return flops * 5 // 2
    return 0


class FlopCounterMode(TorchDispatchMode):
    """Counts the operations of the matrix products of a block, forward and backward, by module.

    >>> import rushlight as torch
    >>> from rushlight.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     x = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_flop_counts()["Global"]
    {<OpOverloadPacket(op='aten.mm')>: 48}
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            import warnings

            warnings.warn("mods argument is not needed anymore", stacklevel=2)
        self.depth = depth
        self.display = display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        custom = {
            key: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
            for key, formula in (custom_mapping or {}).items()
        }
        self.flop_registry = {**flop_registry, **custom}
        self._path: list[tuple[Any, str]] = []
        self._hooks: list[Any] = []

    def get_total_flops(self) -> int:
        """The operations of the whole block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """The operations by module and op; "Global" is the whole block."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, modules down to a depth."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = [("Module", "FLOP", "% Total")]
        names = ["Global", *sorted(name for name in self.flop_counts if name != "Global")]
        for name in names:
            level = 0 if name == "Global" else name.count(".") + 1
            if level > depth:
                continue
            counts = self.flop_counts[name]
            indent = " " * level
            share = sum(counts.values())
            rows.append((indent + name, _number(share), f"{100 * share / total:.2f}%"))
            rows += [
                (f"{indent} - {op}", _number(n), f"{100 * n / total:.2f}%")
                for op, n in counts.items()
            ]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [
            f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}" for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def __enter__(self) -> FlopCounterMode:
        from rushlight.nn.modules import module as modules

        self.flop_counts.clear()
        self._hooks = [
            modules.register_module_forward_pre_hook(self._enter_module),
            modules.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        result = super().__exit__(*error)
        for hook in self._hooks:
            hook.remove()
        self._path.clear()
        if self.display:
            print(self.get_table(self.depth))
        return result

    def _enter_module(self, module: Any, inputs: Any) -> None:
        if not self._path:
            name = type(module).__name__
        else:
            parent, above = self._path[-1]
            known = {id(child): key for key, child in parent.named_modules()}
            name = f"{above}.{known.get(id(module), type(module).__name__)}"
        self._path.append((module, name))

    def _leave_module(self, module: Any, inputs: Any, output: Any) -> None:
        if self._path and self._path[-1][0] is module:
            self._path.pop()

    def _count(self, packet: Any, flops: int, path: Sequence[str]) -> None:
        for name in ("Global", *path):
            self.flop_counts[name][packet] += flops

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        packet = func.overloadpacket
        formula = self.flop_registry.get(packet)
        if formula is not None:
            flops = formula(*args, **kwargs, out_val=result)
        elif packet.__name__ in _RECURRENT:
            flops = _recurrent_flop(packet, args)
        else:
            return result
        path = [name for _, name in self._path]
        self._count(packet, flops, path)
        later = _backward_flop(packet, args, flops)
        first = result[0] if isinstance(result, tuple) else result
        if later and isinstance(first, Tensor) and first.grad_fn is not None:
            # What autograd computes is no call of the program: it is counted when it happens.
            kind = _GRADIENTS.get(packet, packet)
            first.grad_fn.register_prehook(lambda grads: self._count(kind, later, path))
        return result


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    from rushlight.utils._pytree import tree_map_only

    def run(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, shape = tree_map_only(Tensor, lambda t: t.shape, (args, kwargs, out_val))
        return int(formula(*args, out_shape=shape, **kwargs))

    return run


def _number(count: int) -> str:
    for power, letter in ((12, "T"), (9, "B"), (6, "M"), (3, "K")):
        if count >= 10**power:
            return f"{count / 10**power:.3f}{letter}"
    return str(count)

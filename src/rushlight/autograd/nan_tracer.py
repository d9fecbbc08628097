"""Finding the operation that first made a value infinite or NaN."""

from __future__ import annotations

import math
import sys
from collections import namedtuple

from rushlight import _C
from rushlight.autograd.grad_mode import no_grad
from rushlight.overrides import TorchFunctionMode

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

_package = __file__.rsplit("autograd", 1)[0]


class Statistics(namedtuple("Statistics", "name shape dtype minimum maximum nan inf")):
    """What an operand looks like: its range over the finite elements, and how many are not.

    >>> import rushlight as torch
    >>> with torch.autograd.trace_nan(stop=False) as tracer:
    ...     y = torch.tensor([1.0, 0.0]).log()
    >>> print(tracer.first.results[0])
    0: float32 [2], from 0 to 0, 1 inf
    """

    __slots__ = ()

    def __str__(self) -> str:
        range_ = "" if self.minimum is None else f", from {self.minimum:.6g} to {self.maximum:.6g}"
        odd = "".join(f", {n} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "inf")) if n)
        return f"{self.name}: {self.dtype} {list(self.shape)}{range_}{odd}"


class NonFiniteError(RuntimeError):
    """Raised by ``trace_nan``: an operation turned finite operands into NaN or infinity.

    ``phase`` is "forward" or "backward", ``op`` the name of the operation or node, ``line`` its
    (file, line, function) in the user's program, ``operands`` and ``results`` their statistics.
    """

    def __init__(
        self,
        phase: str,
        op: str,
        line: Any,
        operands: Sequence[Statistics],
        results: Sequence[Statistics],
    ) -> None:
        self.phase, self.op, self.line = phase, op, line
        self.operands, self.results = tuple(operands), tuple(results)
        at = f"{line[0]}:{line[1]}" if line else "an unknown line"
        of = "" if phase == "forward" else ", the backward of the operation"
        text = [f"{op}{of} at {at} turned finite values into non-finite ones"]
        text += [f"  operand {s}" for s in self.operands]
        text += [f"  result {s}" for s in self.results]
        super().__init__("\n".join(text))


def _is_tracked(value: Any) -> bool:
    if not isinstance(value, _C.Tensor) or value.is_meta:  # meta tensors have no elements
        return False
    return value.is_floating_point() or value.is_complex()


def _tensors(value: Any) -> Iterator[Any]:
    if _is_tracked(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _statistics(name: str, tensor: Any) -> Statistics:
    with no_grad():
        plain = tensor.detach()
        real = plain.abs() if plain.is_complex() else plain
        nan, inf = real.isnan(), real.isinf()
        finite = real[~(nan | inf)]
        low, high = (finite.min().item(), finite.max().item()) if finite.numel() else (None, None)
        dtype = str(tensor.dtype).rsplit(".", 1)[-1]
        odd = int(nan.sum().item()), int(inf.sum().item())
        return Statistics(name, tuple(tensor.shape), dtype, low, high, *odd)


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if _is_tracked(value):
        with no_grad():
            # 0 * x is 0 exactly when x is finite.
            plain = value.detach()
            total = (plain.abs() if plain.is_complex() else plain).mul(0).sum().item()
            return total == 0
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    return True


def _user_line() -> Any:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_package):
        frame = frame.f_back
    if frame is None:
        return None
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname


class trace_nan(TorchFunctionMode):
    """Inside, the first operation that turns finite values into NaN or infinity raises.

    Forward operations are checked as they run, those of backward passes over graphs recorded
    inside too. With ``stop=False`` nothing is raised: ``first`` is the error that would have been.

    >>> import rushlight as torch
    >>> x = torch.zeros(3, requires_grad=True)
    >>> with torch.autograd.trace_nan(stop=False) as tracer:
    ...     y = (x - 2).sqrt().sum()
    >>> tracer.first.phase, tracer.first.op
    ('forward', 'sqrt')
    """

    def __init__(self, stop: bool = True) -> None:
        self.stop = stop
        self.first: NonFiniteError | None = None
        self._sound = True  # whether the operation that runs now got finite operands
        self._set_parts(("function_mode", None), ("node_hook", self._watch))

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        operands = (*args, *named.values())
        # In-place operations overwrite what they read, so operands are looked at before.
        watched = self.first is None and any(True for _ in _tensors(operands))
        before = watched and _finite(operands)
        said = [_statistics(f"{i}", t) for i, t in enumerate(_tensors(operands))] if before else []
        outer, self._sound = self._sound, before
        try:
            result = func(*args, **named)
        finally:
            self._sound = outer
        if before and not _finite(result):
            results = [_statistics(f"{i}", t) for i, t in enumerate(_tensors(result))]
            name = getattr(func, "__name__", str(func))
            self._report(NonFiniteError("forward", name, _user_line(), said, results))
        return result

    def _watch(self, node: Any) -> None:
        if self._sound:
            node.register_hook(self._checker(node.name(), node._where))

    def _checker(self, name: str, line: Any) -> Callable[..., None]:
        def check(grad_inputs: Any, grad_outputs: Any) -> None:
            if self.first is not None or not _finite(grad_outputs) or _finite(grad_inputs):
                return
            operands = [
                _statistics(f"gradient {i}", t) for i, t in enumerate(grad_outputs) if t is not None
            ]
            results = [
                _statistics(f"gradient {i}", t) for i, t in enumerate(grad_inputs) if t is not None
            ]
            self._report(NonFiniteError("backward", name, line, operands, results))

        return check

    def _report(self, error: NonFiniteError) -> None:
        self.first = error
        if self.stop:
            raise error

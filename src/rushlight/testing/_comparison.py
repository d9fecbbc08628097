"""Assertions about tensors, numbers and containers of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight
from rushlight import Tensor

__all__ = ["assert_allclose", "assert_close"]

# Relative and absolute tolerance by dtype; exact for all others.
_TOLERANCES = {
    rushlight.float16: (1e-3, 1e-5),
    rushlight.bfloat16: (1.6e-2, 1e-5),
    rushlight.float32: (1.3e-6, 1e-5),
    rushlight.float64: (1e-7, 1e-7),
    rushlight.complex64: (1.3e-6, 1e-5),
    rushlight.complex128: (1e-7, 1e-7),
}


class _Options:
    """How to compare."""

    def __init__(
        self,
        rtol: float | None,
        atol: float | None,
        equal_nan: bool,
        check_dtype: bool,
        check_stride: bool,
        allow_subclasses: bool,
    ) -> None:
        if (rtol is None) is not (atol is None):
            raise ValueError(
                f"assert_close: rtol and atol must both be specified or both be unspecified, "
                f"but got rtol={rtol} and atol={atol}"
            )
        self.given = None if rtol is None or atol is None else (rtol, atol)
        self.equal_nan = equal_nan
        self.check_dtype = check_dtype
        self.check_stride = check_stride
        self.allow_subclasses = allow_subclasses

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        if self.given is not None:
            return self.given
        found = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        return max(r for r, _ in found), max(a for _, a in found)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises an AssertionError that tells the difference unless the two are close.

    Close is ``|actual - expected| <= atol + rtol * |expected|``, with tolerances by dtype where
    none are given. Sequences and mappings are compared item by item.

    >>> import rushlight as torch
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-6]))
    """
    options = _Options(rtol, atol, equal_nan, check_dtype, check_stride, allow_subclasses)
    try:
        _compare(actual, expected, options, "")
    except AssertionError as error:
        if msg is None:
            raise AssertionError(str(error)) from None
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: the older form of ``assert_close``: dtypes may differ and NaNs are equal.

    >>> import rushlight as torch
    >>> torch.testing.assert_allclose(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]))
    """
    actual, expected = _as_tensor(actual), _as_tensor(expected)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


def _compare(actual: Any, expected: Any, options: _Options, where: str) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise AssertionError(f"None mismatch: {actual!r} is not {expected!r}{_at(where)}")
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _compare_keys(actual, expected, where)
        for key in expected:
            _compare(actual[key], expected[key], options, f"{where}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise AssertionError(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
                + _at(where)
            )
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, options, f"{where}[{i}]")
    else:
        _compare_values(actual, expected, options, where)


def _compare_keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any], where: str) -> None:
    missing = sorted(map(repr, set(expected) - set(actual)))
    more = sorted(map(repr, set(actual) - set(expected)))
    if missing or more:
        raise AssertionError(
            f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}"
            f"\nAdditional keys in the actual mapping: {more}{_at(where)}"
        )


def _compare_values(actual: Any, expected: Any, options: _Options, where: str) -> None:
    scalars = not isinstance(actual, Tensor) and not isinstance(expected, Tensor)
    numbers = scalars and isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS)
    if not numbers and not options.allow_subclasses and type(actual) is not type(expected):
        raise TypeError(
            f"assert_close: {type(actual).__name__} and {type(expected).__name__} differ in type"
        )
    a, b = _as_tensor(actual), _as_tensor(expected)
    if isinstance(actual, Tensor) is not isinstance(expected, Tensor) and (
        isinstance(actual, _NUMBERS) or isinstance(expected, _NUMBERS)
    ):
        raise TypeError(
            "assert_close: No comparison pair was able to handle inputs of type "
            f"{type(actual)} and {type(expected)}{_at(where)}"
        )
    if a.shape != b.shape:
        raise AssertionError(
            f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.{_at(where)}"
        )
    if options.check_dtype and numbers and type(actual) is not type(expected):
        raise AssertionError(
            f"The (d)types do not match: {type(actual)} != {type(expected)}.{_at(where)}"
        )
    if options.check_dtype and a.dtype is not b.dtype:
        raise AssertionError(
            f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}.{_at(where)}"
        )
    if options.check_stride and a.stride() != b.stride():
        raise AssertionError(
            f"The values for attribute 'stride()' do not match: {a.stride()} != {b.stride()}."
            + _at(where)
        )
    rtol, atol = options.tolerances(a.dtype, b.dtype)
    common = rushlight.promote_types(a.dtype, b.dtype)
    a, b = a.detach().to(common), b.detach().to(common)
    close = rushlight.isclose(a, b, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if not bool(close.all()):
        raise AssertionError(_difference(a, b, close, rtol, atol, numbers) + _at(where))


_NUMBERS = (int, float, complex)


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, _NUMBERS) or hasattr(value, "__array_interface__"):
        dtype = {bool: rushlight.bool, int: rushlight.int64, float: rushlight.float64}.get(
            type(value), rushlight.complex128 if isinstance(value, complex) else None
        )
        return rushlight.as_tensor(value, dtype=dtype)
    raise TypeError(
        f"assert_close: No comparison pair was able to handle inputs of type {type(value)}"
    )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, Tensor))


def _at(where: str) -> str:
    return f"\n\nThe failure occurred for item {where}" if where else ""


def _difference(
    a: Tensor, b: Tensor, close: Tensor, rtol: float, atol: float, numbers: bool
) -> str:
    kind = "Scalars" if numbers else "Tensor-likes"
    exact = rtol == 0 and atol == 0
    title = f"{kind} are not {'equal' if exact else 'close'}!\n\n"
    if a.dtype is rushlight.bool:
        a, b = a.to(rushlight.int64), b.to(rushlight.int64)
    gap = (a - b).abs()
    ratio = gap / b.abs()
    gap, ratio = (_without(x, close) for x in (gap, ratio))
    if numbers:
        return (
            f"{title}Expected {b.item()} but got {a.item()}.\n"
            f"Absolute difference: {gap.item()}{_allowed(atol, exact)}\n"
            f"Relative difference: {ratio.item()}{_allowed(rtol, exact)}"
        )
    wrong, total = int((~close).sum()), close.numel()
    return (
        f"{title}Mismatched elements: {wrong} / {total} ({wrong / total:.1%})\n"
        f"Greatest absolute difference: {_greatest(gap)}{_allowed(atol, exact)}\n"
        f"Greatest relative difference: {_greatest(ratio)}{_allowed(rtol, exact)}"
    )


def _without(x: Tensor, close: Tensor) -> Tensor:
    """Differences where values are close count as none; NaN beats all others."""
    return rushlight.where(close, rushlight.zeros_like(x), x)


def _greatest(x: Tensor) -> str:
    flat = int(x.argmax())
    index = []
    for size in reversed(x.shape):
        index.append(flat % size)
        flat //= size
    return f"{x.max().item()} at index {tuple(reversed(index))}"


def _allowed(tolerance: float, exact: bool) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"

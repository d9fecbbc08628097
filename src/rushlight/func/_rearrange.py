"""Reordering, splitting and joining dimensions by name."""

from __future__ import annotations

import math

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]
_REST = "..."


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """A tensor with its dimensions in another order, split or joined, as a pattern says.

    Names stand for dimensions, parentheses for several that are one, `...` for any others and `1`
    for a dimension of size one. A list of tensors is stacked first.

    >>> import rushlight as torch
    >>> image = torch.zeros(8, 6, 3)
    >>> torch.func.rearrange(image, "(h p) (w q) c -> h w (p q c)", p=2, q=2).shape
    torch.Size([4, 3, 12])
    """
    if not isinstance(tensor, _C.Tensor):
        tensor = _ops["stack"](list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: Pattern must contain a single '->' separator: {pattern!r}")
    left, right = _groups(sides[0]), _groups(sides[1])
    _check(left, right, axes_lengths, pattern)
    left, right = _without_rest(left, right, tensor, pattern)
    lengths = _lengths(left, tensor.shape, axes_lengths, pattern)
    names = [name for group in left for name in group]
    order = [names.index(name) for group in right for name in group]
    whole = tensor.reshape([lengths[name] for name in names]).permute(order)
    return whole.reshape([math.prod(lengths[name] for name in group) for group in right])


def _groups(side: str) -> list[list[str]]:
    """The dimensions of one side, each as the names it is made of: none for a one."""
    groups: list[list[str]] = []
    inside = False
    for token in side.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            if inside:
                raise ValueError(
                    "rearrange: Axis composition is one-level (brackets inside brackets not "
                    f"allowed): {side.strip()!r}"
                )
            groups.append([])
        elif token == ")" and not inside:
            raise ValueError(f"rearrange: Imbalanced parentheses in expression: {side.strip()!r}")
        elif token == "1":
            groups.extend([] if inside else [[]])
        elif token != ")":
            _check_name(token)
            if inside:
                groups[-1].append(token)
            else:
                groups.append([token])
        inside = token == "(" or (inside and token != ")")
    if inside:
        raise ValueError(f"rearrange: Imbalanced parentheses in expression: {side.strip()!r}")
    return groups


def _check_name(token: str) -> None:
    if token == _REST:
        return
    if token.isdecimal():
        raise ValueError(f"rearrange only supports unnamed axes of size 1, got {token}")
    if not token.isidentifier() or token[0] == "_" or token[-1] == "_":
        raise ValueError(
            f"rearrange: Invalid axis identifier: {token} (a name may not start or end with an "
            "underscore)"
        )


def _check(
    left: list[list[str]], right: list[list[str]], given: dict[str, int], pattern: str
) -> None:
    if any(_REST in group for group in left if group != [_REST]):
        raise ValueError(
            f"rearrange: Ellipsis in parenthesis in the left side is not allowed: {pattern!r}"
        )
    both = []
    for side in (left, right):
        names = [name for group in side for name in group]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"rearrange: Indexing expression contains duplicate dimension {twice[0]!r}"
            )
        both.append(set(names))
    if both[0] != both[1]:
        raise ValueError(
            "rearrange: Identifiers only on one side of rearrange expression (should be on both): "
            f"{sorted(both[0] ^ both[1])}"
        )
    unknown = sorted(set(given) - both[0])
    if unknown:
        raise ValueError(f"rearrange: Identifiers not found in rearrange expression: {unknown}")


def _without_rest(
    left: list[list[str]], right: list[list[str]], tensor: Any, pattern: str
) -> tuple[list[list[str]], list[list[str]]]:
    """Both sides with names for the dimensions that `...` stands for."""
    has_rest = [_REST] in left
    count = tensor.dim() - len(left) + has_rest
    if count < 0 or (count and not has_rest):
        raise ValueError(
            f"rearrange: Number of dimensions in pattern ({len(left)}) must be equal to the number "
            f"of dimensions in the tensor ({tensor.dim()}): {pattern!r}"
        )
    names = [f"{_REST}{i}" for i in range(count)]
    at = left.index([_REST]) if has_rest else 0
    named = [*left[:at], *([n] for n in names), *left[at + 1 :]] if has_rest else left
    ordered: list[list[str]] = []
    for group in right:
        if group == [_REST]:
            ordered += [[n] for n in names]
        else:
            ordered.append([m for n in group for m in (names if n == _REST else [n])])
    return named, ordered


def _lengths(
    groups: list[list[str]], shape: Any, given: dict[str, int], pattern: str
) -> dict[str, int]:
    lengths = dict(given)
    for group, size in zip(groups, shape, strict=True):
        unknown = [name for name in group if name not in lengths]
        if len(unknown) > 1:
            raise ValueError(
                f"rearrange: cannot infer the sizes of two dimensions at once, {unknown[0]} and "
                f"{unknown[1]}, in {pattern!r}: give one of them by name"
            )
        known = math.prod(lengths[name] for name in group if name in lengths)
        if unknown and known and size % known == 0:
            lengths[unknown[0]] = size // known
        elif unknown or known != size:
            raise ValueError(
                f"rearrange: a dimension of size {size} does not fit ({' '.join(group)}) with "
                f"{ {n: lengths[n] for n in group if n in lengths} }"
            )
    return lengths

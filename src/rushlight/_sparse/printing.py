"""How a sparse tensor prints."""

from __future__ import annotations

from rushlight._tensor_str import _body, _history, _implied_dtypes, get_printoptions

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def _part(name: str, t: Any) -> str:
    """``indices=tensor([[0, 1],`` and its lines, each under the first bracket."""
    if t.numel() == 0:
        return f"{name}=tensor([], size={tuple(t.shape)})"
    return f"{name}=tensor({_body(t.detach(), len('tensor(' * 2 + name) + 1)})"


def sparse_repr(x: Any) -> str:
    pattern = x._pattern
    coo = pattern.is_coo
    names = (
        ("indices",) if coo else
        ("crow_indices", "col_indices") if pattern.by_row else ("ccol_indices", "row_indices")
    )  # fmt: skip
    lines = [_part(n, p) + "," for n, p in zip(names, pattern.parts, strict=True)]
    lines.append(_part("values", x._raw) + ",")
    facts = [f"size={pattern.size}", f"nnz={pattern.nnz}"]
    if str(x.dtype) not in _implied_dtypes()[1]:
        facts.append(f"dtype={x.dtype}")
    facts.append(f"layout={x.layout}")
    history = _history(x)
    if history:
        facts.append(history)
    if coo:
        lines.append(facts.pop(0) + ",")
    text = "tensor(" + "\n       ".join(lines)
    used = len(text) - text.rfind("\n")
    for fact in facts:
        if used + len(fact) + 2 > get_printoptions()["linewidth"]:
            text += "\n       " + fact + ","
            used = 7 + len(fact)
        else:
            text += f" {fact},"
            used += len(fact) + 2
    return text[:-1] + ")"

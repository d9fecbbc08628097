"""The examples that the docstrings of ops show, read when somebody asks for a docstring.

There is a text file for each file of ``csrc/ops``. In it the name of an op stands at the margin,
with its namespace if that is not rushlight itself, and the example is indented below it::

    nn.functional.relu
        >>> F.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])

The names ``torch``, ``nn``, ``F`` (nn.functional) and ``math`` are there.
"""

from __future__ import annotations

import textwrap
from pathlib import Path


def read(path: Path) -> dict[str, str]:
    """The examples of one file by the names of the ops."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line[0].isspace():
            lines = found[line.strip()] = []
        else:
            lines.append(line)
    return {name: textwrap.dedent("\n".join(text)).strip() for name, text in found.items()}


EXAMPLES: dict[str, str] = {}
for _path in sorted(Path(__file__).parent.glob("*.txt")):
    EXAMPLES |= read(_path)


def of(name: str, namespace: str) -> str:
    """The example of an op; its in-place form has the same.

    >>> from rushlight._examples import of
    >>> of("relu_", "nn.functional").splitlines()[-1]
    'tensor([0., 2.])'
    """
    full = f"{namespace}.{name}" if namespace else name
    return EXAMPLES.get(full) or EXAMPLES.get(full.removesuffix("_"), "")

"""Pages in one file each: a shared look, small scripts, data inside. Nothing is fetched.

A page is a template (``name.html``, the inside of ``<main>``) and scripts and styles beside it.
``base.css`` has the components: ``.card``, ``.stats``, ``table.data``, ``.finding``, ``.badge``,
``.controls``, ``.loc``, ``.src``. ``base.js`` gives scripts the data as ``RL.data`` and helpers.

>>> from rushlight import _pages
>>> text = _pages.page("A title", body="<p>hello</p>", facts="today")
>>> text.startswith("<!doctype html>"), 'src="' in text
(True, False)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["escape", "json_text", "page", "read", "save", "show"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))

_FLAME = (
    "M13 0c1.2 4.8 8 8.3 8 15.2A8 8 0 0 1 13 23.4a8 8 0 0 1-8-8.2c0-3.6 2-5.6 3.6-7.8.5 2 1.5 3.1 "
    "2.7 3.7C10.6 7.4 11.2 3.3 13 0z"
)
_MARK = (
    '<svg class="mark" viewBox="0 0 26 30" aria-hidden="true">'
    f'<path fill="currentColor" d="{_FLAME}"/>'
    '<rect x="11.5" y="24.5" width="3" height="5.5" rx="1" fill="currentColor" '
    'opacity=".55"/></svg>'
)
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 -1 26 26'%3E"
    f"%3Cpath fill='%23a84300' d='{_FLAME}'/%3E%3C/svg%3E"
)
_SWITCH = (
    '<button id="theme" class="icon theme" type="button" aria-pressed="false" '
    'aria-label="Dark theme" title="Dark theme"><svg viewBox="0 0 16 16" aria-hidden="true">'
    '<path fill="currentColor" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.5v11a5.5 5.5 0 0 1 '
    '0-11z"/></svg></button>'
)
# Set before anything is painted, so that a dark page never flashes.
_THEME = (
    'document.documentElement.dataset.theme=matchMedia("(prefers-color-scheme: dark)").matches'
    '?"dark":"light"'
)


def escape(text: object) -> str:
    """Text as HTML shows it.

    >>> from rushlight import _pages
    >>> _pages.escape("a < b")
    'a &lt; b'
    """
    from html import escape

    return escape(str(text))


def json_text(value: Any) -> str:
    """JSON that may lie inside a ``<script>``: NaN and infinities are strings of their names.

    >>> from rushlight import _pages
    >>> _pages.json_text({"a": [1.5, float("nan")], "b": "</script>"})
    '{"a":[1.5,"NaN"],"b":"\\\\u003c/script>"}'
    """
    import json

    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        if value != value:
            return "NaN"
        return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def read(name: str) -> str:
    """A file beside this one."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def page(
    title: str,
    *,
    body: str,
    facts: str = "",
    data: Any = None,
    styles: Iterable[str] = (),
    scripts: Iterable[str] = (),
) -> str:
    """A whole page. ``body`` is HTML, ``title`` and ``facts`` are text, the rest names of files."""
    css = "\n".join(map(read, ("base.css", *styles)))
    js = "\n".join(map(read, ("base.js", *scripts)))
    note = f'<p class="facts">{escape(facts)}</p>' if facts else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<script>{_THEME}</script>\n<style>\n{css}</style>\n"
        f'</head>\n<body>\n<a class="skip" href="#main">Skip to the content</a>\n'
        f'<header class="top">{_MARK}<div class="title"><h1>{escape(title)}</h1>{note}</div>'
        f'{_SWITCH}</header>\n<main id="main" tabindex="-1">\n{body}\n</main>\n'
        '<div id="live" class="sr" role="status" aria-live="polite"></div>\n'
        f'<script id="data" type="application/json">{json_text(data)}</script>\n'
        f"<script>\n{js}</script>\n</body>\n</html>\n"
    )


def save(path: str | os.PathLike[str], text: str) -> str:
    """Writes a page; gives the path, absolute."""
    target = os.path.abspath(os.fspath(path))
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)
    return target


def show(text: str, name: str) -> str:
    """Writes a page to a temporary file and opens it in the browser; gives the path."""
    import tempfile
    import webbrowser
    from pathlib import Path

    folder = tempfile.mkdtemp(prefix="rushlight-")
    path = save(os.path.join(folder, f"{name}.html"), text)
    webbrowser.open(Path(path).as_uri())
    return path

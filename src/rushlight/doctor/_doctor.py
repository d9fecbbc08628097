"""The doctor: a context that observes what runs inside and says what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.doctor._check import all_checks
from rushlight.doctor._finding import SEVERITIES
from rushlight.doctor._observer import Observer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from rushlight.doctor._finding import Finding


class Doctor:
    """Observes the training inside its block; ``findings`` are the mistakes that it saw.

    ``silence`` names checks to leave out. The first steps are watched closely, later ones as far as
    it costs little; with ``every_step`` all of them. Results and random streams stay as they are.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> with torch.doctor(silence=["grads-not-cleared"]) as d:
    ...     layer(torch.ones(3, 2)).sum().backward()
    >>> d.findings
    []
    >>> print(d)
    doctor: no mistakes found (0 optimizer steps, 1 backward pass)
    """

    def __init__(self, *, silence: Iterable[str] = (), every_step: bool = False) -> None:
        known = all_checks()
        self.silenced = [silence] if isinstance(silence, str) else list(silence)
        for name in self.silenced:
            if name not in known:
                from rushlight._missing import near

                close = near(name, known)
                hint = f" (near: {', '.join(close)})" if close else ""
                raise ValueError(f"doctor: there is no check '{name}'{hint}")
        checks = [check for name, check in known.items() if name not in self.silenced]
        self._observer = Observer(checks, every_step)

    def __enter__(self) -> Self:
        self._observer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._observer.stop()

    @property
    def findings(self) -> list[Finding]:
        """What was found, the worst first. Complete when the block is left."""
        found = self._observer.findings.values()
        return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), f.name, f.place or ()))

    @property
    def serious(self) -> bool:
        """Whether something was found that makes results wrong or training useless."""
        return any(finding.severity == "serious" for finding in self.findings)

    @property
    def failures(self) -> list[tuple[str, BaseException]]:
        """Checks that broke, and by what: the doctor's own mistakes."""
        return self._observer.failures

    def to_dict(self) -> dict[str, Any]:
        """The report in plain values.

        >>> import rushlight as torch
        >>> with torch.doctor() as d:
        ...     pass
        >>> d.to_dict()["findings"]
        []
        """
        return {
            "steps": self._observer.steps,
            "backward_passes": self._observer.passes,
            "serious": self.serious,
            "silenced": self.silenced,
            "findings": [finding.to_dict() for finding in self.findings],
            "broken_checks": [f"{name}: {error!r}" for name, error in self.failures],
        }

    def to_json(self, path: str | None = None) -> str:
        """The report as JSON, also written to a file where one is named."""
        import json

        return _written(json.dumps(self.to_dict(), indent=2, default=str) + "\n", path)

    def to_html(self, path: str | None = None, title: str = "") -> str:
        """The report as one HTML page that needs nothing else, also written to a file."""
        from rushlight.doctor._page import page

        return _written(page(self.to_dict(), title), path)

    def to_text(self) -> str:
        """The report as text, in colour for a terminal."""
        from rushlight.doctor._text import text

        return text(self.to_dict())

    __str__ = to_text


def _written(content: str, path: str | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    return content

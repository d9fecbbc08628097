"""The base of checks. A subclass in a file under ``_checks/`` is all it takes to add one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rushlight.doctor._finding import SEVERITIES, Finding

if TYPE_CHECKING:
    from rushlight.doctor._finding import Place
    from rushlight.doctor._observer import Observer

    T = TypeVar("T", bound="Listener")


class Listener:
    """Hears the events whose methods it defines: see docs/guide/doctor.md for their arguments.

    What several checks count is a listener of its own, shared by ``self.uses(Class)``.

    >>> import rushlight as torch
    >>> class Passes(torch.doctor.Listener):
    ...     def start(self):
    ...         self.count = 0
    ...     def on_backward(self, event):
    ...         self.count += 1
    >>> Passes(observer=None).count
    0
    """

    EVENTS: ClassVar[tuple[str, ...]] = (
        "on_backward", "on_backward_end", "on_step", "on_stepped", "on_zero_grad", "on_call",
        "on_dropout", "on_cut", "on_read", "on_scaled", "on_unscaled", "on_scaler_step", "on_clip",
        "on_scheduler", "on_epoch", "on_batch", "on_optimizer", "on_gap", "on_finish",
    )  # fmt: skip

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.start()

    def start(self) -> None:
        """Sets up what the listener counts."""

    def uses(self, kind: type[T]) -> T:
        """The one listener of this kind."""
        return self.observer.shared(kind)


class Check(Listener):
    """Looks for one mistake. The docstring explains it; the name never changes.

    >>> import rushlight as torch
    >>> class ManyLeaves(torch.doctor.Check):
    ...     "A pass reaches more than a thousand leaves."
    ...     name, severity, fix = "many-leaves", "note", "use fewer, larger tensors"
    ...     def on_backward(self, event):
    ...         if len(event.graph.leaves) > 1000:
    ...             self.report("many leaves", event.place, leaves=len(event.graph.leaves))
    >>> torch.doctor.Check.registry.pop("many-leaves") is ManyLeaves
    True
    """

    name: ClassVar[str]
    severity: ClassVar[str]
    fix: ClassVar[str]
    example: ClassVar[str] = ""  # the mistake in a line, for the guide
    registry: ClassVar[dict[str, type[Check]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            return  # a base of several checks
        if cls.severity not in SEVERITIES or not cls.__doc__ or not cls.fix:
            raise TypeError(f"check {cls.name}: it needs a severity, a docstring and a fix")
        if cls.name in Check.registry:
            raise TypeError(f"check {cls.name}: there is one of this name already")
        Check.registry[cls.name] = cls

    def report(
        self, message: str, place: Place | None, severity: str = "", fix: str = "", **evidence: Any
    ) -> None:
        """Adds a finding; one per line of the program, the latest figures stay."""
        self.observer.add(
            Finding(self.name, severity or self.severity, message, place, evidence, fix or self.fix)
        )


def all_checks() -> dict[str, type[Check]]:
    """Every check by its name: those in the files under ``_checks/`` and any defined elsewhere."""
    import importlib
    import pkgutil

    from rushlight.doctor import _checks

    for module in pkgutil.iter_modules(_checks.__path__):
        importlib.import_module(f"{_checks.__name__}.{module.name}")
    return dict(sorted(Check.registry.items()))

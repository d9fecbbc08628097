"""Anomaly mode: backward stops at the first gradient that is NaN."""

from __future__ import annotations

import warnings

from rushlight import _C, _scopes

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class set_detect_anomaly(_scopes.Block):
    """Switches anomaly mode, at once; as a context manager it is undone at the end.

    >>> import rushlight as torch
    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     try:
    ...         (x.sqrt() * 0).backward()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    _at_once = True

    @staticmethod
    def _parts_of(mode: bool, check_nan: bool = True) -> Any:
        return (("anomaly", (mode, check_nan)),)


class detect_anomaly(_C._Scope):
    """A block in which backward raises at the first NaN, naming the forward line.

    >>> import warnings, rushlight as torch
    >>> with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )
        self._set_parts(("anomaly", (True, check_nan)))


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switches anomaly mode on or off.

    >>> import rushlight as torch
    >>> torch.set_anomaly_enabled(True)
    >>> torch.is_anomaly_enabled()
    True
    >>> torch.set_anomaly_enabled(False)
    """
    _C._set_anomaly(mode, check_nan)

"""Finds the mistakes in a training program that cost people weeks.

``rushlight doctor train.py`` runs a program and reports; in a program or a notebook:

>>> import rushlight as torch
>>> layer = torch.nn.Linear(4, 1)
>>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
>>> with torch.doctor() as d:
...     for _ in range(4):
...         layer(torch.ones(8, 4)).mean().backward()
...         optimizer.step()
>>> [finding.name for finding in d.findings]
['grads-not-cleared']
"""

import sys
from types import ModuleType
from typing import Any

from rushlight.doctor._check import Check as Check
from rushlight.doctor._check import Listener as Listener
from rushlight.doctor._doctor import Doctor as Doctor
from rushlight.doctor._finding import Finding as Finding
from rushlight.doctor._finding import Place as Place


class _Callable(ModuleType):
    """``rushlight.doctor()`` makes a Doctor; ``rushlight.doctor.Check`` is a name in here."""

    def __call__(self, *args: Any, **kwargs: Any) -> Doctor:
        return Doctor(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

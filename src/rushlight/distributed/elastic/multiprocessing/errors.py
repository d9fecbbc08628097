"""How a process tells its launcher of an error: in the file that ``TORCHELASTIC_ERROR_FILE`` names.

``rushlight launch`` reads the tracebacks of its processes as they print them, and needs no file.
"""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from dataclasses import dataclass, field

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]


@dataclass
class ProcessFailure:
    """One process that failed.

    >>> from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure
    >>> ProcessFailure(local_rank=0, pid=12, exitcode=1).exitcode
    1
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str = "<N/A>"
    message: str = ""
    timestamp: int = field(default_factory=lambda: int(time.time()))


class ChildFailedError(Exception):
    """Some of the processes that this one has started failed.

    >>> from rushlight.distributed.elastic.multiprocessing.errors import (
    ...     ChildFailedError, ProcessFailure,
    ... )
    >>> ChildFailedError("train", {3: ProcessFailure(3, 12, 1)}).get_first_failure()[0]
    3
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        rank, first = self.get_first_failure()
        super().__init__(f"{name}: rank {rank} failed first, with exit code {first.exitcode}")

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]


class ErrorHandler:
    """Writes an exception to the file that a launcher has named, if it has.

    >>> from rushlight.distributed.elastic.multiprocessing.errors import ErrorHandler
    >>> ErrorHandler().initialize()
    """

    def initialize(self) -> None:
        """Called before the program runs."""

    def record_exception(self, e: BaseException) -> None:
        """Writes the exception and its traceback."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            return
        details = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        text = {"message": f"{type(e).__name__}: {e}", "extraInfo": details}
        with open(path, "w") as file:
            json.dump({"message": text}, file)


def get_error_handler() -> ErrorHandler:
    """The handler that ``record`` uses.

    >>> from rushlight.distributed.elastic.multiprocessing.errors import get_error_handler
    >>> type(get_error_handler()).__name__
    'ErrorHandler'
    """
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """Decorates the main function of a program: what it raises is written down, and raised.

    >>> from rushlight.distributed.elastic.multiprocessing.errors import record
    >>> @record
    ... def main():
    ...     return 3
    >>> main()
    3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded

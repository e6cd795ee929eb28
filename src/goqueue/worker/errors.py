"""What can go wrong with a task: for its caller, and for its handler."""

from __future__ import annotations

from datetime import timedelta


class TaskError(Exception):
    """All of them."""


class InvalidCall(TaskError, TypeError):
    """The arguments do not fit the function, or cannot be JSON. Nothing was sent."""


class InvalidOption(TaskError, ValueError):
    """An option of a task or an app that cannot be."""


class TaskTooLarge(TaskError, ValueError):
    """The arguments or the result take more room than a task may."""


class TaskTimeout(TaskError, TimeoutError):
    """A handler ran for longer than its `timeout`."""


class WorkerLost(TaskError):
    """The process that ran the handler died."""


class ResultTimeout(TaskError, TimeoutError):
    """No result came for as long as the caller wanted to wait; it may still come."""


class TaskFailed(TaskError):
    """The task is in the dead letters. `kind` is the class of its last error, `traceback` where it was raised."""

    def __init__(self, kind: str, message: str, traceback: str = "") -> None:
        super().__init__(kind, message, traceback)
        self.kind = kind
        self.message = message
        self.traceback = traceback

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class Retry(Exception):
    """Raised by a handler: try again after `delay`, if there are tries left. It counts as a failure."""

    def __init__(self, reason: str = "", *, delay: float | str | timedelta | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Reject(Exception):
    """Raised by a handler: to the dead letters now, however many tries are left."""

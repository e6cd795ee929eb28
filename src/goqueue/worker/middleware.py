"""What an app does around every task. Methods run where the task runs: on the loop, or in its thread or process."""

from __future__ import annotations

from typing import Any

from goqueue.worker.context import TaskContext


class Middleware:
    """Override what you need. An error raised by `before` or `after` is one of the task."""

    def startup(self) -> None:
        """A worker starts."""

    def shutdown(self) -> None:
        """A worker has stopped taking tasks, and all that ran have ended."""

    def before(self, context: TaskContext, args: list[Any], kwargs: dict[str, Any]) -> None:
        """A task is about to run."""

    def after(self, context: TaskContext, result: Any) -> None:
        """It returned; outermost last."""

    def failure(self, context: TaskContext, error: BaseException) -> None:
        """It raised. What is raised here is logged and otherwise ignored."""

"""Background tasks: an app, its tasks and workflows, and the workers that run them."""

from goqueue.worker.app import App
from goqueue.worker.canvas import chain, chord, group
from goqueue.worker.context import TaskContext, current
from goqueue.worker.errors import (
    InvalidCall,
    InvalidOption,
    Reject,
    ResultTimeout,
    Retry,
    TaskError,
    TaskFailed,
    TaskTimeout,
    TaskTooLarge,
    WorkerLost,
)
from goqueue.worker.middleware import Middleware
from goqueue.worker.options import TaskOptions
from goqueue.worker.results import GroupResult, Result
from goqueue.worker.task import AppTask as Task
from goqueue.worker.task import Signature
from goqueue.worker.worker import TaskWorker as Worker

__all__ = [
    "App",
    "GroupResult",
    "InvalidCall",
    "InvalidOption",
    "Middleware",
    "Reject",
    "Result",
    "ResultTimeout",
    "Retry",
    "Signature",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskFailed",
    "TaskOptions",
    "TaskTimeout",
    "TaskTooLarge",
    "Worker",
    "WorkerLost",
    "chain",
    "chord",
    "current",
    "group",
]

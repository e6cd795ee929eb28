"""The topics of an app: one for each queue, and its own for results, workflows and unique calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.client import NewMessage
from goqueue.client.calls import Config, create_topic
from goqueue.client.errors import GoQueueClientError
from goqueue.client.messages import Content
from goqueue.client.steps import Steps, ask
from goqueue.worker.calls import TaskResult, WorkflowRecord, encode, encode_call
from goqueue.worker.errors import InvalidOption
from goqueue.worker.options import check_queue
from goqueue.worker.plan import Plan, TaskSend

_OWN: Final = ("results", "workflows", "unique")
_PARTITIONS: Final = {"results": 1, "workflows": 4, "unique": 8}
_DAY_MS: Final = 24 * 3_600_000
# How long records are kept: those of a workflow that does not end, and twice as long as a call can be unique.
_RETENTION_MS: Final = {"workflows": 7 * _DAY_MS, "unique": 2 * _DAY_MS}


class TaskTopics:
    """Names, settings, and which message goes where. The app's group has its name."""

    def __init__(self, app: str, result_ttl: float) -> None:
        self.group = check_queue(app)
        self._result_ttl = result_ttl
        self.results, self.workflows, self.unique = (f"{app}.{name}" for name in _OWN)
        self.workflow_group = f"{app}.workflows"
        self.unique_partitions = _PARTITIONS["unique"]

    def queue(self, name: str) -> str:
        """The topic of a queue."""
        if name in _OWN or name.endswith(".dlq"):
            raise InvalidOption(f"A queue cannot be called {name}: the app keeps other things there.")
        return f"{self.group}.{name}"

    def queue_of(self, topic: str) -> str:
        return topic[len(self.group) + 1 :]

    def create(self, topic: str) -> Steps[None]:
        """Makes it unless it is there."""
        kind = self.queue_of(topic)
        try:
            yield from ask(create_topic(topic, _PARTITIONS.get(kind), self._config(kind)))
        except GoQueueClientError as error:
            if error.code != "topic-exists":
                raise

    def _config(self, kind: str) -> Config:
        if kind == "results":
            return {"retention.ms": round(self._result_ttl * 1000)}
        if kind in _OWN:
            return {"retention.ms": _RETENTION_MS[kind]}
        # A worker knows how often each task is tried; the broker would count for all alike.
        return {"queue.max.failures": 0}

    # --- messages ---------------------------------------------------------------------------------------

    def messages(self, plan: Plan, headers: Mapping[str, str]) -> dict[str, list[NewMessage | Content]]:
        """All of a plan, by topic."""
        found: dict[str, list[NewMessage | Content]] = {}
        for send in plan.sends:
            found.setdefault(self.queue(send.queue), []).append(message_of(send, headers))
        for record in plan.records:
            found.setdefault(self.workflows, []).append(record_message(record))
        for result in plan.results:
            found.setdefault(self.results, []).append(result_message(result))
        return found


def message_of(send: TaskSend, headers: Mapping[str, str], due_ms: int | None = None) -> NewMessage:
    return NewMessage(encode_call(send.call), headers=headers, priority=send.priority, deliver_at=due_ms)


def record_message(record: WorkflowRecord) -> NewMessage:
    return NewMessage(encode(record), key=record.id)


def result_message(result: TaskResult) -> NewMessage:
    return NewMessage(msgspec.json.encode(result), key=result.id)

"""What a served pipeline tells a topic: failures, refusals and recoveries, and numbers that pass a limit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from goqueue.client import GoQueueClientError
from goqueue.pipeline.definition.serving import PipelineStatus
from goqueue.pipeline.definition.words import Alerts
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import node_client

_WAITING_MAX: Final = 1_000
_PAUSE_S: Final = 2.0
_STOP_S: Final = 10.0


class Alert(msgspec.Struct, frozen=True):
    """`alert` is failed, refused, running (again), or the number's name with `above` or `below` it."""

    pipeline: str
    alert: str
    message: str
    at_ms: int
    value: float | None = None
    limit: int | None = None


class AlertRules:
    """What of a pipeline was told already; the time is an argument. One alert for a change, none while it lasts."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._above: dict[str, set[str]] = {}

    def look(self, status: PipelineStatus, asked: Alerts, now_ms: int) -> list[Alert]:
        return [*self._of_state(status, now_ms), *self._of_numbers(status, asked, now_ms)]

    def _of_state(self, status: PipelineStatus, now_ms: int) -> Iterator[Alert]:
        trouble = "" if status.state == "paused" else status.error
        before = self._told.get(status.name, "")
        if trouble == before:
            return
        self._told[status.name] = trouble
        if not trouble:
            yield Alert(status.name, "running", "It runs again.", now_ms)
        else:
            # A change that was refused leaves running what ran before.
            yield Alert(status.name, "failed" if status.state == "waiting" else "refused", trouble, now_ms)

    def _of_numbers(self, status: PipelineStatus, asked: Alerts, now_ms: int) -> Iterator[Alert]:
        above = self._above.setdefault(status.name, set())
        for name, limit in asked.limits().items():
            value = status.numbers.get(name)
            if value is None or (value > limit) == (name in above):
                continue
            word = "above" if value > limit else "below"
            (above.add if value > limit else above.discard)(name)
            yield Alert(
                status.name, f"{name}_{word}", f"{name} is {value:,.0f}, {word} {limit:,}.", now_ms, value, limit
            )


class AlertSender:
    """Publishes alerts from a thread of its own, so that a node that is away holds nothing up.

    Each is sent until the node takes it: at least once. Of more than a thousand that wait the newest are dropped.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting: queue.Queue[tuple[Mapping[str, str], str, Alert]] = queue.Queue(_WAITING_MAX)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeline-alerts", daemon=True)
        self._thread.start()

    def send(self, node: Mapping[str, str], topic: str, alert: Alert) -> None:
        try:
            self._waiting.put_nowait((node, topic, alert))
        except queue.Full:
            self._say(f"{alert.pipeline}: more than {_WAITING_MAX} alerts wait for {topic}; this one is dropped")

    def stop(self) -> None:
        """What waits is sent if the node answers within some seconds."""
        self._ended.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not (self._ended.is_set() and self._waiting.empty()):
            try:
                node, topic, alert = self._waiting.get(timeout=0.2)
            except queue.Empty:
                continue
            self._deliver(node, topic, alert)

    def _deliver(self, node: Mapping[str, str], topic: str, alert: Alert) -> None:
        said = False
        while True:
            try:
                url = doors(node.get("kafka.bootstrap.servers"), node.get("url")).url
                with node_client(url) as client:
                    client.publish(topic, msgspec.json.encode(alert).decode(), key=alert.pipeline)
                return
            except (GoQueueClientError, PipelineError) as error:
                if not said:
                    self._say(f"{alert.pipeline}: an alert waits for {topic}: {error}")
                said = True
            if self._ended.wait(_PAUSE_S):
                return

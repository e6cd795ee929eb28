"""Ordinary clients at a steady pace, each request timed from the moment it was due."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

from bench.node_process import NodeProcess
from bench.report import percentile
from tests.door.kafka.raw import Line, batch, fetch_from, produce_to

PERIOD_S = 0.05


class Probe(threading.Thread):
    """Calls `act` every 50 ms until `stop` is set; it yields after each request.

    The first request of a round is timed from the moment the round was due. What fails is kept, not raised.
    """

    def __init__(self, name: str, act: Callable[[], Iterator[None]], stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._act, self._stop_event = act, stop
        self.latencies_ms: list[float] = []
        self.failures: list[str] = []

    def run(self) -> None:
        due = time.monotonic()
        while not self._stop_event.wait(max(0.0, due - time.monotonic())):
            try:
                began = due
                for _ in self._act():
                    now = time.monotonic()
                    self.latencies_ms.append((now - began) * 1000)
                    began = now
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            due = max(due + PERIOD_S, time.monotonic())

    def p99_ms(self) -> float:
        return percentile(sorted(self.latencies_ms), 0.99)


class HttpClient:
    """One connection that is kept, opened anew if it broke."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> dict:  # type: ignore[type-arg]
        data = None if body is None else json.dumps(body).encode()
        try:
            self._line.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = self._line.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self._line.close()
            raise
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status} {content[:200]!r}")
        found: dict[str, object] = json.loads(content or b"{}")
        return found

    def close(self) -> None:
        self._line.close()


def rest_probe(node: NodeProcess, stack: ExitStack) -> Callable[[], Iterator[None]]:
    client = stack.enter_context(closing(HttpClient(node.url)))
    client.ask("POST", "/topics", {"name": "plain", "num_partitions": 1})

    def act() -> Iterator[None]:
        stored = client.ask("POST", "/topics/plain/messages", {"messages": [{"value": "hello"}]})
        yield
        offset = stored["results"][0]["offset"]
        page = client.ask("GET", f"/topics/plain/partitions/0/messages?offset={offset}&limit=1")
        yield
        assert page["messages"][0]["value"] == "hello"

    return act


def queue_probe(node: NodeProcess, stack: ExitStack) -> Callable[[], Iterator[None]]:
    client = stack.enter_context(closing(HttpClient(node.url)))
    client.ask("POST", "/topics", {"name": "jobs", "num_partitions": 1})
    joined = client.ask("POST", "/groups/workers/join", {"client_id": "probe", "topics": ["jobs"]})
    query = f"member_id={joined['member_id']}&generation={joined['generation']}&timeout=5000&limit=1"

    def act() -> Iterator[None]:
        client.ask("POST", "/topics/jobs/messages", {"messages": [{"value": "job"}]})
        yield
        taken = client.ask("GET", f"/groups/workers/poll?{query}")
        yield
        answers = client.ask("POST", "/messages/ack", {"receipts": [taken["messages"][0]["receipt"]]})
        yield
        assert "error" not in answers["results"][0]

    return act


def kafka_probe(node: NodeProcess, stack: ExitStack) -> Callable[[], Iterator[None]]:
    line = stack.enter_context(Line(node.kafka))

    def act() -> Iterator[None]:
        stored = line.ask(produce_to("plain", 0, batch(b"hello")), 7)
        offset = stored.responses[0].partition_responses[0].base_offset
        yield
        found = line.ask(fetch_from("plain", 0, offset), 11)
        yield
        assert found.responses[0].partitions[0].records

    return act


def sqs_probe(node: NodeProcess, stack: ExitStack) -> Callable[[], Iterator[None]]:
    client = stack.enter_context(closing(HttpClient(node.sqs)))

    def ask(operation: str, body: dict[str, object]) -> dict:  # type: ignore[type-arg]
        return client.ask("POST", "/", body, {"X-Amz-Target": f"AmazonSQS.{operation}"})

    queue = ask("CreateQueue", {"QueueName": "probe"})["QueueUrl"]

    def act() -> Iterator[None]:
        ask("SendMessage", {"QueueUrl": queue, "MessageBody": "hello"})
        yield
        taken = ask("ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 5})
        yield
        ask("DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": taken["Messages"][0]["ReceiptHandle"]})
        yield

    return act


class MemoryWatch(threading.Thread):
    """The largest resident size of a process meanwhile."""

    def __init__(self, pid: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._status, self._stop_event = Path(f"/proc/{pid}/status"), stop
        self.most_bytes = 0

    def run(self) -> None:
        while not self._stop_event.wait(0.1):
            for line in self._status.read_text().splitlines():
                if line.startswith("VmRSS:"):
                    self.most_bytes = max(self.most_bytes, int(line.split()[1]) * 1024)

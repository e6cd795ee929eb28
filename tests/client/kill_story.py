"""Producing, consuming and moving messages while nodes are killed; and what has to be true at the end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from goqueue.client import Batching, Client, GoQueueClientError, Producer, Retries
from tests.waiting import wait_until

SECONDS_MAX = 240.0


class KillStory:
    """Three threads, each with a client of its own. `run` kills whenever so many messages more were consumed."""

    def __init__(self, urls: Sequence[str], count: int, replicas: int | None = None) -> None:
        self._urls = urls
        self._count = count
        self._failed: list[BaseException] = []
        self._seen: Counter[str] = Counter()
        self._deadline = time.monotonic() + SECONDS_MAX
        with Client(urls) as client:
            for name in ("in", "out"):
                client.create_topic(name, partitions=1, replication_factor=replicas)

    def run(self, kills: int, kill: Callable[[], object]) -> None:
        threads = [
            threading.Thread(target=self._noted, args=(one,)) for one in (self._produce, self._consume, self._move)
        ]
        for one in threads:
            one.start()
        try:
            for turn in range(1, kills + 1):
                self._wait(lambda turn=turn: len(self._seen) >= turn * self._count // (kills + 2))  # type: ignore[misc]
                kill()
        finally:
            for one in threads:
                one.join(SECONDS_MAX)
        assert not self._failed, self._failed

    def check(self) -> None:
        """Nothing is lost; duplicates are where nothing but a lease kept them away."""
        wanted = [str(number) for number in range(self._count)]
        assert self.stored("in") == wanted, "in order, and once: the producer is idempotent"
        assert sorted(self.stored("out"), key=int) == wanted, "once: moved in transactions"
        assert sorted(self._seen, key=int) == wanted
        again = sum(self._seen.values()) - self._count
        assert again <= self._count // 2, f"{again} messages came again"

    def stored(self, topic: str) -> list[str]:
        found: list[str] = []
        with Client(self._urls) as client:
            offset = 0
            while page := client.read(topic, partition=0, offset=offset, limit=1_000).messages:
                found += [str(one.text) for one in page]
                offset = page[-1].offset + 1
        return found

    # --- the threads ----------------------------------------------------------------------------------

    def _noted(self, work: Callable[[Client], Any]) -> None:
        try:
            with Client(self._urls) as client:
                work(client)
        except BaseException as error:
            self._failed.append(error)

    def _produce(self, client: Client) -> None:
        batching = Batching(messages_max=10, linger_ms=1)
        retries = Retries(seconds_max=SECONDS_MAX)
        with Producer(client, batching=batching, retries=retries, idempotent=True) as producer:
            futures = []
            for number in range(self._count):
                futures.append(producer.send("in", str(number)))
                if number % 10 == 9:
                    futures[-1].result(SECONDS_MAX)  # not all at once, so that kills fall between

    def _consume(self, client: Client) -> None:
        with client.consumer("readers", ["in"], mode="shared", visibility_timeout="5s") as consumer:
            while len(self._seen) < self._count and self._has_time:
                messages = consumer.poll(10, timeout=1)
                self._seen.update(str(one.text) for one in messages)
                if messages:
                    self._try(lambda: consumer.ack(*messages))  # noqa: B023

    def _move(self, client: Client) -> None:
        moved: set[str] = set()
        transaction = client.transaction()
        with client.consumer("movers", ["in"], mode="shared", visibility_timeout="5s") as consumer:
            while len(moved) < self._count and self._has_time:
                messages = consumer.poll(10, timeout=1)
                if messages and self._try(lambda: self._transfer(transaction, messages)):  # noqa: B023
                    moved.update(str(one.text) for one in messages)

    def _transfer(self, transaction: Any, messages: Sequence[Any]) -> None:
        with transaction:
            transaction.publish_many("out", [one.value for one in messages])
            transaction.ack(*messages)

    def _try(self, work: Callable[[], object]) -> bool:
        """Leases that a kill took away are no failure: their messages come again."""
        try:
            work()
        except GoQueueClientError:
            return False
        return True

    @property
    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline and not self._failed

    def _wait(self, holds: Callable[[], bool]) -> None:
        wait_until(lambda: holds() or not self._has_time)
        assert self._has_time, (self._failed, len(self._seen))

"""A small shop on a real node: orders with lanes and delays, packers that fail, dead letters, a trace of everything."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

from bench.node_process import NodeProcess
from goqueue.client import Client, Message, NewMessage
from goqueue.client.calls import RestCall
from goqueue.client.dead_letters import DeadLetter, dead_letters
from goqueue.client.schemas import NewSchema, register_schema
from goqueue.client.traces import Trace, search_traces, trace
from tests.waiting import WAIT_S, wait_until

SCHEMA = '{"type": "object", "properties": {"amount": {"type": "number", "minimum": 0}}, "required": ["amount"]}'


class Shop:
    """`topic` has two partitions and a schema that nobody enforces."""

    def __init__(self, node: NodeProcess, topic: str, seed: int) -> None:
        self.node, self.topic, self.group = node, topic, f"{topic}-packers"
        self._chance = random.Random(seed)
        self._client = Client(node.url)
        self._published = 0
        self.deaths = 0
        config: dict[str, str | int | float | None] = {"trace": "on", "queue.max.failures": 2, "queue.retry.ms": 10}
        self._client.create_topic(topic, 2, config)
        registered = self._client.perform(register_schema(f"{topic}-value", NewSchema(SCHEMA, "JSON")))
        self.schema_id = registered.id

    def close(self) -> None:
        self._client.close()

    # --- what happens --------------------------------------------------------------------------------------

    def trade(self, count: int, **more: str) -> None:
        """So many orders, some of them later, some of them nonsense; then the packers work them all off."""
        self._client.publish_many(self.topic, [self._order(more) for _ in range(count)])
        self._published += count
        self._pack()

    def _order(self, more: dict[str, str]) -> NewMessage:
        chance = self._chance
        amount = chance.choice((chance.randrange(-10, 90), chance.random() * 100, "much"))
        value: str | bytes = json.dumps({"amount": amount, "id": f"o{chance.randrange(10**6)}", **more})
        if chance.random() < 0.05:
            value = chance.choice((b"\xff\xfe", "no json", "[]"))
        delay = "30ms" if chance.random() < 0.1 else None
        headers = {"schema-id": str(self.schema_id)} if chance.random() < 0.5 else {}
        key = f"user-{chance.randrange(9)}"
        return NewMessage(value, key=key, headers=headers, priority=chance.randrange(5), delay=delay)

    def _pack(self) -> None:
        done = self._finished()
        with self._client.consumer(self.group, [self.topic], mode="shared") as consumer:
            deadline = time.monotonic() + WAIT_S
            while self._lag() or done < self._published:
                assert time.monotonic() < deadline, "the packers do not come to an end"
                for message in consumer.poll(limit=20, timeout=0.1):
                    self._answer(message)
                done = self._finished()

    def _answer(self, message: Any) -> None:
        fate = self._chance.random()
        if fate < 0.1:
            message.reject(reason=f"no item {message.offset}")
            self.deaths += 1
        elif fate < 0.2:
            message.nack(reason=f"card of user-{message.offset} was refused")
            self.deaths += message.failures == 1  # the second is the last
        else:
            message.ack()

    def _finished(self) -> int:
        """Messages that entered the topic; delayed ones take their time."""
        return sum(one.high_watermark for one in self._client.topic(self.topic).partitions)

    def _lag(self) -> int:
        return sum(one.lag for one in self._client.group(self.group).lag) if self._groups() else 1

    def _groups(self) -> list[str]:
        return [one.group for one in self._client.groups() if one.group == self.group]

    # --- what there is, asked over REST --------------------------------------------------------------------

    def messages(self) -> list[Message]:
        page, found = self._client.read(self.topic, limit=10_000), list[Message]()
        while page.messages:
            found += page.messages
            page = self._client.read(self.topic, from_=page.next, limit=10_000)
        return found

    def letters(self) -> list[DeadLetter]:
        page = self._client.perform(dead_letters(self.topic, {"limit": "10000"}))
        assert page.next is None
        return page.messages

    def traces(self) -> Iterator[Trace]:
        for one in self._client.perform(search_traces({"topic": self.topic}, 1_000)):
            yield self._client.perform(trace(one.trace_id))

    def wait_durable(self) -> None:
        """Every death is buried, and every event is in the files."""
        wait_until(lambda: len(self.letters()) == self.deaths, "all dead letters are buried")
        wait_until(self._is_written, "all events are written")

    def _is_written(self) -> bool:
        found = self._client.perform(RestCall("GET", "/traces/stats", lambda status, body: json.loads(body)))
        return bool(found["exporters"][0]["exported"] == found["recorded"])

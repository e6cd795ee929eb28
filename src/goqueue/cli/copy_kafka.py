"""Copies from and to a topic of any Kafka broker. With a name, a batch and the note of it are one transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from goqueue.base.priority import HEADER, NAMES
from goqueue.cli.copy_parts import (
    GROUP_PREFIX,
    CopyBatch,
    CopyNote,
    cursor_offsets,
    cursor_text,
    parse_note,
)
from goqueue.cli.failures import Failed, NoAnswer
from goqueue.client import Message

_PAGE: Final = 1_000
_POLL_MS: Final = 1_000
_SILENCE_S_MAX: Final = 60.0
_START_S_MAX: Final = 20.0


class _Loop:
    """Runs what aiokafka does, one step after the other."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._runner = asyncio.Runner()
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what goes wrong is said once, below

    def run(self, step: Any, seconds: float = _SILENCE_S_MAX) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(step, seconds)

        try:
            return self._runner.run(bounded())
        except TimeoutError:
            raise NoAnswer(f"Kafka at {self._servers} did not answer within {seconds:.0f} s.") from None
        except KafkaError as error:
            raise NoAnswer(f"Kafka at {self._servers}: {error}. Check the address and the topic.") from None

    def begin(self, step: Any) -> Any:
        """The first step; if it fails there is no other."""
        try:
            return self.run(step, _START_S_MAX)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._runner.close()


async def _started_or_closed(client: Any) -> None:
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise


class KafkaSource:
    def __init__(self, servers: str, topic: str, options: Mapping[str, Any]) -> None:
        """`options` are arguments of aiokafka's clients that say who asks."""
        self._options = options
        self._topic = topic
        self._loop = _Loop(servers)
        self._consumer: Any = self._loop.begin(self._started(servers))
        self._partitions = sorted(self._consumer.assignment())
        if not self._partitions:
            self.close()
            raise Failed(f"Kafka at {servers} has no topic {topic!r}.")
        self._starts = self._loop.run(self._consumer.beginning_offsets(self._partitions))
        self._ends = self._loop.run(self._consumer.end_offsets(self._partitions))

    async def _started(self, servers: str) -> Any:
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=servers,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            **self._options,
        )
        await _started_or_closed(consumer)
        return consumer

    def total(self, position: str | None) -> int:
        begin = self._begin(position)
        return sum(max(0, self._ends[one] - begin[one]) for one in self._partitions)

    def _begin(self, position: str | None) -> dict[Any, int]:
        told = {} if position is None else cursor_offsets(position)
        return {one: told.get(one.partition, self._starts[one]) for one in self._partitions}

    def batches(self, position: str | None) -> Iterator[CopyBatch]:
        at = self._begin(position)
        for one, offset in at.items():
            self._consumer.seek(one, offset)
        heard = time.monotonic()
        while any(at[one] < self._ends[one] for one in self._partitions):
            found = self._loop.run(self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_PAGE))
            records = [one for part in found.values() for one in part if one.offset < self._ends[_place(one)]]
            positions = [self._loop.run(self._consumer.position(one)) for one in self._partitions]
            before, at = at, dict(zip(self._partitions, positions, strict=True))
            at = {one: min(offset, max(self._ends[one], before[one])) for one, offset in at.items()}
            if records:
                yield CopyBatch([self._message(one) for one in records], cursor_text(_plain(at)))
            if records or at != before:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S_MAX:
                raise NoAnswer(f"Nothing more came for {_SILENCE_S_MAX:.0f} s; a transaction may be open there.")

    def _message(self, one: Any) -> Message:
        headers, priority = [], "normal"
        for name, value in one.headers:
            if name == HEADER:
                priority = _lane(value)
            else:
                headers.append((name, value))
        place = self._topic, one.partition, one.offset, one.timestamp
        return Message(*place, one.key, one.value, tuple(headers), priority)

    def acknowledge(self, count: int) -> None:
        """Nothing is taken away here."""

    def close(self) -> None:
        self._loop.run(self._consumer.stop())
        self._loop.close()


def _place(record: Any) -> Any:
    return TopicPartition(record.topic, record.partition)


def _plain(at: dict[Any, int]) -> dict[int, int]:
    return {one.partition: offset for one, offset in at.items()}


def _lane(value: bytes | None) -> str:
    text = (value or b"").decode("utf-8", "replace")
    if text in NAMES:
        return text
    return NAMES[int(text)] if text.isdecimal() and int(text) < len(NAMES) else "normal"


class KafkaSink:
    def __init__(
        self, servers: str, topic: str, name: str | None, keep_partitions: bool, options: Mapping[str, Any]
    ) -> None:
        self._options = options
        self._servers = servers
        self._topic = topic
        self._group = None if name is None else f"{GROUP_PREFIX}{name}"
        self._keep = keep_partitions
        self._loop = _Loop(servers)
        self._producer: Any = self._loop.begin(self._started())

    async def _started(self) -> Any:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            enable_idempotence=True,
            transactional_id=self._group,
            linger_ms=5,
            **self._options,
        )
        await _started_or_closed(producer)
        await producer.partitions_for(self._topic)
        return producer

    def note(self) -> CopyNote | None:
        return None if self._group is None else self._loop.run(self._held(self._group))

    async def _held(self, group: str) -> CopyNote | None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._servers, **self._options)
        await admin.start()
        try:
            held = await admin.list_consumer_group_offsets(group, partitions=[TopicPartition(self._topic, 0)])
        finally:
            await admin.close()
        found = held.get(TopicPartition(self._topic, 0))
        return None if found is None else parse_note(found.metadata or "")

    def write(self, messages: Sequence[Message], note: CopyNote) -> None:
        self._loop.run(self._write(messages, note))

    async def _write(self, messages: Sequence[Message], note: CopyNote) -> None:
        if self._group is None:
            await self._send(messages)
            return
        async with self._producer.transaction():
            await self._send(messages)
            place = {TopicPartition(self._topic, 0): OffsetAndMetadata(0, note.text())}
            await self._producer.send_offsets_to_transaction(place, self._group)

    async def _send(self, messages: Sequence[Message]) -> None:
        sent = []
        for one in messages:
            lane = [] if one.priority == "normal" else [(HEADER, one.priority.encode())]
            sent.append(
                await self._producer.send(
                    self._topic,
                    one.value,
                    key=one.key,
                    partition=one.partition if self._keep else None,
                    timestamp_ms=one.timestamp if one.timestamp >= 0 else None,
                    headers=[*one.headers, *lane],
                )
            )
        await asyncio.gather(*sent)

    def close(self) -> None:
        self._loop.run(self._producer.stop())
        self._loop.close()

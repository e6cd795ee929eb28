"""Reads numbers, writes each on to another topic with its place in the same transaction, until it is told to stop.

`python -m tests.txn.worker confluent|aiokafka <what it has to know, as JSON>`. It keeps a journal for the checker: what
it is about to write, and how each transaction ended as far as it was told. Where a client may not go on it dies; who
started it starts another one.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as At
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

WAIT_S = 20
TIMEOUT_MS = 8_000
ABORTS = 0.1  # one transaction in ten is aborted on purpose
BATCH = 40


class Job(msgspec.Struct):
    """What a worker is told."""

    address: str
    source: str
    target: str
    partitions: int
    group: str
    name: str  # its transactional id, and its place in the group
    number: int
    journal: str
    stop: str  # it ends when this file is there


class Journal:
    """One line an event, in the file before the event; a killed process loses nothing of it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._file = os.open(job.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, txn: str, numbers: list[int]) -> list[tuple[int, str]]:
        """The partition and the value of each number; a value tells its transaction too, so that all differ."""
        written = [(number % self._job.partitions, f"{number}:{txn}") for number in numbers]
        self._lines(*(f"W {txn} {partition} {value}" for partition, value in written))
        return written

    def committed(self, txn: str) -> None:
        self._lines(f"C {txn}")

    def aborted(self, txn: str) -> None:
        self._lines(f"A {txn}")

    def note(self, what: str) -> None:
        self._lines("N " + what.replace("\n", " ")[:300])

    def _lines(self, *lines: str) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


def new_txn(job: Job) -> str:
    return f"{job.name}-{uuid.uuid4().hex[:10]}"


# --- the C client --------------------------------------------------------------------------------------------


class ConfluentWorker:
    """A static member of a group; partitions move as they like."""

    def __init__(self, job: Job, journal: Journal) -> None:
        self._job, self._journal = job, journal
        self._moved = False
        shared = {
            "bootstrap.servers": job.address,
            "log_level": 0,
            "reconnect.backoff.max.ms": 300,
            # When the only broker is down the client forgets it by default, and then send_offsets_to_transaction can
            # wait for ever for the coordinator it remembers (librdkafka issue 5511).
            "metadata.recovery.strategy": "none",
        }
        self._producer = Producer(
            {**shared, "transactional.id": job.name, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 2}
        )
        self._consumer = Consumer(
            {
                **shared,
                "group.id": job.group,
                "group.instance.id": job.name,
                "session.timeout.ms": 8_000,
                "heartbeat.interval.ms": 300,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )

    def run(self) -> None:
        self._patiently(lambda: self._producer.init_transactions(WAIT_S))
        self._journal.note(f"{self._job.name} begins")
        self._consumer.subscribe(
            [self._job.source], on_assign=self._note_move, on_revoke=self._note_move, on_lost=self._note_move
        )
        while not Path(self._job.stop).exists():
            messages = [one for one in self._consumer.consume(random.randint(1, BATCH), 0.3) if one.error() is None]
            if self._moved:
                self._moved = False
                self._rewind()  # what this poll brought may be another's by now
            elif messages:
                self._pass_on(messages)
        self._consumer.close()

    def _note_move(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._journal.note(f"{self._job.name} {len(places)} partitions come or go")
        self._moved = True

    def _pass_on(self, messages: list[Message]) -> None:
        txn = new_txn(self._job)
        self._producer.begin_transaction()
        try:
            for partition, value in self._journal.write(txn, [int(one.value() or b"") for one in messages]):
                self._producer.produce(self._job.target, value.encode(), partition=partition)
            places = {one.partition() or 0: (one.offset() or 0) + 1 for one in messages}
            offsets = [TopicPartition(self._job.source, number, offset) for number, offset in places.items()]
            self._patiently(
                lambda: self._producer.send_offsets_to_transaction(
                    offsets, self._consumer.consumer_group_metadata(), WAIT_S
                )
            )
            if random.random() < ABORTS:
                self._abort(txn)
                return
            self._patiently(lambda: self._producer.commit_transaction(WAIT_S))
            self._journal.committed(txn)
        except KafkaException as why:
            error: KafkaError = why.args[0]
            self._journal.note(f"{txn} {error}")
            if not error.txn_requires_abort():
                raise
            self._abort(txn)

    def _abort(self, txn: str) -> None:
        self._patiently(lambda: self._producer.abort_transaction(WAIT_S))
        self._journal.aborted(txn)
        self._rewind()

    def _rewind(self) -> None:
        """Back to what is committed."""
        assigned = self._consumer.assignment()
        if assigned:
            for place in self._consumer.committed(assigned, WAIT_S):
                self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))

    def _patiently(self, work: Any) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                work()
                return
            except KafkaException as why:
                if not why.args[0].retriable() or time.monotonic() > deadline:
                    raise


# --- the asyncio client --------------------------------------------------------------------------------------


async def aiokafka_worker(job: Job, journal: Journal) -> None:
    """Has one partition of the source for its own; its transactional id fences whoever had it before."""
    producer = AIOKafkaProducer(
        bootstrap_servers=job.address,
        transactional_id=job.name,
        transaction_timeout_ms=TIMEOUT_MS,
        retry_backoff_ms=50,
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.address,
        group_id=job.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        retry_backoff_ms=50,
    )
    at = At(job.source, job.number)
    async with asyncio.timeout(WAIT_S):
        await producer.start()
        await consumer.start()
        consumer.assign([at])
    journal.note(f"{job.name} begins")
    while not Path(job.stop).exists():
        found = await consumer.getmany(timeout_ms=300, max_records=random.randint(1, BATCH))
        if messages := found.get(at):
            async with asyncio.timeout(WAIT_S):
                await _pass_on(job, journal, producer, consumer, at, messages)
    await consumer.stop()
    await producer.stop()


async def _pass_on(
    job: Job,
    journal: Journal,
    producer: AIOKafkaProducer,
    consumer: AIOKafkaConsumer,
    at: At,
    messages: list[Any],
) -> None:
    txn = new_txn(job)
    await producer.begin_transaction()
    stored = [
        await producer.send(job.target, value.encode(), partition=partition)
        for partition, value in journal.write(txn, [int(one.value) for one in messages])
    ]
    await producer.send_offsets_to_transaction({at: messages[-1].offset + 1}, job.group)
    await asyncio.gather(*stored)
    if random.random() < ABORTS:
        await producer.abort_transaction()
        journal.aborted(txn)
        consumer.seek(at, messages[0].offset)
    else:
        await producer.commit_transaction()
        journal.committed(txn)


def main(kind: str, told: str) -> None:
    job = msgspec.json.decode(told, type=Job)
    journal = Journal(job)
    try:
        if kind == "confluent":
            ConfluentWorker(job, journal).run()
        else:
            asyncio.run(aiokafka_worker(job, journal))
    except BaseException as why:
        journal.note(f"{job.name} ends: {why!r}")
        os._exit(3)  # a clean end could take long, and the next one must cope with this one
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

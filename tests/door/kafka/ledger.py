"""Writers and readers under load, and the book that is kept of what they saw.

The rules of the book are those of at-least-once delivery: whoever takes over a partition begins at or after its last
commit that was answered and never past what was read; from there on nobody skips or repeats an offset.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.kafka_messages import key_of, place_of, value_of
from tests.waiting import has_come

WAIT_S = 60
COMMIT_EVERY_S = 0.2


class Ledger:
    """What was stored, read and committed; every broken rule is a line in `wrongs`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.stored: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.seen: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.committed: dict[int, int] = {}
        self.repeats = 0
        self.takeovers = 0
        self.steps_back = 0  # of a reader in a partition that it kept
        self.wrongs: list[str] = []
        self._reached: dict[int, int] = {}
        self._places: dict[tuple[str, int], int | None] = {}

    def store(self, at: tuple[int, int], key: bytes, number: int) -> None:
        with self._lock:
            if at in self.stored:
                self.wrongs.append(f"{at} was given twice")
            self.stored[at] = (key, number)

    def take_over(self, who: str, partition: int) -> None:
        with self._lock:
            self.takeovers += 1
            self._places[who, partition] = None

    def read(self, who: str, partition: int, offset: int, key: bytes, number: int) -> None:
        with self._lock:
            place, reached = self._places.get((who, partition)), self._reached.get(partition, 0)
            if place is None:
                least = self.committed.get(partition, 0)
                if not least <= offset <= reached:
                    self.wrongs.append(f"{who} took over {partition} at {offset}, not in {least}..{reached}")
            elif self.committed.get(partition, 0) <= offset < place:
                self.steps_back += 1
            elif offset != place:
                self.wrongs.append(f"{who} read {partition}:{offset}, not {place}")
            self.repeats += (partition, offset) in self.seen
            if self.seen.setdefault((partition, offset), (key, number)) != (key, number):
                self.wrongs.append(f"{partition}:{offset} was read as two messages")
            self._places[who, partition] = offset + 1
            self._reached[partition] = max(reached, offset + 1)

    def commit(self, partition: int, offset: int) -> None:
        with self._lock:
            self.committed[partition] = offset

    @property
    def all_seen(self) -> bool:
        with self._lock:
            return self.stored.keys() <= self.seen.keys()


class Worker(threading.Thread):
    """Never keeps the test process alive, and is waited for only so long."""

    def join(self, timeout: float | None = 60.0) -> None:
        super().join(timeout)
        assert not self.is_alive(), f"{self.name} does not end"


class Writer(Worker):
    """One idempotent producer with keys of its own, counting each key up; at most `rate` messages a second."""

    def __init__(self, kafka: str, topic: str, name: str, rate: int, ledger: Ledger, stopped: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._topic, self._rate, self._ledger, self._stopped = topic, rate, ledger, stopped
        self.sent = 0
        self.errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": WAIT_S * 2000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            if self._stopped.is_set():
                break
            key = f"{self.name}-{number % 5}".encode()
            self._producer.produce(self._topic, b"%d" % (number // 5), key, on_delivery=self._told)
            self.sent += 1
            self._producer.poll(max(0.0, began + number / self._rate - time.monotonic()))
        if self._producer.flush(WAIT_S):
            self.errors.append("not everything was sent")

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self._ledger.store(place_of(message), key_of(message), int(value_of(message)))


class Reader(Worker):
    """A consumer that leaves a while after it got its first partitions; commits now and then and before it gives back.

    It waits for partitions because the C client leaves without a word while it is between two joins; the group has
    to wait for the end of its session then, with any broker.
    """

    def __init__(
        self, kafka: str, topic: str, group: str, name: str, ledger: Ledger, settings: dict[str, Any], life_s: float
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._topic, self._ledger, self._life_s = topic, ledger, life_s
        self._ends = math.inf
        self.stopped = threading.Event()
        self.errors: list[str] = []
        self._read: dict[int, int] = {}
        self._held: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                **settings,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._gained, on_revoke=self._lost, on_lost=self._dropped)
        due = time.monotonic() + COMMIT_EVERY_S
        while time.monotonic() < self._ends and not self.stopped.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self._note(message)
            if time.monotonic() > due:
                self._commit(list(self._read))
                due = time.monotonic() + COMMIT_EVERY_S
        self._leave()

    def _leave(self) -> None:
        """Gives everything back before it closes, so that no rebalance is left for the close to tell of.

        The C client may end its group thread while the callback of such a rebalance waits for an answer from that
        thread, holding Python's lock: then the whole process stands still.
        """
        self._consumer.unsubscribe()
        has_come(lambda: self._consumer.poll(0.05) is None and not self._held)
        self._consumer.close()

    def _note(self, message: Message) -> None:
        partition, offset = place_of(message)
        self._ledger.read(self.name, partition, offset, key_of(message), int(value_of(message)))
        self._read[partition] = offset + 1

    def _gained(self, _: Consumer, parts: list[TopicPartition]) -> None:
        self._ends = min(self._ends, time.monotonic() + self._life_s)
        for one in parts:
            self._held.add(one.partition)
            self._ledger.take_over(self.name, one.partition)

    def _lost(self, _: Consumer, parts: list[TopicPartition]) -> None:
        self._commit([one.partition for one in parts if one.partition in self._read])
        self._dropped(_, parts)

    def _dropped(self, _: Consumer, parts: list[TopicPartition]) -> None:
        for one in parts:
            self._held.discard(one.partition)
            self._read.pop(one.partition, None)

    def _commit(self, partitions: list[int]) -> None:
        offsets = [TopicPartition(self._topic, one, self._read[one]) for one in partitions]
        if not offsets:
            return
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failed:
            self.errors.append(str(failed))
            return
        for one in done:
            if one.error is None:
                self._ledger.commit(one.partition, one.offset)


class Slot(Worker):
    """A place where one reader after the other joins and leaves; the last one stays until it is stopped."""

    def __init__(
        self, number: int, lives_s: tuple[float, float], churning_s: float, arguments: tuple[Any, ...]
    ) -> None:
        super().__init__(name=f"slot-{number}", daemon=True)
        self._chance = random.Random(number)
        self._lives_s, self._ends = lives_s, time.monotonic() + churning_s
        self._arguments = arguments
        self._stopped = threading.Event()
        self._now: Reader | None = None
        self.readers: list[Reader] = []

    def run(self) -> None:
        kafka, topic, group, ledger, settings = self._arguments
        while not self._stopped.is_set():
            life_s = self._chance.uniform(*self._lives_s)
            if time.monotonic() + life_s > self._ends:
                life_s = WAIT_S * 2
            name = f"{self.name}-{len(self.readers)}"
            self._now = Reader(kafka, topic, group, name, ledger, settings, life_s)
            self.readers.append(self._now)
            self._now.start()
            if self._stopped.is_set():
                self._now.stopped.set()
            self._now.join()

    def stop(self) -> None:
        self._stopped.set()
        if self._now is not None:
            self._now.stopped.set()


def commit_starts(kafka: str, topic: str, group: str, partitions: int) -> None:
    """Commits the start of every partition for a group without members, so that no reader has to look it up.

    An answer to such a look-up that the C client finds outdated makes it ask again half a second later, and then it
    goes back to the start, whatever it has read by then.
    """
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, n, 0) for n in range(partitions)], asynchronous=False)
    consumer.close()


def read_log(kafka: str, topic: str, partitions: int) -> dict[bytes, list[int]]:
    """Everything in the topic: the numbers of each key, in the log's order."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "whole", "enable.auto.commit": False})
    ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), WAIT_S)[1] for n in range(partitions)}
    consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
    found: dict[bytes, list[int]] = {}
    left = sum(ends.values())
    deadline = time.monotonic() + WAIT_S
    while left and time.monotonic() < deadline:
        for message in consumer.consume(min(left, 5000), 1):
            assert message.error() is None, message.error()
            found.setdefault(key_of(message), []).append(int(value_of(message)))
            left -= 1
    consumer.close()
    assert left == 0
    return found


def wrong_keys(log: dict[bytes, list[int]]) -> list[str]:
    """Keys whose numbers are not 0, 1, 2, ... without a gap or a double."""
    return [f"{key!r}: {numbers[:5]}..." for key, numbers in log.items() if numbers != list(range(len(numbers)))]

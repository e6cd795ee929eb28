"""Loads by the stock C client: `python -m bench.compare.log_load KIND ADDRESS TOPIC ...`, one line of JSON on stdout.

In a process of its own, the same for every system that speaks Kafka's protocol. Every message is read back and checked.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.compare.bodies import Ledger, body, number_of
from bench.compare.model import CheckFailed
from bench.report import percentile

PARTITIONS = 3
_WAIT_S = 120.0
_BULK: dict[str, Any] = {
    "linger.ms": 5,
    "batch.num.messages": 10_000,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "acks": "all",
    "log_level": 0,
}
_READ: dict[str, Any] = {
    "group.id": "compare",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 1_000_000,
    "queued.min.messages": 1_000_000,
    "fetch.message.max.bytes": 4_000_000,
    "log_level": 0,
}

Found = dict[str, float]


def throughput(address: str, topic: str, count: int, size: int) -> Found:
    """Publishes, then reads from the beginning; both rates."""
    producer = Producer({"bootstrap.servers": address, **_BULK})
    bodies = [body(number, size) for number in range(count)]
    _publish(producer, topic, [body(count, size)])
    began = time.perf_counter()
    _publish(producer, topic, bodies)
    published = time.perf_counter() - began
    del bodies
    spent = _read_back(address, topic, count + 1, size)
    return {"publish": count / published, "consume": (count + 1) / spent}


def _publish(producer: Producer, topic: str, bodies: Sequence[bytes]) -> None:
    """Returns when all were acknowledged. What failed is found when it is read back."""
    for at in range(0, len(bodies), 2_000):
        producer.produce_batch(topic, [{"value": one} for one in bodies[at : at + 2_000]])
        while len(producer) > 500_000:
            producer.poll(0.01)
    if left := producer.flush(_WAIT_S):
        raise CheckFailed(f"{left} messages were not acknowledged within {_WAIT_S:.0f} s")


def singles(address: str, topic: str, count: int) -> list[tuple[float, float]]:
    """One message after the other; when each was sent and when it was acknowledged, by the clock of the day."""
    producer = Producer({"bootstrap.servers": address, **_BULK, "linger.ms": 0})
    _publish(producer, topic, [body(count)])  # everybody knows everybody
    found: list[tuple[float, float]] = []
    for number in range(count):
        sent = time.time()
        _publish(producer, topic, [body(number)])
        found.append((sent, time.time()))
    return found


def _read_back(address: str, topic: str, count: int, size: int, group: str = "compare", **more: Any) -> float:
    """Seconds from the first message to the last. They are checked when the clock has stopped."""
    consumer = Consumer({"bootstrap.servers": address, **_READ, "group.id": group, **more})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    values = [one.value() or b"" for one in consumer.consume(1, 30)]
    began, until = time.perf_counter(), time.monotonic() + _WAIT_S
    ended = began
    while len(values) < count and time.monotonic() < until:
        values += [one.value() or b"" for one in consumer.consume(10_000, 0.5) if one.error() is None]
        ended = time.perf_counter()
    consumer.close()
    ledger = Ledger(0, count)
    ledger.note(number_of(one, size) for one in values)
    ledger.close()
    return ended - began


def latency(address: str, topic: str, rate: int, seconds: float) -> Found:
    """Milliseconds from the moment each message was due: until it was acknowledged, and until a reader had it.

    The clock is the load's own, and does not wait for anybody: what stands still shows in every message due meanwhile.
    """
    total, warm = int(rate * (seconds + 1)), rate
    acked: list[float] = []
    seen: dict[int, float] = {}
    ready, began = threading.Event(), 0.0
    reader = threading.Thread(target=_watch, args=(address, topic, total, ready, seen))
    reader.start()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "all", "log_level": 0})
    _publish(producer, topic, [body(total)])  # everybody knows everybody
    if not ready.wait(60):
        raise CheckFailed("the reader never began")

    def done(due: float, number: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, _: Message) -> None:
            if error is None and number >= warm:
                acked.append((time.perf_counter() - due) * 1000)

        return note

    began = time.perf_counter() + 0.1
    for number in range(total):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            producer.poll(min(left, 0.0005))
        producer.produce(topic, body(number), on_delivery=done(due, number))
        producer.poll(0)
    if producer.flush(_WAIT_S) or len(acked) != total - warm:
        raise CheckFailed(f"{total - warm - len(acked)} messages were not acknowledged")
    last_ack = time.perf_counter()
    reader.join(_WAIT_S)
    if len(seen) != total + 1:
        raise CheckFailed(f"{total + 1 - len(seen)} messages were acknowledged and never came")
    late = max(seen.values()) - last_ack
    if late > 5:
        raise CheckFailed(f"the last message came {late:.1f} s after it was acknowledged: it was not there yet")
    came = sorted((at - began - number / rate) * 1000 for number, at in seen.items() if warm <= number < total)
    return {**_shares("ack", sorted(acked)), **_shares("end", came)}


def _watch(address: str, topic: str, total: int, ready: threading.Event, seen: dict[int, float]) -> None:
    consumer = Consumer({"bootstrap.servers": address, **_READ, "fetch.wait.max.ms": 100, "queued.min.messages": 1_000})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    until = time.monotonic() + 2 * _WAIT_S
    while len(seen) <= total and time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            number = number_of(message.value() or b"")
            if number in seen:
                raise CheckFailed(f"message {number} came twice")
            seen[number] = time.perf_counter()
            ready.set()
    consumer.close()


def _shares(name: str, values: Sequence[float]) -> Found:
    return {f"{name}-{key}": percentile(values, share) for key, share in _PERCENTILES.items()}


_PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def fan_out(address: str, topic: str, count: int, groups: int) -> Found:
    """Every group reads everything; messages a second over all of them."""
    _publish(Producer({"bootstrap.servers": address, **_BULK}), topic, [body(number) for number in range(count)])
    failures: list[Exception] = []

    def read(number: int) -> None:
        try:
            _read_back(address, topic, count, 100, f"group-{number}")
        except CheckFailed as error:
            failures.append(error)

    began = time.perf_counter()
    threads = [threading.Thread(target=read, args=(number,)) for number in range(groups)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failures:
        raise failures[0]
    return {"fan-out": count * groups / (time.perf_counter() - began)}


def transactions(address: str, topic: str, count: int, batch: int) -> Found:
    """Every tenth is aborted; a reader of what is committed must see exactly the others."""
    producer = Producer({"bootstrap.servers": address, **_BULK, "transactional.id": f"compare-{topic}"})
    producer.init_transactions(_WAIT_S)
    kept, spent = 0, 0.0
    for number in range(count // batch):
        is_aborted = number % 10 == 9
        first = count if is_aborted else kept  # what is aborted would be damage if it were seen
        bodies = [{"value": body(first + one)} for one in range(batch)]
        began = time.perf_counter()
        producer.begin_transaction()
        producer.produce_batch(topic, bodies)
        if is_aborted:
            producer.abort_transaction(_WAIT_S)
        else:
            producer.commit_transaction(_WAIT_S)
            kept += batch
        spent += time.perf_counter() - began
    _read_back(address, topic, kept, 100, **{"isolation.level": "read_committed"})
    return {"transactions": count / batch / spent}


def many_topics(address: str, prefix: str, count: int, _: int) -> Found:
    """A message to each of many topics that are there, acknowledged, and read back."""
    producer = Producer({"bootstrap.servers": address, **_BULK, "linger.ms": 0})
    began = time.perf_counter()
    for number in range(count):
        producer.produce(f"{prefix}-{number}", body(number))
    if left := producer.flush(_WAIT_S):
        raise CheckFailed(f"{left} messages were not acknowledged")
    spent = time.perf_counter() - began
    consumer = Consumer({"bootstrap.servers": address, **_READ})
    consumer.assign([TopicPartition(f"{prefix}-{number}", 0, 0) for number in range(count)])
    ledger, until = Ledger(0, count), time.monotonic() + _WAIT_S
    while not ledger.is_whole and time.monotonic() < until:
        ledger.note(number_of(one.value() or b"") for one in consumer.consume(1_000, 0.5) if one.error() is None)
    consumer.close()
    ledger.close()
    return {"topics": spent}


def recovered(address: str, topic: str, count: int, size: int) -> Found:
    """Whether what was acknowledged before the crash is there: how much by the ends of the log, and its last part."""
    consumer = Consumer({"bootstrap.servers": address, **_READ})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), 60)[1] for number in range(PARTITIONS)]
    if sum(ends) < count:
        raise CheckFailed(f"{count - sum(ends)} acknowledged messages are gone after the crash")
    tail = 1_000
    consumer.assign([TopicPartition(topic, number, max(0, end - tail)) for number, end in enumerate(ends)])
    wanted, got, until = sum(min(tail, end) for end in ends), 0, time.monotonic() + _WAIT_S
    while got < wanted and time.monotonic() < until:
        for one in consumer.consume(1_000, 0.5):
            number_of(one.value() or b"", size)
            got += 1
    consumer.close()
    if got < wanted:
        raise CheckFailed(f"{wanted - got} of the last messages cannot be read after the crash")
    return {"checked": got}


def fill(address: str, topic: str, count: int, size: int) -> Found:
    producer = Producer({"bootstrap.servers": address, **_BULK})
    step = 50_000
    for first in range(0, count, step):
        _publish(producer, topic, [body(number, size) for number in range(first, min(first + step, count))])
    return {"count": count}


KINDS: dict[str, Callable[[str, str, int, int], Found]] = {
    "throughput": throughput,
    "latency": latency,
    "fan-out": fan_out,
    "transactions": transactions,
    "many-topics": many_topics,
    "fill": fill,
    "recovered": recovered,
}


def main(arguments: Sequence[str]) -> int:
    kind, address, topic, first, second = arguments
    try:
        print(json.dumps(KINDS[kind](address, topic, int(first), int(float(second)))))
    except CheckFailed as error:
        print(json.dumps({"failed": str(error)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

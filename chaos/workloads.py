"""What is asked of the cluster all the while, one kind of use each, and what must hold of it in the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import Final

import boto3
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from chaos.clients import QUIET, Client, RestSender, SqsReceiver, SqsSender, Tail, Transactor, Worker
from chaos.fifo_clients import FifoReceiver, FifoSender
from chaos.histories import CLIENTS, DOUBLED, LOST, ORDER, Ends, Findings, Groups, Leases, merged
from chaos.lake_workload import LakeWorkload, no_spark
from chaos.ops import Op, Ops
from chaos.registry_clients import Registrar
from chaos.stored import where_stored
from chaos.workload import Workload
from tests.cluster.clients import Cluster, Writer, make_topic, read_all
from tests.waiting import has_come

DELAY_MS: Final = 1_500
_PARTITIONS: Final = 3


class TimedWriter(Writer):
    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(cluster, topic, pause_s=0.01, client=QUIET)
        self.ops = Ops()

    def _told(self, error: KafkaError | None, message: Message) -> None:
        super()._told(error, message)
        took_s = message.latency() if error is None else None
        self.ops.note(time.monotonic() - (took_s or 0.0), error is None)


class EndWatcher(Client):
    """Asks for the ends of a topic's partitions, at whoever leads them."""

    def __init__(self, cluster: Cluster, seed: int, topic: str, ends: Ends) -> None:
        super().__init__(cluster, seed)
        self._topic = topic
        self._ends = ends
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"ends-{topic}", **QUIET})

    def work(self) -> None:
        for partition in range(_PARTITIONS):
            try:
                told = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), 3, cached=False)
            except KafkaException:
                continue
            if told is not None:
                self._ends.saw(partition, told[1])
        self.stopping.wait(0.1)

    def close(self) -> None:
        super().close()
        self._consumer.close()


class LogWorkload(Workload):
    """An idempotent producer of the C client with `acks=all`."""

    name = "log"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self._topic = make_topic(cluster, _PARTITIONS)
        self.topics = [self._topic]
        self._writer = TimedWriter(cluster, self._topic)
        self._ends = Ends()
        self.takers = [EndWatcher(cluster, seed, self._topic, self._ends)]

    def start(self) -> None:
        super().start()
        self._writer.__enter__()

    def stop_senders(self) -> None:
        try:
            self._writer.__exit__()
        except (AssertionError, KafkaException, SystemError) as error:  # the last: a fatal error amid deliveries
            self._writer.failed.append(str(error))

    def abandon(self) -> None:
        super().abandon()
        self._writer._stopping.set()

    def ops(self) -> list[Op]:
        return list(self._writer.ops.done)

    @property
    def progress(self) -> int:
        return len(self._writer.acknowledged)

    def broken(self) -> Findings:
        read = read_all(self.cluster, self._topic)
        values = [value for _, value in read]
        twice = {value for value, count in Counter(values).items() if count > 1}
        wrong = {
            LOST: [one.decode() for one in sorted(set(self._writer.acknowledged) - set(values))],
            DOUBLED: where_stored(self.cluster, self._topic, twice) if twice else [],
            ORDER: list(_disorder(read)),
            CLIENTS: [f"the producer gave up: {one}" for one in self._writer.failed],
        }
        return merged(wrong, self._ends.check())

    def counts(self) -> dict[str, int]:
        return {"acknowledged": len(self._writer.acknowledged), "looks at ends": self._ends.looks}


def _disorder(read: list[tuple[bytes, bytes]]) -> Iterable[str]:
    last: dict[bytes, int] = {}
    for key, value in read:
        if int(value) < last.get(key, -1):
            yield f"{value!r} comes after {last[key]} in key {key!r}"
        last[key] = max(int(value), last.get(key, -1))


class TransactionWorkload(Workload):
    """Kafka transactions over several partitions, a third of them aborted."""

    name = "transactions"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self.topics = [make_topic(cluster, _PARTITIONS)]
        self._transactor = Transactor(cluster, seed, self.topics[0], f"txn-{seed}")
        self.senders = [self._transactor]

    def broken(self) -> Findings:
        return self._transactor.seen.check(self.values(self.topics[0]))

    def counts(self) -> dict[str, int]:
        seen, given_up = self._transactor.seen, len(self._transactor.given_up)
        ended = {"committed": len(seen.committed), "aborted": len(seen.aborted), "unknown": len(seen.unknown)}
        return {**ended, "producers that gave up": given_up}


class QueueWorkload(Workload):
    """Messages over REST, and workers of a group that take them under leases."""

    name = "queue"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        topic = make_topic(cluster, _PARTITIONS)
        self.topics = [topic]
        self._leases = Leases()
        self._sender = RestSender(cluster, seed, topic)
        self.senders = [self._sender]
        self.takers = [Worker(cluster, seed + 1 + one, f"workers-{seed}", topic, self._leases) for one in range(2)]

    def missing(self) -> Iterable[str]:
        return set(self._sender.sends.acked) - self._leases.seen

    def broken(self) -> Findings:
        return merged(self._sender.sends.check(self.values(self.topics[0])), self._leases.check())

    def counts(self) -> dict[str, int]:
        return {
            "acknowledged": len(self._sender.sends.acked),
            "unknown": len(self._sender.sends.unknown),
            "leases": sum(map(len, self._leases.leases.values())),
            "worked off": len(self._leases.done),
        }


class SqsWorkload(Workload):
    """A queue over SQS with boto3."""

    name = "sqs"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        queue = make_queue(cluster, f"q-{seed}")
        self._leases = Leases()
        self._sender = SqsSender(cluster, seed, queue)
        self.senders = [self._sender]
        self.takers = [SqsReceiver(cluster, seed + 1 + one, queue, self._leases) for one in range(2)]

    def missing(self) -> Iterable[str]:
        return self._sender.sent - self._leases.seen

    def broken(self) -> Findings:
        return merged({LOST: sorted(self.missing())}, self._leases.check())

    def counts(self) -> dict[str, int]:
        leases = sum(map(len, self._leases.leases.values()))
        return {"acknowledged": len(self._sender.sent), "leases": leases, "worked off": len(self._leases.done)}


class FifoWorkload(Workload):
    """A FIFO queue over SQS: order and one receiver at a time in a group; a send that is repeated counts once."""

    name = "fifo"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        queue = make_queue(cluster, f"f-{seed}.fifo", FifoQueue="true")
        self._leases, self._groups = Leases(), Groups()
        self._sender = FifoSender(cluster, seed, queue)
        self.senders = [self._sender]
        more = self._leases, self._groups
        self._receivers = [FifoReceiver(cluster, seed + 1 + one, queue, *more) for one in range(2)]
        self.takers = [*self._receivers]

    def missing(self) -> Iterable[str]:
        return self._sender.acked.difference(*(set(one.seen) for one in self._receivers))

    def broken(self) -> Findings:
        return merged({LOST: sorted(self.missing())}, self._leases.check(), self._groups.check())

    def counts(self) -> dict[str, int]:
        leases = sum(map(len, self._leases.leases.values()))
        return {"acknowledged": len(self._sender.acked), "times a group was taken": leases}


class DelayWorkload(Workload):
    """Delayed messages, and a reader that notes when they come."""

    name = "delay"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self.topics = [make_topic(cluster, _PARTITIONS)]
        self._sender = RestSender(cluster, seed, self.topics[0], DELAY_MS)
        self.senders = [self._sender]
        self.takers = [Tail(cluster, seed + 1, self.topics[0], lambda: self._sender.delays)]

    def missing(self) -> Iterable[str]:
        return set(self._sender.sends.acked) - set(self._sender.delays.seen_ms)

    def broken(self) -> Findings:
        wrong = self._sender.sends.check(self.values(self.topics[0]))
        if self.skew_ms:
            wrong.pop(ORDER)  # times of day of different clocks
        return merged(wrong, self._sender.delays.check(self.skew_ms))

    def counts(self) -> dict[str, int]:
        return {"acknowledged": len(self._sender.sends.acked), "come": len(self._sender.delays.seen_ms)}


class RegistryWorkload(Workload):
    """Schemas, registered at any node."""

    name = "registry"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self._registrar = Registrar(cluster, seed, f"subject-{seed}")
        self._registrar.prepare()
        self.senders = [self._registrar]

    def broken(self) -> Findings:
        seen = self._registrar.seen
        for node in self.cluster.running:  # each follows the log of schemas, a moment behind
            has_come(partial(self._has_all, node))
        return merged(*(seen.check(self._registrar.found(node)) for node in self.cluster.running))

    def _has_all(self, node: int) -> bool:
        return set(self._registrar.found(node)) >= set(self._registrar.seen.acked)

    def counts(self) -> dict[str, int]:
        return {"registered": len(self._registrar.seen.acked)}


def make_queue(cluster: Cluster, name: str, **attributes: str) -> str:
    known = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    with closing(boto3.client("sqs", endpoint_url=cluster.nodes[0].sqs, **known)) as sqs:
        sqs.create_queue(QueueName=name, Attributes=attributes)
    return name


WORKLOADS: Final[dict[str, Callable[[Cluster, int], Workload]]] = {
    one.name: one
    for one in (
        LogWorkload,
        TransactionWorkload,
        QueueWorkload,
        SqsWorkload,
        FifoWorkload,
        DelayWorkload,
        RegistryWorkload,
        LakeWorkload,
    )
}
DOORS: Final = tuple(name for name in WORKLOADS if name != LakeWorkload.name)  # Spark takes a core for itself


def workloads_here() -> tuple[str, ...]:
    """All that can run."""
    return DOORS if no_spark() else tuple(WORKLOADS)

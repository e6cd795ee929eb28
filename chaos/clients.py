"""Clients of all kinds, each in a thread of its own: they go on whatever happens to nodes, and note what they saw."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import boto3
import httpx
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from chaos.histories import Delays, Leases, Sends, Transactions
from chaos.ops import Ops
from tests.cluster.clients import Cluster

LEASE_S: Final = 20
PAUSE_S: Final = 0.03
QUIET: Final = {"log_level": 0}  # connections that are lost on purpose are not worth a line
_PATIENT: Final = {
    **QUIET,
    "socket.timeout.ms": 5_000,
    "topic.metadata.refresh.interval.ms": 500,
    "reconnect.backoff.max.ms": 200,
}


class Client:
    """`work` again and again, until it is stopped; what it raises ends it and is told."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.ops = Ops()
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self._http = httpx.Client(timeout=8)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._thread.join(180)
        if self._thread.is_alive():
            self.failure = AssertionError(f"{type(self).__name__} does not end")
        self.close()

    def close(self) -> None:
        self._http.close()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def rest(self, verb: str, path: str, **more: Any) -> httpx.Response | None:
        """At any node; None if nobody knows what came of it."""
        node = self.chance.choice(self.cluster.nodes)
        try:
            return self._http.request(verb, f"{node.url}{path}", **more)
        except httpx.HTTPError:
            self.stopping.wait(PAUSE_S)
            return None


class RestSender(Client):
    """One message at a time, of a few keys; with `delay_ms`, not before that."""

    def __init__(self, cluster: Cluster, seed: int, topic: str, delay_ms: int = 0) -> None:
        super().__init__(cluster, seed)
        self._topic = topic
        self._delay_ms = delay_ms
        self._count = 0
        self.sends = Sends()
        self.delays = Delays()

    def work(self) -> None:
        self._count += 1
        key, value = f"k{self._count % 5}", f"r{self._count}"
        message = {"key": key, "value": value}
        if self._delay_ms:
            message["delay"] = f"{self._delay_ms}ms"
            self.delays.earliest_ms[value] = time.time() * 1000 + self._delay_ms - 1
        began = time.monotonic()
        answer = self.rest("POST", f"/topics/{self._topic}/messages", json={"messages": [message], "acks": "all"})
        is_stored = answer is not None and answer.is_success and "error" not in answer.json()["results"][0]
        self.ops.note(began, is_stored)
        if is_stored:
            self.sends.acked[value] = key
        else:
            self.sends.unknown.add(value)
        self.stopping.wait(PAUSE_S)


class Worker(Client):
    """A queue consumer of a group: takes under leases, works a little, acks."""

    def __init__(self, cluster: Cluster, seed: int, group: str, topic: str, leases: Leases) -> None:
        super().__init__(cluster, seed)
        self._group = group
        self._topic = topic
        self._leases = leases
        self._me: dict[str, Any] = {"member_id": f"w{seed}"}
        self._is_in = False
        self.refusals: list[str] = []

    def work(self) -> None:
        if self._is_in:
            self._take()
        else:
            self._join()

    def _join(self) -> None:
        asked = {"topics": [self._topic], "client_id": "w", "mode": "shared", "session_timeout": "60s", **self._me}
        self._leases.given_back(self._me["member_id"], time.monotonic())
        answer = self.rest("POST", f"/groups/{self._group}/join", json=asked)
        if answer is not None and answer.is_success:
            self._me["generation"], self._is_in = answer.json()["generation"], True
        else:
            self.stopping.wait(0.2)
            self._me.pop("generation", None)

    def _take(self) -> None:
        params = {**self._me, "timeout": "1s", "limit": 5, "visibility_timeout": f"{LEASE_S}s"}
        asked = time.monotonic()
        answer = self.rest("GET", f"/groups/{self._group}/poll", params=params)
        got = time.monotonic()
        if answer is None or answer.status_code >= 500:
            return
        if not answer.is_success:
            self.refusals.append(answer.text)
            self._is_in = False
            self._me.pop("generation", None)
            return
        self._me["generation"] = answer.json()["generation"]
        for one in answer.json()["messages"]:
            self._leases.leased(one["value"], self._me["member_id"], asked, got, LEASE_S)
            self.stopping.wait(self.chance.uniform(0, 0.1))
            self._ack(one["value"], one["receipt"])

    def _ack(self, value: str, receipt: str) -> None:
        began = time.monotonic()
        answer = self.rest("POST", "/messages/ack", json={"receipts": [receipt]})
        is_done = answer is not None and answer.is_success and "error" not in answer.text
        self.ops.note(began, is_done)
        if is_done:
            self._leases.acked(value, time.monotonic())
        else:
            self._leases.maybe_acked(value)


class SqsClient(Client):
    """Sends or receives, at any node."""

    def __init__(self, cluster: Cluster, seed: int, queue: str) -> None:
        super().__init__(cluster, seed)
        self.queue = queue
        config = Config(retries={"total_max_attempts": 1}, read_timeout=8, connect_timeout=3)
        known = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x", "config": config}
        session = boto3.Session()
        self._clients = [(node.sqs, session.client("sqs", endpoint_url=node.sqs, **known)) for node in cluster.nodes]

    def close(self) -> None:
        super().close()
        for _, client in self._clients:
            client.close()

    def ask(self, verb: str, **parameters: Any) -> dict[str, Any] | None:
        """None if nobody knows what came of it."""
        url, client = self.chance.choice(self._clients)
        try:
            found: dict[str, Any] = getattr(client, verb)(QueueUrl=f"{url}/000000000000/{self.queue}", **parameters)
            return found
        except (BotoCoreError, ClientError):
            self.stopping.wait(PAUSE_S)
            return None


class SqsSender(SqsClient):
    def __init__(self, cluster: Cluster, seed: int, queue: str) -> None:
        super().__init__(cluster, seed, queue)
        self.sent: set[str] = set()
        self._count = 0

    def work(self) -> None:
        self._count += 1
        began = time.monotonic()
        is_stored = self.ask("send_message", MessageBody=f"s{self._count}") is not None
        self.ops.note(began, is_stored)
        if is_stored:
            self.sent.add(f"s{self._count}")
        self.stopping.wait(PAUSE_S)


class SqsReceiver(SqsClient):
    def __init__(self, cluster: Cluster, seed: int, queue: str, leases: Leases) -> None:
        super().__init__(cluster, seed, queue)
        self._leases = leases

    def work(self) -> None:
        asked = time.monotonic()
        found = self.ask("receive_message", MaxNumberOfMessages=5, WaitTimeSeconds=1, VisibilityTimeout=LEASE_S)
        got = time.monotonic()
        for one in (found or {}).get("Messages", []):
            self._leases.leased(one["Body"], "", asked, got, LEASE_S)
            self.stopping.wait(self.chance.uniform(0, 0.1))
            self._delete(one, asked + LEASE_S)

    def _delete(self, one: dict[str, Any], until: float) -> None:
        """A receipt whose time is over deletes nothing, and is answered as if it did."""
        told = self.ask("delete_message", ReceiptHandle=one["ReceiptHandle"])
        if told is not None and time.monotonic() < until:
            self._leases.acked(one["Body"], time.monotonic())
        else:
            self._leases.maybe_acked(one["Body"])


class Transactor(Client):
    """Transactions of a few messages each, some of them aborted on purpose."""

    def __init__(self, cluster: Cluster, seed: int, topic: str, name: str) -> None:
        super().__init__(cluster, seed)
        self._topic = topic
        self._name = name
        self._count = 0
        self._producer: Producer | None = None
        self.seen = Transactions()
        self.given_up: list[str] = []  # why a producer could not go on, and another took its place

    def work(self) -> None:
        try:
            producer = self._producer or self._begun()
        except KafkaException:
            self._producer = None
            return
        self._count += 1
        name = f"{self._name}-{self._count}"
        messages = [f"{name}/{number}" for number in range(4)]
        began = time.monotonic()
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(self._topic, message.encode(), key=message.encode())
            self._end(producer, name, messages)
            self.ops.note(began, True)
        except KafkaException as error:
            self.ops.note(began, False)
            self._fail(producer, name, messages, error)
        self.stopping.wait(PAUSE_S)

    def _begun(self) -> Producer:
        settings = {"transactional.id": self._name, "transaction.timeout.ms": 60_000, "linger.ms": 0, **_PATIENT}
        self._producer = producer = Producer({"bootstrap.servers": self.cluster.bootstrap, **settings})
        producer.init_transactions(30)
        return producer

    def _end(self, producer: Producer, name: str, messages: list[str]) -> None:
        if self.chance.random() < 0.3:
            self.seen.unknown[name] = messages
            producer.abort_transaction(30)
            self.seen.aborted[name] = self.seen.unknown.pop(name)
        else:
            producer.flush(30)
            self.seen.unknown[name] = messages
            producer.commit_transaction(30)
            self.seen.committed[name] = self.seen.unknown.pop(name)

    def _fail(self, producer: Producer, name: str, messages: list[str], error: KafkaException) -> None:
        """If it was not yet to be committed it is aborted; else nobody knows, until another producer has fenced it."""
        self.seen.unknown.setdefault(name, messages)
        why = error.args[0]
        if isinstance(why, KafkaError) and why.txn_requires_abort():
            try:
                producer.abort_transaction(30)
                self.seen.aborted[name] = self.seen.unknown.pop(name)
                return
            except KafkaException as another:
                why = another.args[0]
        if isinstance(why, KafkaError) and why.fatal():
            self.given_up.append(str(why))
        self._producer = None


class Tail(Client):
    """Reads a topic as it grows, and notes when each message was first there."""

    def __init__(self, cluster: Cluster, seed: int, topic: str, delays: Callable[[], Delays]) -> None:
        super().__init__(cluster, seed)
        settings = {"group.id": f"tail-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings, **_PATIENT})
        self._consumer.subscribe([topic])
        self._delays = delays

    def work(self) -> None:
        message: Message | None = self._consumer.poll(0.5)
        if message is not None and message.error() is None:
            value = (message.value() or b"").decode()
            self._delays().seen_ms.setdefault(value, time.time() * 1000)

    def close(self) -> None:
        super().close()
        self._consumer.close()

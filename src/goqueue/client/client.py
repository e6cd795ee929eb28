"""The client for programs without an event loop. The same surface as `AsyncClient`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar, Unpack

import httpx

from goqueue.client import calls, checks, staged
from goqueue.client.addresses import Addresses
from goqueue.client.administration import Administration
from goqueue.client.batch_calls import RawBatches
from goqueue.client.calls import Acks, Config, Isolation, ReadOptions, RestCall
from goqueue.client.consumer import Consumer, OnRebalance
from goqueue.client.consumer_options import ConsumerOptions
from goqueue.client.consumption import Consumption
from goqueue.client.delayed import Delayed
from goqueue.client.errors import ConnectionFailed, GoQueueClientError, missing_grpc
from goqueue.client.http_sender import HttpSender
from goqueue.client.messages import Content, Message, MessageFields, Moment, NewMessage, Sent, Span
from goqueue.client.replies import (
    BrokerVersion,
    Doors,
    Group,
    GroupSummary,
    OffsetMove,
    Page,
    Readiness,
    TopicInfo,
    TopicSummary,
)
from goqueue.client.requests import Requester, reply_place
from goqueue.client.staged import Staged, StagedEnd, StagedOwner, StagedWriterId
from goqueue.client.tail import Tail
from goqueue.client.transaction import ClientTransaction
from goqueue.client.transport import (
    DEFAULT_PATIENCE,
    DEFAULT_TIMEOUT,
    DEFAULT_URL,
    ClientIdentity,
    identity_of,
    stream_ended,
)

T = TypeVar("T")


class Sender(Protocol):
    """One transport."""

    def perform(self, url: str, call: RestCall[T]) -> T: ...

    def stream(self, url: str, call: RestCall[Any]) -> AbstractContextManager[Iterator[bytes]]: ...

    def close(self) -> None: ...


def _grpc_sender(timeout: float, identity: ClientIdentity) -> Sender:
    try:
        from goqueue.client.grpc_sender import GrpcSender
    except ModuleNotFoundError as error:
        raise missing_grpc(error) from None
    return GrpcSender(timeout, identity)


class Client(Administration, RawBatches):
    """One broker, or a cluster by the addresses of some of its nodes, over HTTP (`http://host:8080`)
    or gRPC (`grpc://host:9000`), with TLS as `https://` and `grpcs://`. Safe to share between threads; close
    it, or use it in a `with`.

    `timeout` is seconds for each request; `key` is an API key, or `user:password`, and `ca_file` whom to trust (or
    GOQUEUE_KEY, GOQUEUE_KEY_FILE and GOQUEUE_CA_FILE in the environment); `cert` is the file of a client
    certificate, or that and the file of its private key (or GOQUEUE_CERT_FILE and GOQUEUE_CERT_KEY_FILE), all PEM.
    Every method raises `GoQueueClientError` for what the broker refuses and its subclass `ConnectionFailed` where there
    was no answer. Nothing is repeated behind the caller's back.
    """

    def __init__(
        self,
        url: str | Sequence[str] = DEFAULT_URL,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        key: str | None = None,
        ca_file: str | None = None,
        cert: str | tuple[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        checks.seconds(timeout, "timeout")
        self._addresses, identity = Addresses(url), identity_of(key, ca_file, cert)
        self._sender: Sender = (
            _grpc_sender(timeout, identity) if self._addresses.are_grpc else HttpSender(timeout, identity, transport)
        )

    @property
    def url(self) -> str:
        """The address that is asked next."""
        return self._addresses.current

    def close(self) -> None:
        self._sender.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def perform(self, call: RestCall[T]) -> T:
        """Sends one request and reads its answer. One that surely was not done is sent to the next address."""
        tried = 0
        while True:
            tried, url = tried + 1, self._addresses.current
            try:
                return self._sender.perform(url, call)
            except GoQueueClientError as error:
                if isinstance(error, ConnectionFailed) or error.status == 503:
                    self._addresses.failed(url)
                if not self._addresses.may_try_next(error, tried):
                    raise

    # --- topics ---------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Config | None = None,
        *,
        exist_ok: bool = False,
        replication_factor: int | None = None,
    ) -> TopicInfo:
        """Creates a topic; `topic-exists` if there is one, or with `exist_ok` that one as it is. Partitions and, in a
        cluster, replicas default to the broker's settings."""
        try:
            return self.perform(calls.create_topic(name, partitions, config, replication_factor))
        except GoQueueClientError as error:
            if not exist_ok or error.code != "topic-exists":
                raise
        return self.topic(name)

    def topics(self) -> list[TopicSummary]:
        """All topics, by name."""
        return self.perform(calls.topics())

    def topic(self, name: str) -> TopicInfo:
        """One topic with its settings and partitions."""
        return self.perform(calls.topic(name))

    def alter_topic(self, name: str, config: Config | None = None, partitions: int | None = None) -> TopicInfo:
        """Changes settings (None takes one back to its default) and adds partitions."""
        return self.perform(calls.alter_topic(name, config, partitions))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and its messages."""
        self.perform(calls.delete_topic(name))

    # --- messages -------------------------------------------------------------------------------------

    def publish(self, topic: str, value: Content, *, acks: Acks = "all", **fields: Unpack[MessageFields]) -> Sent:
        """Stores one message and says where. For many, use `publish_many` or a `Producer`."""
        return self.perform(calls.publish(topic, NewMessage(value, **fields), acks))

    def publish_many(self, topic: str, messages: Iterable[NewMessage | Content], *, acks: Acks = "all") -> list[Sent]:
        """Stores messages in one request. `PartlyStored` if some were not: its `results` say which."""
        return self.perform(calls.publish_many(topic, messages, acks))

    def requester(self) -> Requester:
        """For requests that wait for their replies, to use in a `with`."""
        return Requester(self)

    def reply(self, message: Message, value: Content) -> Sent:
        """Answers a request."""
        topic, headers = reply_place(message)
        return self.publish(topic, value, headers=headers)

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int | None = None,
        from_: Moment | None = None,
        limit: int = 100,
        timeout: float = 0.0,
        isolation: Isolation = "read_committed",
    ) -> Page:
        """A page of one partition from an offset (default: its start), or of all from `from_`. Takes nothing away.

        `from_` is `earliest` (default), `latest`, a point in time, or the `next` of another page. Waits up to `timeout`
        seconds for the first message.
        """
        return self.perform(calls.read(topic, partition, offset, from_, ReadOptions(limit, timeout, isolation)))

    def tail(
        self,
        topic: str,
        *,
        from_: Moment = "latest",
        partition: int | None = None,
        patience: float = DEFAULT_PATIENCE,
    ) -> Generator[Message, None, None]:
        """Messages as they come, for ever. A lost connection is made anew behind the last message handed out.

        Raises if the first connection fails, if the broker refuses, or after `patience` seconds without a connection.
        """
        tail = Tail(topic, from_, partition, patience)
        while True:
            try:
                yield from self._connection(tail)
                raise stream_ended(self.url)
            except GoQueueClientError as error:
                pause = tail.lost(error, time.monotonic())
            time.sleep(pause)

    def _connection(self, tail: Tail) -> Generator[Message, None, None]:
        url = self._addresses.current
        try:
            with self._sender.stream(url, tail.request()) as chunks:
                tail.connected()
                for chunk in chunks:
                    yield from tail.feed(chunk)
        except ConnectionFailed:
            self._addresses.failed(url)
            raise

    # --- delayed messages -----------------------------------------------------------------------------

    def delayed(self, topic: str, *, limit: int = 100, skip: int = 0) -> list[Delayed]:
        """What waits for a topic, by time."""
        return self.perform(calls.delayed(topic, limit, skip))

    def delayed_message(self, topic: str, partition: int, scheduled: int) -> Delayed:
        """One delayed message, also after it is done."""
        return self.perform(calls.delayed_message(topic, partition, scheduled))

    def cancel_delayed(self, topic: str, partition: int, scheduled: int) -> None:
        """The message will never be seen; `already-delivered` if it was."""
        self.perform(calls.cancel_delayed(topic, partition, scheduled))

    def delay_stats(self) -> dict[str, Any]:
        """How many messages wait, were delivered, cancelled, expired, and how late the last ones were."""
        return self.perform(calls.delay_stats())

    # --- groups ---------------------------------------------------------------------------------------

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_rebalance: OnRebalance | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """A member of the group, to use in a `with`: it takes messages under leases and answers for them.

        `ConsumerSettings` tells the options. `on_rebalance` is called by polls, before partitions are given back and
        after they were gained.
        """
        return Consumer(self, group, topics, on_rebalance=on_rebalance, **options)

    def consume(
        self, group: str, topics: Sequence[str], *, lease: Span = "30s", **options: Unpack[ConsumerOptions]
    ) -> Consumption:
        """A loop over a queue, to use in a `with`: a message is acked when its turn is over, nacked if
        that raises, and its lease renewed meanwhile."""
        return Consumption(self, group, topics, lease, **options)

    def groups(self) -> list[GroupSummary]:
        """All groups, by name."""
        return self.perform(calls.groups())

    def group(self, name: str) -> Group:
        """One group with its members and how far it is behind."""
        return self.perform(calls.group(name))

    def reset_offsets(
        self,
        group: str,
        topic: str,
        *,
        to: Moment | None = None,
        offset: int | None = None,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> list[OffsetMove]:
        """Moves a group without members to `earliest`, `latest`, a point in time, or an offset.

        All partitions of the topic, or the one named. A dry run only says what would be.
        """
        return self.perform(calls.reset_offsets(group, topic, to, offset, partition, dry_run))

    def delete_group(self, name: str) -> None:
        """Deletes a group without members, and its offsets."""
        self.perform(calls.delete_group(name))

    # --- transactions ---------------------------------------------------------------------------------

    def transaction(self, transactional_id: str | None = None, *, timeout: Span | None = None) -> ClientTransaction:
        """A transaction, to use in a `with`: its messages, acks and offsets count together or not at all.

        A `transactional_id` shuts out an earlier producer of that id. `timeout` is how long each may take.
        """
        return ClientTransaction(self, transactional_id, timeout)

    # --- staged sets ----------------------------------------------------------------------------------

    def stage(
        self, owner: str, batch: int, writer: str | int, attempt: int = 0, timeout_s: float = 3600.0
    ) -> StagedWriterId:
        """A writer of a batch: what it writes is seen when the batch is committed. An older one of the same writer and
        attempt is shut out. It is aborted if nothing is heard of it for `timeout_s` seconds."""
        return self.perform(staged.stage(owner, batch, writer, attempt, timeout_s))

    def commit_staged(self, owner: str, batch: int, writers: Sequence[StagedWriterId]) -> StagedEnd:
        """Shows all that these writers wrote, and drops the owner's others. It may be repeated: a batch up to the last
        one is `already` committed. `staged-conflict` if a writer is not open (any more): nothing was committed."""
        return self.perform(staged.commit(owner, batch, writers))

    def abort_staged(self, owner: str, batch: int) -> StagedEnd:
        """Drops what is staged for the batch, unless it is `already committed`."""
        return self.perform(staged.abort(owner, batch))

    def staged(self, owner: str) -> Staged:
        """The last batch that the owner committed, and what it has staged."""
        return self.perform(staged.staged(owner))

    def staged_owners(self, *, limit: int = 100) -> list[StagedOwner]:
        """Owners of staged sets, by name."""
        return self.perform(staged.owners(limit))

    # --- the node -------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Uptime, topics, messages, bytes, disk and storage counters."""
        return self.perform(calls.stats())

    def version(self) -> BrokerVersion:
        """Which broker answers."""
        return self.perform(calls.version())

    def doors(self) -> Doors:
        """Where the node's doors are."""
        return self.perform(calls.doors())

    def ready(self) -> Readiness:
        """Whether the node takes writes, and if not, why."""
        return self.perform(calls.ready())

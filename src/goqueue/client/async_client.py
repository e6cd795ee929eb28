"""The client for programs on asyncio. The same surface as `Client`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Any, Protocol, TypeVar, Unpack

import httpx

from goqueue.client import calls, checks, staged
from goqueue.client.addresses import Addresses
from goqueue.client.async_administration import AsyncAdministration
from goqueue.client.async_consumer import AsyncConsumer, OnAsyncRebalance
from goqueue.client.async_consumption import AsyncConsumption
from goqueue.client.async_transaction import AsyncClientTransaction
from goqueue.client.batch_calls import AsyncRawBatches
from goqueue.client.calls import Acks, Config, Isolation, ReadOptions, RestCall
from goqueue.client.consumer_options import ConsumerOptions
from goqueue.client.delayed import Delayed
from goqueue.client.errors import ConnectionFailed, GoQueueClientError, missing_grpc
from goqueue.client.http_sender import AsyncHttpSender
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
from goqueue.client.requests import AsyncRequester, reply_place
from goqueue.client.staged import Staged, StagedEnd, StagedOwner, StagedWriterId
from goqueue.client.tail import Tail
from goqueue.client.transport import (
    DEFAULT_PATIENCE,
    DEFAULT_TIMEOUT,
    DEFAULT_URL,
    ClientIdentity,
    identity_of,
    stream_ended,
)

T = TypeVar("T")


class AsyncSender(Protocol):
    """One transport."""

    async def perform(self, url: str, call: RestCall[T]) -> T: ...

    def stream(self, url: str, call: RestCall[Any]) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    async def close(self) -> None: ...


def _grpc_sender(timeout: float, identity: ClientIdentity) -> AsyncSender:
    try:
        from goqueue.client.grpc_sender import AsyncGrpcSender
    except ModuleNotFoundError as error:
        raise missing_grpc(error) from None
    return AsyncGrpcSender(timeout, identity)


class AsyncClient(AsyncAdministration, AsyncRawBatches):
    """One broker, or a cluster by the addresses of some of its nodes, over HTTP (`http://host:8080`)
    or gRPC (`grpc://host:9000`), with TLS as `https://` and `grpcs://`. Safe to share between tasks; close it,
    or use it in an `async with`.

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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        checks.seconds(timeout, "timeout")
        self._addresses, identity = Addresses(url), identity_of(key, ca_file, cert)
        self._sender: AsyncSender = (
            _grpc_sender(timeout, identity)
            if self._addresses.are_grpc
            else AsyncHttpSender(timeout, identity, transport)
        )

    @property
    def url(self) -> str:
        """The address that is asked next."""
        return self._addresses.current

    async def close(self) -> None:
        await self._sender.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def perform(self, call: RestCall[T]) -> T:
        """Sends one request and reads its answer. One that surely was not done is sent to the next address."""
        tried = 0
        while True:
            tried, url = tried + 1, self._addresses.current
            try:
                return await self._sender.perform(url, call)
            except GoQueueClientError as error:
                if isinstance(error, ConnectionFailed) or error.status == 503:
                    self._addresses.failed(url)
                if not self._addresses.may_try_next(error, tried):
                    raise

    # --- topics ---------------------------------------------------------------------------------------

    async def create_topic(
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
            return await self.perform(calls.create_topic(name, partitions, config, replication_factor))
        except GoQueueClientError as error:
            if not exist_ok or error.code != "topic-exists":
                raise
        return await self.topic(name)

    async def topics(self) -> list[TopicSummary]:
        """All topics, by name."""
        return await self.perform(calls.topics())

    async def topic(self, name: str) -> TopicInfo:
        """One topic with its settings and partitions."""
        return await self.perform(calls.topic(name))

    async def alter_topic(self, name: str, config: Config | None = None, partitions: int | None = None) -> TopicInfo:
        """Changes settings (None takes one back to its default) and adds partitions."""
        return await self.perform(calls.alter_topic(name, config, partitions))

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic and its messages."""
        await self.perform(calls.delete_topic(name))

    # --- messages -------------------------------------------------------------------------------------

    async def publish(self, topic: str, value: Content, *, acks: Acks = "all", **fields: Unpack[MessageFields]) -> Sent:
        """Stores one message and says where. For many, use `publish_many` or an `AsyncProducer`."""
        return await self.perform(calls.publish(topic, NewMessage(value, **fields), acks))

    async def publish_many(
        self, topic: str, messages: Iterable[NewMessage | Content], *, acks: Acks = "all"
    ) -> list[Sent]:
        """Stores messages in one request. `PartlyStored` if some were not: its `results` say which."""
        return await self.perform(calls.publish_many(topic, messages, acks))

    def requester(self) -> AsyncRequester:
        """For requests that wait for their replies, to use in an `async with`."""
        return AsyncRequester(self)

    async def reply(self, message: Message, value: Content) -> Sent:
        """Answers a request."""
        topic, headers = reply_place(message)
        return await self.publish(topic, value, headers=headers)

    async def read(
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
        return await self.perform(calls.read(topic, partition, offset, from_, ReadOptions(limit, timeout, isolation)))

    async def tail(
        self,
        topic: str,
        *,
        from_: Moment = "latest",
        partition: int | None = None,
        patience: float = DEFAULT_PATIENCE,
    ) -> AsyncGenerator[Message, None]:
        """Messages as they come, for ever. A lost connection is made anew behind the last message handed out.

        Leave it with `contextlib.aclosing` around it, so that the connection closes at once.
        Raises if the first connection fails, if the broker refuses, or after `patience` seconds without a connection.
        """
        tail = Tail(topic, from_, partition, patience)
        while True:
            try:
                async with aclosing(self._connection(tail)) as messages:
                    async for message in messages:
                        yield message
                raise stream_ended(self.url)
            except GoQueueClientError as error:
                pause = tail.lost(error, asyncio.get_running_loop().time())
            await asyncio.sleep(pause)

    async def _connection(self, tail: Tail) -> AsyncGenerator[Message, None]:
        url = self._addresses.current
        try:
            async with self._sender.stream(url, tail.request()) as chunks:
                tail.connected()
                async for chunk in chunks:
                    for message in tail.feed(chunk):
                        yield message
        except ConnectionFailed:
            self._addresses.failed(url)
            raise

    # --- delayed messages -----------------------------------------------------------------------------

    async def delayed(self, topic: str, *, limit: int = 100, skip: int = 0) -> list[Delayed]:
        """What waits for a topic, by time."""
        return await self.perform(calls.delayed(topic, limit, skip))

    async def delayed_message(self, topic: str, partition: int, scheduled: int) -> Delayed:
        """One delayed message, also after it is done."""
        return await self.perform(calls.delayed_message(topic, partition, scheduled))

    async def cancel_delayed(self, topic: str, partition: int, scheduled: int) -> None:
        """The message will never be seen; `already-delivered` if it was."""
        await self.perform(calls.cancel_delayed(topic, partition, scheduled))

    async def delay_stats(self) -> dict[str, Any]:
        """How many messages wait, were delivered, cancelled, expired, and how late the last ones were."""
        return await self.perform(calls.delay_stats())

    # --- groups ---------------------------------------------------------------------------------------

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_rebalance: OnAsyncRebalance | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> AsyncConsumer:
        """A member of the group, to use in an `async with`: it takes messages under leases and answers for them.

        `ConsumerSettings` tells the options. `on_rebalance` is called by polls, before partitions are given back and
        after they were gained.
        """
        return AsyncConsumer(self, group, topics, on_rebalance=on_rebalance, **options)

    def consume(
        self, group: str, topics: Sequence[str], *, lease: Span = "30s", **options: Unpack[ConsumerOptions]
    ) -> AsyncConsumption:
        """A loop over a queue, to use in an `async with`: a message is acked when its turn is over, nacked if
        that raises, and its lease renewed meanwhile."""
        return AsyncConsumption(self, group, topics, lease, **options)

    async def groups(self) -> list[GroupSummary]:
        """All groups, by name."""
        return await self.perform(calls.groups())

    async def group(self, name: str) -> Group:
        """One group with its members and how far it is behind."""
        return await self.perform(calls.group(name))

    async def reset_offsets(
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
        return await self.perform(calls.reset_offsets(group, topic, to, offset, partition, dry_run))

    async def delete_group(self, name: str) -> None:
        """Deletes a group without members, and its offsets."""
        await self.perform(calls.delete_group(name))

    # --- transactions ---------------------------------------------------------------------------------

    def transaction(
        self, transactional_id: str | None = None, *, timeout: Span | None = None
    ) -> AsyncClientTransaction:
        """A transaction, to use in an `async with`: its messages, acks and offsets count together or not at all.

        A `transactional_id` shuts out an earlier producer of that id. `timeout` is how long each may take.
        """
        return AsyncClientTransaction(self, transactional_id, timeout)

    # --- staged sets ----------------------------------------------------------------------------------

    async def stage(
        self, owner: str, batch: int, writer: str | int, attempt: int = 0, timeout_s: float = 3600.0
    ) -> StagedWriterId:
        """A writer of a batch: what it writes is seen when the batch is committed. An older one of the same writer and
        attempt is shut out. It is aborted if nothing is heard of it for `timeout_s` seconds."""
        return await self.perform(staged.stage(owner, batch, writer, attempt, timeout_s))

    async def commit_staged(self, owner: str, batch: int, writers: Sequence[StagedWriterId]) -> StagedEnd:
        """Shows all that these writers wrote, and drops the owner's others. It may be repeated: a batch up to the last
        one is `already` committed. `staged-conflict` if a writer is not open (any more): nothing was committed."""
        return await self.perform(staged.commit(owner, batch, writers))

    async def abort_staged(self, owner: str, batch: int) -> StagedEnd:
        """Drops what is staged for the batch, unless it is `already committed`."""
        return await self.perform(staged.abort(owner, batch))

    async def staged(self, owner: str) -> Staged:
        """The last batch that the owner committed, and what it has staged."""
        return await self.perform(staged.staged(owner))

    async def staged_owners(self, *, limit: int = 100) -> list[StagedOwner]:
        """Owners of staged sets, by name."""
        return await self.perform(staged.owners(limit))

    # --- the node -------------------------------------------------------------------------------------

    async def stats(self) -> dict[str, Any]:
        """Uptime, topics, messages, bytes, disk and storage counters."""
        return await self.perform(calls.stats())

    async def version(self) -> BrokerVersion:
        """Which broker answers."""
        return await self.perform(calls.version())

    async def doors(self) -> Doors:
        """Where the node's doors are."""
        return await self.perform(calls.doors())

    async def ready(self) -> Readiness:
        """Whether the node takes writes, and if not, why."""
        return await self.perform(calls.ready())

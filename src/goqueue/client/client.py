"""The client for programs without an event loop. The same surface as `AsyncClient`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx

from goqueue.client import calls, staged
from goqueue.client.calls import Acks, Config, Isolation, ReadOptions, RestCall, finish
from goqueue.client.consumer import Consumer, OnRebalance
from goqueue.client.consumer_options import ConsumerOptions
from goqueue.client.delayed import Delayed
from goqueue.client.errors import GoQueueClientError, error_of_reply
from goqueue.client.messages import Content, Message, MessageFields, Moment, NewMessage, Sent
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
from goqueue.client.staged import Staged, StagedEnd, StagedOwner, StagedWriterId
from goqueue.client.tail import Tail
from goqueue.client.transport import (
    DEFAULT_PATIENCE,
    DEFAULT_TIMEOUT,
    DEFAULT_URL,
    client_options,
    failure_of,
    request_options,
    stream_ended,
    stream_options,
)

T = TypeVar("T")


class Client:
    """One broker, over HTTP. Safe to share between threads; close it, or use it in a `with`.

    `timeout` is seconds for each request. Every method raises `GoQueueClientError` for what the broker refuses and
    its subclass `ConnectionFailed` where there was no answer. Nothing is repeated behind the caller's back.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._timeout = timeout
        self._http = httpx.Client(**client_options(url, timeout), transport=transport)
        self.url = url.rstrip("/")

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def perform(self, call: RestCall[T]) -> T:
        """Sends one request and reads its answer."""
        try:
            response = self._http.request(**request_options(call, self._timeout))
        except httpx.HTTPError as error:
            raise failure_of(error, self.url) from error
        return finish(call, response.status_code, response.content)

    # --- topics ---------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int | None = None, config: Config | None = None, *, exist_ok: bool = False
    ) -> TopicInfo:
        """Creates a topic; `topic-exists` if there is one, or with `exist_ok` that one as it is. Partitions default to
        the broker's setting."""
        try:
            return self.perform(calls.create_topic(name, partitions, config))
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
        try:
            with self._http.stream(**stream_options(tail.request(), self._timeout)) as response:
                if response.status_code != 200:
                    raise error_of_reply(response.status_code, response.read())
                tail.connected()
                for chunk in response.iter_bytes():
                    yield from tail.feed(chunk)
        except httpx.HTTPError as error:
            raise failure_of(error, self.url) from error

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

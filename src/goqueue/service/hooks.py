"""The places in the verbs where access control, schemas, quotas, traces and transactions attach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from goqueue.base.access import Access
from goqueue.base.commands import Caller, Headers
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.service.tracing import Tracing


class Limits(Protocol):
    """Raises if something is over a quota."""

    def publish(self, caller: Caller, topic: str, size: int, count: int) -> None:
        """So many messages of so many bytes are about to be stored."""
        ...

    def message_bytes(self, topic: str, most: int) -> int:
        """How large a message of the topic may be that takes up to `most`."""
        ...

    def delay(self, topic: str, count: int, pending_of: Callable[[str], int]) -> None:
        """So many messages are about to wait for their time; `pending_of` tells how many do, by a topic's id."""
        ...

    def grow(self, topic: str, topics: int, partitions: int) -> None:
        """A topic, or some of its partitions, are about to be made."""
        ...


class TooMuchHere(Exception):
    """The batch takes too long to be looked at on the loop, or its transaction has to be asked about elsewhere."""


class SchemaCheck(Protocol):
    """Raises if a record does not fit the topic's schema. Asked for topics that validate only."""

    def batch(self, topic: Topic, header: BatchHeader, batch: Buffer, is_here: bool) -> None:
        """`is_here` on the loop: `TooMuchHere` once that would hold up others."""
        ...

    def record(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers) -> None: ...


class TransactionCheck(Protocol):
    """Raises unless a batch of this producer and epoch may be stored there."""

    def check(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """`TooMuchHere` if that has to be learned first."""
        ...

    async def learn(self, partition: Partition, producer_id: int, epoch: int) -> None: ...


class Hooks(msgspec.Struct, frozen=True):
    """All absent until something is wired in; an absent one costs a comparison."""

    access: Access | None = None
    schema: SchemaCheck | None = None
    limits: Limits | None = None
    trace: Tracing | None = None
    transactions: TransactionCheck | None = None
    announce: Callable[[Topic], Awaitable[None]] | None = None  # returns when other nodes know a new topic too

    def message_bytes_max(self, topic: Topic) -> int:
        """How large a message of the topic may be."""
        most = topic.config.max_message_bytes
        return most if self.limits is None else self.limits.message_bytes(topic.name, most)

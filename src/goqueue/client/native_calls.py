"""Requests that gRPC has methods of its own for, as plain data. They go with the same requests of the REST API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from goqueue.client.messages import Content, NewMessage


class NativePublish(msgspec.Struct, frozen=True):
    """`finish` makes the answer of one result for each message."""

    topic: str
    messages: Sequence[NewMessage | Content]
    acks: str
    finish: Callable[[list[Any]], Any]


class NativePoll(msgspec.Struct, frozen=True):
    group: str
    member_id: str
    generation: int
    limit: int
    wait_ms: int


class NativeAck(msgspec.Struct, frozen=True):
    receipts: Sequence[str]


class NativePublishBatch(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    batch: bytes


class NativeFetchBatches(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    bytes_max: int
    wait_ms: int


Native: TypeAlias = NativePublish | NativePoll | NativeAck | NativePublishBatch | NativeFetchBatches

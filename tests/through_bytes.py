"""Lets every call of a door to what will be a shard go through bytes, both ways: `run` is a node that does.

What cannot be encoded raises, and what is shared by accident is a copy, so that a door suite which passes shows that
doors and shards share nothing but commands and replies.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Awaitable
from typing import Any, Final

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError
from goqueue.cli import main
from goqueue.edge.kafka.budget import Budget
from goqueue.service.batch_inspection import Inspection
from goqueue.service.browse import Browsing
from goqueue.service.consume import Consuming
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
from goqueue.service.fetch import Fetching
from goqueue.service.front import Front
from goqueue.service.groups import Groups
from goqueue.service.leasing import Leasing
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.queue_stats import QueueStats
from goqueue.service.reset import ResetOffsets
from goqueue.service.scheduling import Scheduling
from goqueue.service.staged import StagedVerbs
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_publish import TransactionalPublish

# Those of a shard. The others are one for a node: topics, schemas, health, metrics, traces, settings, storage.
OF_A_SHARD: Final = (
    Browsing,
    Consuming,
    DeadLetterView,
    DeduplicatedPublish,
    Fetching,
    Groups,
    Leasing,
    Publish,
    QueueStats,
    Redrives,
    ResetOffsets,
    Scheduling,
    StagedVerbs,
    TransactionVerbs,
    TransactionalPublish,
)
# Passed beside a command: an interrupt, memory to read into, and what a look at a large batch found on this side.
BESIDE: Final = (asyncio.Future, Budget, Inspection)


def copied(value: Any) -> Any:
    """The value as the other side would have it."""
    if value is None or isinstance(value, BESIDE):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, GoQueueError):
        return decode(encode(value), GoQueueError)
    if isinstance(value, msgspec.Struct | enum.Enum | str | int | float) or hasattr(value, "_fields"):
        return decode(encode(value), type(value))
    if isinstance(value, dict):
        return {copied(key): copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(copied, value))
    raise TypeError(f"{type(value).__name__} cannot pass between a door and a shard")


class ThroughBytes:
    """Stands for a service."""

    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if not callable(found):
            return copied(found)

        def verb(*args: Any, **named: Any) -> Any:
            try:
                result = found(*map(copied, args), **{key: copied(one) for key, one in named.items()})
            except GoQueueError as error:
                raise copied(error) from None
            if isinstance(result, asyncio.Future):
                return asyncio.ensure_future(_later(result))
            return _later(result) if inspect.isawaitable(result) else copied(result)

        return verb


async def _later(result: Awaitable[Any]) -> Any:
    try:
        return copied(await result)
    except GoQueueError as error:
        raise copied(error) from None


def install() -> None:
    direct = Front.by

    def by(front: Front[Any], caller: Caller) -> Any:
        service = direct(front, caller)
        return ThroughBytes(service) if isinstance(front._service, OF_A_SHARD) else service

    Front.by = by  # type: ignore[method-assign, assignment]


def run() -> None:
    install()
    main()

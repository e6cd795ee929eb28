"""What a follower asks of a leader, and what it is told: fetches of all shards that two nodes share, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from goqueue.base.ids import Epoch, Millis, Offset


class LogKey(NamedTuple):
    """A log by its topic's id: a topic that is made again under an old name is another."""

    topic_id: str
    partition: int


class LogFetch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far the follower has a log, how much of it is on its disk, the epoch of its last batch (-1: none), before
    where it was asked to delete everything, whether it holds nothing, and where it begins there. Earlier versions do
    not tell the last three."""

    log: LogKey
    end: Offset
    safe: Offset
    last_epoch: Epoch
    deleted: Offset = 0
    is_empty: bool = False
    start: Offset = 0


class ShardFetch(msgspec.Struct, frozen=True, array_like=True):
    """Without a session `logs` are all of the shard, and the answer names the session that begins. In a session they
    are those that moved since the fetch before; fetches are numbered, so that none is missed unnoticed."""

    shard: int
    epoch: Epoch
    logs: Sequence[LogFetch]
    session: int = 0
    number: int = 0


class FetchAsk(msgspec.Struct, frozen=True, array_like=True):
    """Whole batches behind those ends, up to so many bytes; wait so long if there is nothing new."""

    shards: Sequence[ShardFetch]
    bytes_max: int
    wait_ms_max: Millis


class LogAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Batches byte for byte; or, with `parting`, where the follower's history leaves the leader's: the largest epoch up
    to the follower's that the leader knows, and where that ends with it."""

    log: LogKey
    high_watermark: Offset
    start: Offset
    batches: bytes = b""
    parting: tuple[Epoch, Offset] | None = None
    deleted: Offset = 0  # before where somebody asked for everything to go


class RangeAsk(msgspec.Struct, frozen=True, array_like=True):
    """Whole batches of a log from one offset up to another, which a replica cannot read. Where its log ends, and in
    which epoch, says whether its history is the leader's."""

    shard: int
    epoch: Epoch
    log: LogKey
    first: Offset
    end: Offset
    log_end: Offset = 0
    last_epoch: Epoch = -1


class RangeAnswer(msgspec.Struct, frozen=True, array_like=True):
    start: Offset  # of the leader's log: what is before is gone
    batches: bytes


Refusal: TypeAlias = Literal["", "not_leader", "fenced_epoch", "unknown_epoch", "unknown_session"]


class ShardAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Of the logs that there is something to tell of."""

    shard: int
    refusal: Refusal
    logs: Sequence[LogAnswer] = ()
    session: int = 0


class FetchAnswer(msgspec.Struct, frozen=True, array_like=True):
    shards: Sequence[ShardAnswer]

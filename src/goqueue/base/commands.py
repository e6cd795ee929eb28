"""The commands and replies that all doors share.

A door turns bytes or JSON into one of these and a reply back; it decides nothing. `PublishBatch` carries encoded
record batches (Kafka, replication, Spark); `Message` carries one message in the open (REST, gRPC, SQS). All of them
are plain data, which `base/encoding.py` turns into bytes: an interrupt or memory to read into is passed beside them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Epoch, Millis, Offset, TopicPartition
from goqueue.base.limits import PAGE_BYTES_MAX
from goqueue.base.sqs_envelope import Envelope

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

if TYPE_CHECKING:
    EncodedBatch: TypeAlias = bytes | bytearray | memoryview
else:
    EncodedBatch = bytes  # what it is again where a command is decoded


class Acks(enum.Enum):
    """When a publish is answered: at once, when the leader is safe, when all in-sync replicas are."""

    NONE = "none"
    LEADER = "leader"
    ALL = "all"


class Isolation(enum.Enum):
    """Which end bounds a read: the high watermark, or the last stable offset."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Caller(msgspec.Struct, frozen=True):
    """Who asks, through which door, and from which host. Somebody of a tenant sees and reaches that tenant alone."""

    principal: str = "anonymous"
    door: str = "internal"
    host: str = ""
    tenant: str = ""


INTERNAL_DOOR: Final = "internal"  # the broker itself asks
ANYONE = Caller()


@lru_cache(maxsize=1024)
def anonymous(door: str, host: str) -> Caller:
    """Whoever did not say who it is."""
    return Caller(door=door, host=host)


# --- publish ------------------------------------------------------------------------------------------


class PublishBatch(msgspec.Struct, frozen=True):
    """Append one encoded record batch to one partition."""

    at: TopicPartition
    batch: EncodedBatch
    acks: Acks = Acks.ALL
    caller: Caller = ANYONE
    is_copy: bool = False  # the broker made it: it may be larger than what it was made of, and is never delayed


class Appended(msgspec.Struct, frozen=True):
    """Where a batch went, in which epoch. `append_time_ms` is -1 unless the topic stamps messages itself."""

    at: TopicPartition
    base_offset: Offset
    last_offset: Offset
    append_time_ms: Millis = -1
    start_offset: Offset = 0
    epoch: Epoch = -1


class Repeat(msgspec.Struct, frozen=True, array_like=True):
    """A cron line in a time zone, or a period; at most `times` times, not after `until_ms` (0: no bound)."""

    cron: str = ""
    timezone: str = ""
    every_ms: Millis = 0
    times: int = 0
    until_ms: Millis = 0


class InputMessage(msgspec.Struct, frozen=True, gc=False):
    """One message to publish; `partition` None lets the topic's partitioner choose.

    `deliver_at_ms` is when it enters the log: now or past means at once, None what the topic's settings say. `ttl_ms`
    counts from then.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: Millis | None = None
    deliver_at_ms: Millis | None = None
    ttl_ms: Millis | None = None
    repeat: Repeat | None = None
    delay_ms: Millis | None = None  # the same from now on

    @property
    def is_timed(self) -> bool:
        """It says when it enters the log, or how long it lives."""
        return self.repeat is not None or not (self.deliver_at_ms is self.ttl_ms is self.delay_ms is None)


class BatchIdentity(msgspec.Struct, frozen=True):
    """The producer of a publish's messages in one partition, and the number of the first: so that they can be sent
    again."""

    partition: int
    producer_id: int
    sequence: int


class PublishMessages(msgspec.Struct, frozen=True):
    """Publish messages in the open; each gets its own result, in order."""

    topic: str
    messages: Sequence[InputMessage]
    acks: Acks = Acks.ALL
    caller: Caller = ANYONE
    is_placed: bool = False  # a node that it came in through chose the partitions; it may be a part of a larger one
    identities: tuple[BatchIdentity, ...] = ()
    marks: tuple[str, ...] = ()  # of messages that wait for their time, in their order
    since_ms: Millis | None = None  # some of them may be stored since then


class StoredAt(msgspec.Struct, frozen=True, gc=False):
    """Where one message went."""

    partition: int
    offset: Offset


class ScheduledAt(msgspec.Struct, frozen=True, gc=False):
    """Where one message waits for its time: the partition that it will enter, and its offset in the schedule log."""

    partition: int
    offset: Offset
    deliver_at_ms: Millis


PublishResult: TypeAlias = StoredAt | ScheduledAt | GoQueueError


class OnceMessage(msgspec.Struct, frozen=True):
    """One message of a `PublishOnce`, whose key is its message group. The envelope becomes its last header."""

    message: InputMessage
    envelope: Envelope


class DeduplicationScope(msgspec.Struct, frozen=True):
    """Ids count within the whole topic, or with `by_group` within their message group.

    Those of messages up to the sequence number `forgotten` do not count.
    """

    topic: str
    by_group: bool = False
    forgotten: int = 0


class PublishOnce(msgspec.Struct, frozen=True):
    """Publish messages in the open, unless their deduplication ids were used in the last five minutes.

    Each message gets a sequence number.
    """

    scope: DeduplicationScope
    messages: Sequence[OnceMessage]
    caller: Caller = ANYONE


class PublishedOnce(msgspec.Struct, frozen=True, gc=False):
    """The message that an id stands for: this one, or an earlier one."""

    message_id: str
    sequence: int


OnceResult: TypeAlias = PublishedOnce | GoQueueError


# --- fetch --------------------------------------------------------------------------------------------


class FetchFrom(msgspec.Struct, frozen=True):
    """One partition of a fetch. A reader that knows its leader's epoch is refused if that is another one.

    A topic without a name is one that was asked for by an id which no topic has.
    """

    at: TopicPartition
    offset: Offset
    bytes_max: int
    leader_epoch: Epoch = -1


class Fetch(msgspec.Struct, frozen=True):
    """Read whole batches; wait up to `wait_ms_max` until `bytes_min` are there, or one partition is refused.

    The first batch of all comes however large it is, so that a reader always gets on; with `one_each` the first of
    each partition does.
    """

    parts: Sequence[FetchFrom]
    bytes_max: int
    bytes_min: int = 1
    wait_ms_max: int = 0
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    caller: Caller = ANYONE
    one_each: bool = False
    rack: str = ""  # where the reader stands, if it would rather read from a replica there
    at_follower: bool = False  # the reader knows that it may have asked a replica that does not lead


class Fetched(msgspec.Struct, frozen=True):
    """What one partition gave: whole batches (the first may begin below the offset asked for), or an error."""

    at: TopicPartition
    offset: Offset
    batches: bytes
    high_watermark: Offset
    last_stable_offset: Offset
    start_offset: Offset
    error: GoQueueError | None = None
    aborted: Sequence[tuple[int, Offset]] = ()  # producer and first offset, for readers of committed data
    read_at: int | None = None  # the node that the reader is to ask instead


class FetchPartition(msgspec.Struct, frozen=True):
    """Read whole batches of one partition, wherever it is led; wait up to `wait_ms_max` for the first."""

    at: TopicPartition
    offset: Offset
    bytes_max: int
    wait_ms_max: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED
    caller: Caller = ANYONE


class FetchedPartition(msgspec.Struct, frozen=True):
    """What it gave, and where to go on."""

    batches: bytes
    next_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    start_offset: Offset
    aborted: Sequence[tuple[int, Offset]] = ()


class Browse(msgspec.Struct, frozen=True):
    """Read up to `limit` messages from these offsets on; wait up to `wait_ms_max` for the first."""

    topic: str
    offsets: dict[int, Offset]
    limit: int
    wait_ms_max: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED
    caller: Caller = ANYONE
    bytes_max: int = PAGE_BYTES_MAX  # a page ends with the message that passes this


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One message as it stands in the log."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: Millis
    key: bytes | None
    value: bytes | None
    headers: Headers


class SkippedOffsets(msgspec.Struct, frozen=True, gc=False):
    """Offsets that were passed over: their producer sent something there that cannot be read as messages."""

    partition: int
    first_offset: Offset
    last_offset: Offset
    reason: str

    def __str__(self) -> str:
        place = f"offsets {self.first_offset} to {self.last_offset} of partition {self.partition}"
        return f"{place} were passed over: {self.reason}"


class MessagePage(msgspec.Struct, frozen=True):
    """Messages in the open, what was passed over between them, and where to go on in each partition."""

    messages: Sequence[Stored]
    next_offsets: dict[int, Offset]
    skipped: Sequence[SkippedOffsets] = ()
    is_full: bool = False  # it ended because of its size

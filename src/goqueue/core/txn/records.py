"""What the transaction coordinator writes down: one record a transactional id, whole, so that the last one counts.

Delayed messages of an open transaction stand beside it in records of their own, which go with its end. So does the last
batch of an owner of staged sets, which stays.
"""

from __future__ import annotations

import enum
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.records import ScheduleEntry

VERSION: Final = 1
CALLS_KEPT: Final = 5
_DELAYED: Final = b"\0"  # what keys of delayed messages begin with; no transactional id does
_OWNER: Final = b"\0o"  # and those of owners; a delayed message's goes on otherwise


class TxnStage(enum.StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


ENDING: Final = frozenset({TxnStage.PREPARE_COMMIT, TxnStage.PREPARE_ABORT})
IDLE: Final = frozenset({TxnStage.EMPTY, TxnStage.COMPLETE_COMMIT, TxnStage.COMPLETE_ABORT})


class TxnOffset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A consumer's place that counts once the transaction commits."""

    group: str
    topic: str
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""


class TxnAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to a message under a lease, given once the transaction commits."""

    receipt: str
    kind: Literal["ack", "nack", "reject"] = "ack"
    delay_ms: Millis | None = None
    reason: str = ""


class TxnBatch(msgspec.Struct, frozen=True, array_like=True):
    """Where messages of a numbered publish go: a batch with this sequence, and their places in the request."""

    topic: str
    partition: int
    base_sequence: int
    places: tuple[int, ...]


class TxnWait(msgspec.Struct, frozen=True, array_like=True):
    """A message of a numbered publish that waits for its time, and its place in the request."""

    place: int
    partition: int
    due_ms: Millis


class TxnCall(msgspec.Struct, frozen=True, array_like=True):
    """A publish that its client numbered, so that it can be sent again."""

    sequence: int
    count: int
    batches: tuple[TxnBatch, ...]
    delayed: tuple[TxnWait, ...] = ()


class TxnState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One producer.

    `ended_epoch` and `ended_producer_id` are those whose end may be asked for again; `shown_epoch` is the one that the
    producer showed when it began again, in case that it did not hear the answer. `session_ms` is how long it may be
    silent (0: for ever). `schedules_from` is where the schedule of each shard ended when a commit was decided; older
    records say it of shard 0 alone, in `schedule_from`. A staged writer has an `owner` and a `batch`, and its
    `timeout_ms` is how long it may be silent.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    stage: TxnStage = TxnStage.EMPTY
    timeout_ms: Millis = 60_000
    started_ms: Millis = 0
    updated_ms: Millis = 0
    partitions: tuple[tuple[str, int], ...] = ()
    offsets: tuple[TxnOffset, ...] = ()
    answers: tuple[TxnAnswer, ...] = ()
    groups: tuple[str, ...] = ()
    calls: tuple[TxnCall, ...] = ()
    delayed: int = 0
    schedule_from: Offset = -1
    session_ms: Millis = 0
    bumps: bool = False
    ended_epoch: int = -1
    ended_producer_id: int = -1
    shown_epoch: int = -1
    owner: str = ""
    batch: int = -1
    schedules_from: tuple[Offset, ...] = ()

    @property
    def commits(self) -> bool:
        return self.stage in (TxnStage.PREPARE_COMMIT, TxnStage.COMPLETE_COMMIT)

    @property
    def receipts(self) -> list[str]:
        return [answer.receipt for answer in self.answers]


class TxnDelayed(msgspec.Struct, frozen=True):
    """Messages of an open transaction that wait for their time once it commits; numbered within it."""

    transactional_id: str
    epoch: int
    number: int
    entries: list[ScheduleEntry]

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)


class TxnDelayedGone(msgspec.Struct, frozen=True):
    """The transaction is over, and they are in the schedule or nowhere."""

    transactional_id: str
    epoch: int
    number: int


class TxnGone(msgspec.Struct, frozen=True):
    """Not heard of for long."""

    transactional_id: str


class TxnOwner(msgspec.Struct, frozen=True):
    """An owner of staged sets, and the last batch that it committed. It stands in one batch with the decision."""

    owner: str
    last_batch: int
    updated_ms: Millis


class TxnOwnerGone(msgspec.Struct, frozen=True):
    """It committed nothing for long."""

    owner: str


OfProducer = TxnState | TxnDelayed | TxnDelayedGone | TxnGone
Record = OfProducer | TxnOwner | TxnOwnerGone

_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(tuple[int, TxnState]).decode
_decode_delayed = msgspec.msgpack.Decoder(tuple[int, TxnDelayed]).decode
_decode_owner = msgspec.msgpack.Decoder(tuple[int, TxnOwner]).decode
_decode_key = msgspec.msgpack.Decoder(tuple[str, int, int]).decode


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    if isinstance(record, TxnOwner | TxnOwnerGone):
        key = _OWNER + record.owner.encode()
        return key, None if isinstance(record, TxnOwnerGone) else _encode((VERSION, record))
    if isinstance(record, TxnDelayed | TxnDelayedGone):
        key = _DELAYED + _encode((record.transactional_id, record.epoch, record.number))
        return key, None if isinstance(record, TxnDelayedGone) else _encode((VERSION, record))
    key = record.transactional_id.encode()
    return key, None if isinstance(record, TxnGone) else _encode((VERSION, record))


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if a later version wrote it."""
    try:
        if key.startswith(_OWNER):
            return _owner(key, value)
        if key.startswith(_DELAYED):
            if value is None:
                return TxnDelayedGone(*_decode_key(key[len(_DELAYED) :]))
            version, delayed = _decode_delayed(value)
            return delayed if version == VERSION else None
        if value is None:
            return TxnGone(key.decode())
        version, state = _decode_state(value)
        return state if version == VERSION else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _owner(key: bytes, value: bytes | None) -> TxnOwner | TxnOwnerGone | None:
    if value is None:
        return TxnOwnerGone(key[len(_OWNER) :].decode())
    version, owner = _decode_owner(value)
    return owner if version == VERSION else None


def emptied(state: TxnState) -> TxnState:
    """The producer without a transaction."""
    return replace(
        state,
        stage=TxnStage.EMPTY,
        started_ms=0,
        partitions=(),
        offsets=(),
        answers=(),
        groups=(),
        calls=(),
        delayed=0,
        schedule_from=-1,
        schedules_from=(),
        bumps=False,
    )

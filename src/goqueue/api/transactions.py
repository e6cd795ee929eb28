"""Transactions. Unknown members of a request are errors; those of a reply are ignored."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.api.groups import Name, Number, OffsetNumber, TopicParts
from goqueue.api.messages import MessageIn, ResultOut
from goqueue.base.limits import MESSAGES_PER_PUBLISH_MAX, TASK_TRACEBACK_CHARS_MAX, TXN_ANSWERS_MAX, TXN_OFFSETS_MAX

_TOPICS_MAX = 1_000
_TEXT_MAX = 1_000

Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)]
Duration = Annotated[int, msgspec.Meta(ge=0)] | str
Messages = Annotated[list[MessageIn], msgspec.Meta(min_length=1, max_length=MESSAGES_PER_PUBLISH_MAX)]
Receipts = Annotated[list[str], msgspec.Meta(min_length=1, max_length=TXN_ANSWERS_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=_TEXT_MAX)]
LongText = Annotated[str, msgspec.Meta(max_length=TASK_TRACEBACK_CHARS_MAX)]


class ProducerIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Without a `transactional_id` the node makes one up. `timeout` is how long each transaction may take."""

    transactional_id: str | None = None
    timeout: Duration | None = None
    session_timeout: Duration | None = None


class ProducerOut(msgspec.Struct, frozen=True):
    """What every request of the producer carries; the epoch is new after each transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    session_timeout_ms: int


class ProducerBeatIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    epoch: Epoch | None = None


class WhoIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The producer, as `POST /producers/init` and the last commit or abort told it."""

    producer_id: Id
    epoch: Epoch
    transactional_id: str | None = None


class TxnPartIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages for one topic."""

    topic: str
    messages: Messages


class TxnPublishIn(WhoIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either `topic` and `messages`, or `topics`. With a `sequence` the request can be sent again."""

    topic: str | None = None
    messages: Messages | None = None
    topics: Annotated[list[TxnPartIn], msgspec.Meta(min_length=1, max_length=_TOPICS_MAX)] | None = None
    sequence: Number | None = None


class AddPartitionIn(WhoIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    topic: str
    partition: Number | None = None
    partitions: Annotated[list[Number], msgspec.Meta(min_length=1)] | None = None


class TxnOffsetIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything below `offset` counts as read."""

    topic: str
    partition: Number
    offset: OffsetNumber
    metadata: Text = ""


class TxnOffsetsIn(WhoIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With `member_id` and `generation` a member that lost its place is refused."""

    group: Name
    offsets: Annotated[list[TxnOffsetIn], msgspec.Meta(min_length=1, max_length=TXN_OFFSETS_MAX)]
    member_id: Name | None = None
    generation: Number | None = None


class TxnAckIn(WhoIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One receipt or many, answered for when the transaction commits."""

    receipt: str | None = None
    receipts: Receipts | None = None


class TxnNackIn(WhoIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same; without a `delay` the message comes again after a back-off."""

    receipt: str | None = None
    receipts: Receipts | None = None
    delay: Duration | None = None
    reason: Text = ""


class TxnRejectIn(WhoIn, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same; the messages go to the dead letters."""

    receipt: str | None = None
    receipts: Receipts | None = None
    reason: LongText = ""


class AbortIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`producer_id` and `epoch` by the producer itself; `transactional_id` alone by an administrator."""

    producer_id: Id | None = None
    epoch: Epoch | None = None
    transactional_id: str | None = None


class TxnPartOut(msgspec.Struct, frozen=True):
    topic: str
    results: list[ResultOut]


class TxnPublishOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """`results` for one topic, `topics` for several."""

    results: list[ResultOut] | None = None
    topics: list[TxnPartOut] | None = None


class TransactionOffset(msgspec.Struct, frozen=True):
    """Where the transaction moves a group when it commits."""

    group: str
    topic: str
    partition: int
    offset: int


class Transaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A producer and its transaction: `empty`, `ongoing`, `prepare_commit`, `prepare_abort`, `complete_commit` or
    `complete_abort`. `started` is null where none is open."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    session_timeout_ms: int = 0
    started: int | None = None
    open_ms: int | None = None
    partitions: list[TopicParts] = []
    offsets: list[TransactionOffset] = []
    receipts: int = 0
    delayed: int = 0
    owner: str = ""
    batch: int = -1


class TransactionListOut(msgspec.Struct, frozen=True):
    transactions: list[Transaction]


class TransactionStatsOut(msgspec.Struct, frozen=True):
    """Counts since the node started; `open` and `producers` as they are now."""

    producers: int
    open: int
    begun: int
    committed: int
    aborted: int
    timed_out: int
    longest_open_ms: int

"""Ranges of offsets, fetched one after the other. The next request is on its way while an answer is worked on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from goqueue.base.errors import CorruptBatch
from goqueue.base.limits import KIB, MIB
from goqueue.format.batch import Buffer
from goqueue.pipeline.arrow.memory import binaries_of
from goqueue.pipeline.arrow.spots import Spot
from goqueue.pipeline.link.addresses import Address
from goqueue.pipeline.link.cluster import Cluster, TopicFacts, isolation_level
from goqueue.pipeline.link.connection import BrokerConnection, ReceiveBuffer
from goqueue.pipeline.link.errors import BrokerRefused, CorruptData, OffsetOutOfLog, PipelineError
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.link.refusals import refusal
from goqueue.pipeline.link.visible import sound_batches, visible
from goqueue.wire.codes import CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE
from goqueue.wire.messages import fetch

OnLoss = Callable[[OffsetRange, int], None]

_FETCH_BYTES_MIN: Final = 1 * MIB
_FETCH_BYTES_MAX: Final = 16 * MIB
_ASK_BYTES_MIN: Final = 64 * KIB
_RECORD_BYTES_GUESS: Final = 1 * KIB
_WAIT_MS: Final = 500  # for messages that are not there yet
_NO_SESSION: Final = -1
_REPLICA_S: Final = 5.0  # for a replica that is behind: the leader has what it lacks


class FetchedBatches(NamedTuple):
    """The visible batches of one answer, in the memory that the next answer will overwrite."""

    wanted: OffsetRange
    buffer: Buffer
    spots: list[Spot]


class Rules(msgspec.Struct, frozen=True):
    """How to read. Without `fail_on_loss` what the log no longer has is skipped and told.

    With `keys`, as an array, only messages with one of them are of interest.
    """

    isolation: str = "read_committed"
    fail_on_loss: bool = True
    fetch_bytes: int = 8 * MIB
    on_loss: OnLoss | None = None
    keys: pa.Array | None = None


def rules_for(
    isolation: str,
    fail_on_loss: bool,
    batch_bytes: int,
    on_loss: OnLoss | None,
    keys: tuple[bytes, ...] | None = None,
) -> Rules:
    size = min(max(2 * batch_bytes, _FETCH_BYTES_MIN), _FETCH_BYTES_MAX)
    return Rules(isolation, fail_on_loss, size, on_loss, None if keys is None else binaries_of(keys))


class RangeFetcher:
    """One pass over the ranges, on a connection of its own."""

    def __init__(self, cluster: Cluster, ranges: Sequence[OffsetRange], rules: Rules) -> None:
        self._cluster = cluster
        self._rules = rules
        self._level = isolation_level(rules.isolation)
        self._left = [one for one in reversed(ranges) if one.start < one.end]
        self._offset = self._left[-1].start if self._left else 0
        self._bytes_per_offset = float(_RECORD_BYTES_GUESS)
        self._topics: dict[str, TopicFacts] = {}
        self._patience = cluster.patience()
        self._connection: BrokerConnection | None = None
        self._node: Address | None = None  # whom it leads to
        self._replica: Address | None = None  # the same, if it is not asked as the leader
        self._replica_patience = cluster.patience(_REPLICA_S)
        self._has_left = False  # a replica, since anything came
        self._room = ReceiveBuffer()

    def __iter__(self) -> Generator[FetchedBatches, None, None]:
        """Exactly the visible batches with offsets in the ranges; their first and last may reach beyond."""
        if not self._left:
            return
        self._topics = self._cluster.describe([one.topic for one in self._left])
        try:
            while self._left:
                if (answer := self._receive()) is not None:
                    yield from self._take(answer)
        finally:
            self._hang_up()

    # --- requests --------------------------------------------------------------------------------------------

    def _receive(self) -> fetch.PartitionData | None:
        """The answer to the request for the place where we are; None if it has to be asked again."""
        try:
            self._turn_to_node()
            assert self._connection is not None
            if self._connection.is_quiet:
                self._request()
            answer = self._connection.receive(self._room)
            if answer.error_code:
                raise refusal(answer.error_code, self._left[-1].place)
            (topic,) = answer.responses
            (found,) = topic.partitions
            return self._accepted(found)
        except (OSError, PipelineError) as error:
            self._part(error)
            if self._left_replica():
                return None
            if not isinstance(error, OSError | BrokerRefused):
                raise
            self._cluster.pause(error, self._patience)
            return None

    def _request(self) -> None:
        wanted = self._left[-1]
        part = fetch.FetchPartition(wanted.partition, fetch_offset=self._offset, partition_max_bytes=self._ask_bytes())
        topic = fetch.FetchTopic(wanted.topic, self._topics[wanted.topic].id, [part])
        assert self._connection is not None
        self._connection.send(
            fetch.API,
            fetch.FetchRequest(
                max_wait_ms=_WAIT_MS,
                min_bytes=1,
                max_bytes=self._ask_bytes(),
                isolation_level=self._level,
                session_epoch=_NO_SESSION,
                topics=[topic],
                rack_id=self._cluster.nearest.rack_for(wanted.place),
            ),
        )

    def _ask_bytes(self) -> int:
        """What the rest of the range will take, going by what it took so far; a small range is not worth megabytes."""
        likely = int((self._left[-1].end - self._offset) * self._bytes_per_offset * 1.1)
        return min(max(likely, _ASK_BYTES_MIN), self._rules.fetch_bytes)

    def _accepted(self, found: fetch.PartitionData) -> fetch.PartitionData | None:
        place = self._left[-1].place
        if found.preferred_read_replica >= 0:
            nodes = self._cluster.leaders
            self._cluster.nearest.send(place, nodes.node(found.preferred_read_replica))
            return None
        if found.error_code and self._left_replica():  # only the leader knows where the log begins and ends
            return None
        if found.error_code == OFFSET_OUT_OF_RANGE:
            self._lost()
            return None
        if found.error_code == CORRUPT_MESSAGE:
            raise CorruptData(place, self._offset, "the node holds them for damaged.")
        if found.error_code:
            raise refusal(found.error_code, place)
        return found

    # --- answers ---------------------------------------------------------------------------------------------

    def _take(self, answer: fetch.PartitionData) -> Iterator[FetchedBatches]:
        wanted, offset, buffer = self._left[-1], self._offset, answer.records
        if not buffer:
            self._nothing_there(answer)
            return
        try:
            spots, reached = sound_batches(buffer, offset, wanted.end)
        except CorruptBatch as error:
            if self._left_replica():
                return
            raise CorruptData(wanted.place, offset, error.message) from error
        self._move_to(reached, len(buffer))
        self._ahead()
        shown = visible(spots, answer.aborted_transactions or ())  # uncommitted reads are told of none
        if shown:
            # The first batch may begin before the place where we are, with messages that were had or are gone.
            yield FetchedBatches(OffsetRange(wanted.topic, wanted.partition, offset, wanted.end), buffer, shown)

    def _move_to(self, offset: int, size: int) -> None:
        self._renew()
        self._bytes_per_offset = size / max(1, offset - self._offset)
        self._offset = offset
        if offset >= self._left[-1].end:
            self._next_range()

    def _renew(self) -> None:
        self._patience.renew()
        self._replica_patience.renew()
        self._has_left = False

    def _next_range(self) -> None:
        self._left.pop()
        if self._left:
            self._offset = self._left[-1].start

    def _ahead(self) -> None:
        """Asks for what comes next before the answer is looked at closely. A failure shows when it is received."""
        if self._left and self._connection is not None:
            try:
                self._turn_to_node()
                self._request()
            except (OSError, PipelineError) as error:
                self._part(error)

    def _nothing_there(self, answer: fetch.PartitionData) -> None:
        """Done if readers may go as far as the end: nothing is left below it. Otherwise it may still come."""
        wanted = self._left[-1]
        limit = answer.last_stable_offset if self._level else answer.high_watermark
        patience = self._patience if self._replica is None else self._replica_patience
        if limit >= wanted.end:
            self._renew()
            self._next_range()
        elif patience.is_over() and not self._left_replica():
            self._lose(
                wanted.end,
                OffsetOutOfLog(
                    wanted.place,
                    self._offset,
                    answer.log_start_offset,
                    f"Offsets {self._offset} to {wanted.end - 1} of {wanted.place} did not come within "
                    f"{self._patience.seconds:g} s: the log can be read up to {limit} only. An open transaction "
                    "holds them back, or they were lost with the node's disk; see `goqueue txn list`.",
                ),
            )

    def _lost(self) -> None:
        """The offset is not in the log: it begins later now, or ends earlier."""
        wanted = self._left[-1]
        first = self._cluster.earliest([wanted.place])[wanted.place]
        if first > self._offset:
            self._lose(min(first, wanted.end), OffsetOutOfLog(wanted.place, self._offset, first))
            return
        last = self._cluster.latest([wanted.place], "read_uncommitted")[wanted.place]
        if last < self._offset:
            message = (
                f"Offset {self._offset} of {wanted.place} is beyond the end of the log, which is {last}. The topic was "
                "made anew, or the node lost what it had not synced; start again from an offset that is there."
            )
            self._lose(wanted.end, OffsetOutOfLog(wanted.place, self._offset, first, message))
            return
        self._patience.pause(refusal(OFFSET_OUT_OF_RANGE, wanted.place))  # the log moved while we asked

    def _lose(self, offset: int, error: OffsetOutOfLog) -> None:
        """What lies before the offset is gone: an error, or told and skipped."""
        wanted = self._left[-1]
        if self._rules.fail_on_loss:
            raise error
        if self._rules.on_loss is not None:
            self._rules.on_loss(wanted, offset - self._offset)
        self._offset = offset
        if offset >= wanted.end:
            self._next_range()

    # --- the line --------------------------------------------------------------------------------------------

    def _turn_to_node(self) -> None:
        """A line to who leads the partition where we are, or to the replica that it sent us to. Nothing may be under
        way on one to another."""
        if self._connection is not None and not self._connection.is_quiet:
            return
        place = self._left[-1].place
        self._replica = self._cluster.nearest.of(place)
        node = self._replica or self._cluster.leaders.of(place)
        if node != self._node:
            self._hang_up()
            self._replica_patience.renew()
        if self._connection is None:
            self._node = node  # first: if it does not answer, it is known who
            self._connection = self._cluster.connect(node)

    def _left_replica(self) -> bool:
        """Whether a replica was asked; then the leader is next, at once."""
        if self._replica is None:
            return False
        self._cluster.nearest.fail(self._replica)
        self._replica = None
        if not self._has_left:  # the leader has not had its time; but it may send us back, over and over
            self._renew()
        self._has_left = True
        return True

    def _part(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._drop()
        else:
            self._hang_up()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._cluster.close()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._cluster.give_back(connection, self._node)

"""Arrow rows into one open transaction of the broker, over Kafka's door."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from goqueue.base.limits import MIB
from goqueue.format.batch import HEADER_BYTES
from goqueue.format.compression import CODECS
from goqueue.pipeline.arrow.encode import BATCH_BYTES, BatchProducer, encode
from goqueue.pipeline.arrow.memory import array_of, numbers_of
from goqueue.pipeline.arrow.partitions import partitions_of, split
from goqueue.pipeline.arrow.piles import PartitionRows
from goqueue.pipeline.arrow.rows import rows_of
from goqueue.pipeline.link.cluster import PATIENCE_S, cluster
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.leaders import TRANSACTION
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.link.producing import BatchSender, Parcel
from goqueue.pipeline.link.refusals import refusal
from goqueue.wire.codes import OPERATION_NOT_ATTEMPTED
from goqueue.wire.messages import add_partitions_to_txn as adding

_PILED_BYTES_MAX: Final = 16 * MIB  # rows held back to make larger batches, of all partitions
_SIZE_MAX: Final = "max.message.bytes"
_PARTITIONER: Final = "partitioner"


class _Topic(msgspec.Struct):
    """What matters of a topic; `turn` is where rows without a key go next."""

    partitions: int
    batch_bytes: int
    hash_name: str
    turn: int


class StagedWriter:
    """Writes rows as part of the producer's transaction; to commit it is somebody else's task.

    There may be one writer for a producer id and epoch, once: batches are numbered from 0 on. `default_topic` takes all
    rows, as Spark's option `topic` does; without it every row names its own in the column `topic`.
    """

    def __init__(
        self,
        kafka: str,
        transactional_id: str,
        producer: BatchProducer,
        default_topic: str | None,
        *,
        compression: str = "none",
        patience_s: float = PATIENCE_S,
    ) -> None:
        if compression != "none" and compression not in CODECS:
            raise PipelineError(f"{compression!r} is no compression; use none, {', '.join(CODECS)}.")
        self._cluster = cluster(kafka, patience_s, patience_s)
        self._transactional_id = transactional_id
        self._producer = producer
        self._default_topic = default_topic
        self._codec = CODECS.get(compression, 0)
        self._producing = BatchSender(self._cluster, transactional_id)
        self._topics: dict[str, _Topic] = {}
        self._piles: dict[Place, PartitionRows] = {}
        self._rows: dict[Place, int] = {}  # encoded so far; where a place is, it is part of the transaction

    def write(self, rows: pa.RecordBatch) -> None:
        """Takes the rows; they may be held back a while. Those of a partition keep their order."""
        now_ms = time.time_ns() // 1_000_000
        for name, part in _by_topic(rows, self._default_topic):
            topic = self._topics.get(name) or self._meet(name)
            messages = rows_of(_without_place(part), now_ms)
            chosen = partitions_of(messages, _named(part), topic.partitions, topic.turn, topic.hash_name)
            topic.turn += 1
            for number, share in split(messages, chosen):
                self._piles.setdefault(Place(name, number), PartitionRows()).add(share)
        self._flush(
            [place for place, pile in self._piles.items() if pile.size >= self._topics[place.topic].batch_bytes]
        )
        if sum(pile.size for pile in self._piles.values()) > _PILED_BYTES_MAX:
            self._flush(list(self._piles))

    def close(self) -> dict[Place, int]:
        """Returns when everything is stored: how many rows went where."""
        self._flush(list(self._piles))
        self._producing.wait_stored()
        self._producing.close()
        return dict(self._rows)

    def abandon(self) -> None:
        """After a failure. What was written belongs to a transaction that nobody will commit."""
        self._piles.clear()
        self._producing.close()

    # --- topics and partitions -------------------------------------------------------------------------------

    def _meet(self, name: str) -> _Topic:
        facts = self._cluster.describe([name], may_create=True)[name]
        config = self._cluster.topic_config(name, [_SIZE_MAX, _PARTITIONER])
        size_max = int(config.get(_SIZE_MAX, BATCH_BYTES)) - HEADER_BYTES
        # Writers that run side by side should not all begin with the same partition.
        turn = zlib.crc32(self._transactional_id.encode())
        found = _Topic(facts.partitions, min(BATCH_BYTES, size_max), config.get(_PARTITIONER, "murmur2"), turn)
        self._topics[name] = found
        return found

    def _join(self, places: Iterable[Place]) -> None:
        """Makes the places part of the transaction, before anything is written there."""
        fresh = sorted(place for place in places if place not in self._rows)
        if not fresh:
            return
        topics = [
            adding.AddPartitionsToTxnTopic(name, [place.partition for place in group])
            for name, group in groupby(fresh, key=lambda place: place.topic)
        ]
        request = adding.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer.id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=topics,
        )
        keeper = partial(self._cluster.leaders.keeper, TRANSACTION, self._transactional_id)
        self._cluster.ask(adding.API, request, _check_added, keeper)
        self._rows.update(dict.fromkeys(fresh, 0))

    # --- batches ---------------------------------------------------------------------------------------------

    def _flush(self, places: list[Place]) -> None:
        """Sends what is piled up for these; small batches of several partitions share a request."""
        self._join(places)
        request: dict[Place, Parcel] = {}
        size = 0
        for parcel in self._parcels(places):
            if parcel.place in request or (request and size + len(parcel.batch) > BATCH_BYTES):
                self._producing.send(list(request.values()))
                request, size = {}, 0
            request[parcel.place] = parcel
            size += len(parcel.batch)
        if request:
            self._producing.send(list(request.values()))

    def _parcels(self, places: list[Place]) -> Iterator[Parcel]:
        for place in places:
            rows = self._piles.pop(place).take()
            size_max = self._topics[place.topic].batch_bytes
            for encoded in encode(rows, self._producer, self._rows[place], self._codec, size_max):
                self._rows[place] += encoded.rows
                yield Parcel(place, encoded.batch)


def _by_topic(rows: pa.RecordBatch, only: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    if not rows.num_rows:
        return
    if only is not None:
        yield only, rows
        return
    if "topic" not in rows.schema.names or rows.column("topic").null_count:
        raise PipelineError("A row names no topic; give every row one in the column 'topic', or set the option topic.")
    coded = rows.column("topic").cast(pa.string()).dictionary_encode()
    indices = numbers_of(coded.indices)
    for number, name in enumerate(coded.dictionary.to_pylist()):
        whole = len(coded.dictionary) == 1
        yield name, rows if whole else rows.take(array_of(np.flatnonzero(indices == number), pa.int64()))


def _named(rows: pa.RecordBatch) -> pa.Array | None:
    return rows.column("partition") if "partition" in rows.schema.names else None


def _without_place(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name not in ("topic", "partition")])


def _check_added(answer: adding.AddPartitionsToTxnResponse) -> None:
    failed = [
        (Place(topic.name, one.partition_index), one.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
        if one.partition_error_code
    ]
    # Where one is refused the others are not attempted.
    for place, code in sorted(failed, key=lambda one: one[1] == OPERATION_NOT_ATTEMPTED):
        raise refusal(code, place)

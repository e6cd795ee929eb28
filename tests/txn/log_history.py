"""A history out of the log itself: what its markers say of every message, beside what readers of committed data see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import httpx

from goqueue.format.batch import read_header, split
from goqueue.format.control import is_commit
from goqueue.format.records import decode
from goqueue.pipeline.link.cluster import Cluster, Place, cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.reading import OffsetRange, read_arrow
from goqueue.wire.messages import fetch
from tests.txn.history import FINAL, History, Outcome

_BYTES = 8 << 20


def topics_of(url: str) -> set[str]:
    return {one["name"] for one in httpx.get(f"{url}/topics").raise_for_status().json()["topics"]}


def history_of(url: str, topics: Sequence[str]) -> History:
    """Everything below the last stable offset; what is open beyond it has no outcome yet."""
    history = History()
    kafka = doors(None, url).kafka
    node = cluster(kafka)
    places = [Place(topic, number) for topic in topics for number in node.partitions(topic)]
    ends, starts = node.latest(places, "read_committed"), node.earliest(places)
    for place in places:
        span = OffsetRange(place.topic, place.partition, starts[place], ends[place])
        if span.start < span.end:
            _note_writes(history, node, span)
            _note_reads(history, kafka, url, span)
    return history


def _note_writes(history: History, node: Cluster, span: OffsetRange) -> None:
    where = f"{span.topic}/{span.partition}"
    open_: dict[int, list[str]] = {}
    for batch in _batches(node, span):
        header = read_header(batch)
        if header.is_control:
            outcome = Outcome.COMMITTED if is_commit(batch) else Outcome.ABORTED
            for txn in open_.pop(header.producer_id, []):
                history.ended(txn, outcome)
            continue
        for record in decode(batch):
            if span.start <= record.offset < span.end:
                txn = f"{where} {record.offset} of producer {header.producer_id}"
                history.wrote(txn, where, f"{where}/{record.offset}", record.offset)
                if header.is_transactional:
                    open_.setdefault(header.producer_id, []).append(txn)
                else:
                    history.ended(txn, Outcome.COMMITTED)


def _batches(node: Cluster, span: OffsetRange) -> Iterator[memoryview]:
    """Also markers and aborted ones; to the end of the log, since a marker may lie beyond the last message."""
    topic = node.describe([span.topic])[span.topic]
    offset = span.start
    while offset < span.end:
        part = fetch.FetchPartition(span.partition, fetch_offset=offset, partition_max_bytes=_BYTES)
        asked = fetch.FetchRequest(
            max_bytes=_BYTES, session_epoch=-1, topics=[fetch.FetchTopic(span.topic, topic.id, [part])]
        )
        found = _led(node, Place(span.topic, span.partition), asked).responses[0].partitions[0]
        assert found.error_code == 0 and found.records, found
        for batch in split(bytes(found.records)):
            offset = read_header(batch).next_offset
            yield batch


def _led(node: Cluster, place: Place, request: fetch.FetchRequest) -> fetch.FetchResponse:
    """The answer of who leads the place."""
    leader = node.leaders.of(place)
    line = node.connect(leader)
    answer: fetch.FetchResponse = line.ask(fetch.API, request)
    node.give_back(line, leader)
    return answer


def _note_reads(history: History, kafka: str, url: str, span: OffsetRange) -> None:
    where = f"{span.topic}/{span.partition}"
    for batch in read_arrow(kafka, [span], ["offset"]):
        offsets = batch.column(0).to_pylist()
        history.polled(FINAL, [(where, offset, f"{where}/{offset}") for offset in offsets])
    path, at = f"{url}/topics/{span.topic}/partitions/{span.partition}/messages", span.start
    while at < span.end:
        page = httpx.get(path, params={"offset": at, "limit": 1_000}).raise_for_status().json()
        offsets = [one["offset"] for one in page["messages"] if one["offset"] < span.end]
        history.polled("rest", [(where, offset, f"{where}/{offset}") for offset in offsets])
        if page["next_offset"] <= at:
            break
        at = page["next_offset"]

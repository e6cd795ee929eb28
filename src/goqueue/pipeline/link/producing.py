"""Produce requests, a few on their way at a time, in order.

What is not answered yet is kept. When the line breaks, or the node says `not now`, everything that is kept is sent
again in the same order; the broker knows each batch by its sequence and stores none twice. It remembers the last five
batches of a producer in a partition, so no more than five requests are ever on their way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from goqueue.format.batch import Buffer
from goqueue.pipeline.link.cluster import Cluster
from goqueue.pipeline.link.connection import ANSWER_S, BrokerConnection, ReceiveBuffer
from goqueue.pipeline.link.errors import BrokerRefused
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.link.refusals import PASSING, refusal
from goqueue.wire.messages import produce

IN_FLIGHT_MAX: Final = 5
_ALL: Final = -1


class Parcel(NamedTuple):
    """One record batch and where it goes."""

    place: Place
    batch: Buffer


class BatchSender:
    """Sends on a connection of its own."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._patience = cluster.patience()
        self._connection: BrokerConnection | None = None
        self._kept: deque[produce.ProduceRequest] = deque()
        self._sent = 0  # of those kept, on the present connection
        self._room = ReceiveBuffer()

    def send(self, parcels: Sequence[Parcel]) -> None:
        """One request, at most one parcel a place. Waits while too many are on their way."""
        while len(self._kept) >= IN_FLIGHT_MAX:
            self._receive_one()
        self._kept.append(_request(self._transactional_id, parcels))
        self._advance()

    def wait_stored(self) -> None:
        """Returns when everything is stored."""
        while self._kept:
            self._receive_one()

    def close(self) -> None:
        """What is on its way is left to itself."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._cluster.give_back(connection)

    # --- the line --------------------------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Sends what is kept and not sent; whether the line stood it."""
        try:
            if self._connection is None:
                self._connection = self._cluster.connect()
            while self._sent < len(self._kept):
                self._connection.send(produce.API, self._kept[self._sent])
                self._sent += 1
        except OSError as error:
            self._start_over(error)
            return False
        return True

    def _receive_one(self) -> None:
        """The oldest is answered; or everything is to be sent again."""
        if not self._advance():
            return
        assert self._connection is not None
        try:
            _check(self._connection.receive(self._room))
        except OSError as error:
            self._start_over(error)
        except BrokerRefused as error:
            if error.code not in PASSING:
                raise
            # What came behind it was refused because of it.
            self._start_over(error)
        else:
            self._patience.renew()
            self._kept.popleft()
            self._sent -= 1

    def _start_over(self, why: Exception) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._sent = 0
        self._cluster.close()
        self._patience.pause(why)


def _request(transactional_id: str, parcels: Sequence[Parcel]) -> produce.ProduceRequest:
    topics = [
        produce.TopicProduceData(
            name, partition_data=[produce.PartitionProduceData(one.place.partition, one.batch) for one in group]
        )
        for name, group in groupby(sorted(parcels, key=lambda one: one.place), key=lambda one: one.place.topic)
    ]
    return produce.ProduceRequest(transactional_id, _ALL, int(ANSWER_S * 1000), topics)


def _check(answer: produce.ProduceResponse) -> None:
    """The worst first: what never passes is told even if something else might."""
    failures = sorted(_failures(answer), key=lambda one: one[1].error_code in PASSING)
    for place, one in failures:
        told = "; ".join(error.batch_index_error_message or "" for error in one.record_errors[:1]) or one.error_message
        raise refusal(one.error_code, place, told)


def _failures(answer: produce.ProduceResponse) -> Iterator[tuple[Place, produce.PartitionProduceResponse]]:
    for topic in answer.responses:
        for one in topic.partition_responses:
            if one.error_code:
                yield Place(topic.name, one.index), one

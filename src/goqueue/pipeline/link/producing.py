"""Produce requests, a few on their way at a time, in order.

What is not answered yet is kept. When the line breaks, or the node says `not now`, everything that is kept is sent
again in the same order, to whoever leads then; the broker knows each batch by its sequence and stores none twice. It
remembers the last five batches of a producer in a partition, so no more than five requests are ever on their way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from goqueue.format.batch import Buffer
from goqueue.pipeline.link.addresses import Address
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
    """Sends on connections of its own, one to each node that leads something."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._patience = cluster.patience()
        self._lines: dict[Address | None, BrokerConnection] = {}
        self._kept: deque[Sequence[Parcel]] = deque()
        self._sent: deque[list[BrokerConnection]] = deque()  # where those kept went, as far as they are sent
        self._room = ReceiveBuffer()

    def send(self, parcels: Sequence[Parcel]) -> None:
        """At most one parcel a place; one request to each leader. Waits while too many are on their way."""
        while len(self._kept) >= IN_FLIGHT_MAX:
            self._receive_one()
        self._kept.append(parcels)
        self._advance()

    def wait_stored(self) -> None:
        """Returns when everything is stored."""
        while self._kept:
            self._receive_one()

    def close(self) -> None:
        """What is on its way is left to itself."""
        lines, self._lines = self._lines, {}
        for leader, line in lines.items():
            self._cluster.give_back(line, leader)

    # --- the lines -------------------------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Sends what is kept and not sent; whether the lines stood it."""
        try:
            while len(self._sent) < len(self._kept):
                self._sent.append(self._send(self._kept[len(self._sent)]))
        except (OSError, BrokerRefused) as error:
            self._start_over(error)
            return False
        return True

    def _send(self, parcels: Sequence[Parcel]) -> list[BrokerConnection]:
        """Where the answers come from."""
        by_place = {one.place: one for one in parcels}
        used = []
        for leader, places in self._cluster.leaders.split(by_place).items():
            if leader not in self._lines:
                self._lines[leader] = self._cluster.connect(leader)
            used.append(self._lines[leader])
            used[-1].send(produce.API, _request(self._transactional_id, [by_place[place] for place in places]))
        return used

    def _receive_one(self) -> None:
        """The oldest is answered; or everything is to be sent again."""
        if not self._advance():
            return
        try:
            for line in self._sent[0]:
                _check(line.receive(self._room))
        except (OSError, BrokerRefused) as error:
            # What came behind it was refused because of it.
            self._start_over(error)
        else:
            self._patience.renew()
            self._kept.popleft()
            self._sent.popleft()

    def _start_over(self, why: OSError | BrokerRefused) -> None:
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.close()
        self._sent.clear()
        self._cluster.close()
        self._cluster.pause(why, self._patience)


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

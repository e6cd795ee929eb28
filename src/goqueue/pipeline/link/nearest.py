"""Which replica a reader that says its rack is sent to by the leader (KIP-392); who fails is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from goqueue.pipeline.link.addresses import Address
from goqueue.pipeline.link.place import Place

AVOID_S: Final = 30.0  # after a failure; leaders take about as long to notice one at worst


class NearestReplicas:
    """As leaders said. Without a rack nobody is sent anywhere."""

    def __init__(self, rack: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._rack = rack
        self._clock = clock
        self._sent: dict[Place, Address] = {}
        self._failed: dict[Address, float] = {}  # until when they are not asked
        self._at_leader: dict[Place, float] = {}  # until when the leader is asked, whatever is nearer

    def rack_for(self, place: Place) -> str:
        """What to tell the leader of it: nothing while it shall answer itself."""
        return "" if self._clock() < self._at_leader.get(place, 0.0) else self._rack

    def of(self, place: Place) -> Address | None:
        return self._sent.get(place)

    def send(self, place: Place, replica: Address | None) -> None:
        """A leader named the replica; None is one whose address nobody knows."""
        until = self._clock() + AVOID_S if replica is None else self._failed.get(replica, 0.0)
        if replica is None or self._clock() < until:
            self._at_leader[place] = until
        else:
            self._sent[place] = replica

    def fail(self, replica: Address) -> None:
        """Whatever was read there is read from the leaders, for a while."""
        until = self._failed[replica] = self._clock() + AVOID_S
        for place, address in list(self._sent.items()):
            if address == replica:
                self._sent.pop(place, None)
                self._at_leader[place] = until

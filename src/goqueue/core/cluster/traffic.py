"""How busy shards are: rates from counters that are looked at now and then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from goqueue.base.ids import Millis

_NEWS: Final = 0.4  # how much the last look counts against those before


class ShardTraffic(NamedTuple):
    """Bytes a second."""

    written: float = 0.0
    read: float = 0.0


class TrafficRates:
    """Told what was counted, by shard, it knows the rates; those of a shard that is no longer told of are forgotten."""

    def __init__(self) -> None:
        self._counted: Mapping[int, tuple[int, int]] = {}
        self._rates: dict[int, ShardTraffic] = {}
        self._at: Millis = 0

    def counted(self, totals: Mapping[int, tuple[int, int]], now: Millis) -> None:
        """Counters that have gone back began anew."""
        spent_s = (now - self._at) / 1000
        before, self._counted, self._at = self._counted, totals, now
        rates = dict[int, ShardTraffic]()
        for shard, (written, read) in totals.items():
            if shard in before and spent_s > 0:
                first = before[shard]
                latest = ShardTraffic(max(0, written - first[0]) / spent_s, max(0, read - first[1]) / spent_s)
                rates[shard] = _mixed(self._rates.get(shard), latest)
        self._rates = rates

    def of(self, shard: int) -> ShardTraffic:
        return self._rates.get(shard, ShardTraffic())


def _mixed(known: ShardTraffic | None, latest: ShardTraffic) -> ShardTraffic:
    if known is None:
        return latest
    return ShardTraffic(*(old + _NEWS * (new - old) for old, new in zip(known, latest, strict=True)))

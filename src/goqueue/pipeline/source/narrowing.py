"""Filters that are applied before rows are made: on topic, partition, offset, timestamp and key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from goqueue.pipeline.link.place import OffsetRange, Place

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster

_COMPARED: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: lambda mine, theirs: bool(mine == theirs),
    EqualNullSafe: lambda mine, theirs: bool(mine == theirs),
    GreaterThan: lambda mine, theirs: bool(mine > theirs),
    GreaterThanOrEqual: lambda mine, theirs: bool(mine >= theirs),
    LessThan: lambda mine, theirs: bool(mine < theirs),
    LessThanOrEqual: lambda mine, theirs: bool(mine <= theirs),
    In: lambda mine, theirs: mine in theirs,
}
_LEAST: Final = {EqualTo: 0, EqualNullSafe: 0, GreaterThan: 1, GreaterThanOrEqual: 0}
_MOST: Final = {EqualTo: 1, EqualNullSafe: 1, LessThan: 0, LessThanOrEqual: 1}
_ONE_OF: Final = (EqualTo, EqualNullSafe, In)
_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp"})


class Narrow:
    """Takes filters, and makes ranges smaller by them."""

    def __init__(self) -> None:
        self._of_place: list[tuple[str, Filter]] = []
        self._least = 0
        self._most = (1 << 63) - 1
        self._since_ms: int | None = None
        self.keys: tuple[bytes, ...] | None = None  # a task leaves out messages with others

    def take(self, one: Filter) -> bool:
        """Whether this filter is done with here. A time is only a help: logs need not be in order of time."""
        column, value = _column(one), getattr(one, "value", None)
        if column in _NEVER_NULL and isinstance(one, IsNotNull):
            return True
        if value is None:
            return False
        if column in ("topic", "partition") and type(one) in _COMPARED:
            self._of_place.append((column, one))
            return True
        if column == "offset" and isinstance(value, int):
            return self._take_offset(one, value)
        if column == "key" and type(one) in _ONE_OF:
            return self._take_keys(value if isinstance(one, In) else [value])
        if column == "timestamp" and isinstance(value, datetime) and type(one) in _LEAST:
            self._since_ms = max(self._since_ms or 0, _ms(value))
        return False

    def _take_keys(self, values: Sequence[Any]) -> bool:
        if not all(isinstance(value, bytes) for value in values):
            return False
        before = frozenset(values if self.keys is None else self.keys)
        self.keys = tuple(value for value in dict.fromkeys(values) if value in before)
        return True

    def _take_offset(self, one: Filter, value: int) -> bool:
        if type(one) in _LEAST:
            self._least = max(self._least, value + _LEAST[type(one)])
        if type(one) in _MOST:
            self._most = min(self._most, value + _MOST[type(one)])
        return type(one) in _LEAST or type(one) in _MOST

    def ranges(self, cluster: Cluster, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Only what can pass the filters; in order."""
        if self.keys == ():
            return []
        wanted = [one for one in ranges if self._is_wanted(one.place)]
        since = self._since(cluster, [one.place for one in wanted])
        return [
            OffsetRange(*one.place, max(one.start, self._least, since.get(one.place, 0)), min(one.end, self._most))
            for one in wanted
        ]

    def _is_wanted(self, place: Place) -> bool:
        return all(_COMPARED[type(one)](getattr(place, column), one.value) for column, one in self._of_place)  # type: ignore[attr-defined]

    def _since(self, cluster: Cluster, places: Sequence[Place]) -> dict[Place, int]:
        """Before the first message of that age all are older; if there is none, nothing can pass."""
        if self._since_ms is None:
            return {}
        found = cluster.at_time(places, dict.fromkeys(places, self._since_ms))
        return {place: (1 << 63) - 1 if offset is None else offset for place, offset in found.items()}


def _column(one: Filter) -> str | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return path[0] if len(path) == 1 else None


def _ms(moment: datetime) -> int:
    """Rounded down, as offsets are found by whole milliseconds."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)

"""Families with a series for each topic, partition or group: at most so many, and as text without detours.

`prometheus_client` makes several objects for every sample of a page. Here a series' labels are written once and kept,
and a sample is a line. Where there are more than a family may have, the largest keep series of their own and the rest
are one series, named `(other)`. A counter of the rest only ever grows: who gets a series of its own leaves behind what
was counted for it, and who loses it is counted from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

Key: TypeAlias = tuple[str, ...]  # label values, by the order of the names
Values: TypeAlias = Sequence[float | None]  # by family; None where there is nothing to tell

OTHER: Final = "(other)"
_HYSTERESIS: Final = 2.0  # so many times larger must be who takes the place of another
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Family(NamedTuple):
    """A name without `_total`, and what it means."""

    name: str
    text: str
    is_counter: bool = False


class SeriesFamily(Metric):
    """One family of a scrape."""

    def __init__(self, family: Family, labels: Sequence[str], rows: Sequence[tuple[Key, str, float]]) -> None:
        super().__init__(family.name, family.text, "counter" if family.is_counter else "gauge")
        self.labels = labels
        self.rows = rows

    @property
    def sample_name(self) -> str:
        return f"{self.name}_total" if self.type == "counter" else self.name

    @property
    def samples(self) -> list[Sample]:
        """For who wants objects."""
        named = self.sample_name
        return [Sample(named, dict(zip(self.labels, key, strict=True)), value) for key, _, value in self.rows]

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """There are none but the rows."""

    def lines(self) -> str:
        named = self.sample_name
        return "".join([f"{named}{text} {value!r}\n" for _, text, value in self.rows])


class RestOfCounters:
    """The counters of all that have no series of their own."""

    def __init__(self, families: int) -> None:
        self.totals = [0.0] * families
        self._seen: dict[Key, list[float]] = {}

    def add(self, unnamed: Mapping[Key, Values], once_named: set[Key]) -> None:
        """`once_named` had series until now: what they counted so far was told."""
        seen: dict[Key, list[float]] = {}
        for key, values in unnamed.items():
            now = [value or 0.0 for value in values]
            before = self._seen.get(key) or (now if key in once_named else [0.0] * len(now))
            for place, (value, was) in enumerate(zip(now, before, strict=True)):
                self.totals[place] += max(0.0, value - was)
            seen[key] = now
        self._seen = seen


class SeriesTable:
    """Families with the same labels. `weigh` says how large a series is."""

    def __init__(
        self, labels: Sequence[str], families: Sequence[Family], series_max: int, weigh: Callable[[Values], float]
    ) -> None:
        self._labels = labels
        self._order = sorted(range(len(labels)), key=labels.__getitem__)
        self._families = families
        self._max = series_max
        self._weigh = weigh
        self._texts: dict[Key, str] = {}
        self._rest = RestOfCounters(len(families))
        self._other = (OTHER,) * len(labels)

    def families(self, rows: Mapping[Key, Values]) -> Iterator[SeriesFamily]:
        """For one scrape."""
        named, rest = (rows, None) if len(rows) <= self._max and not any(self._rest.totals) else self._bounded(rows)
        self._texts = {key: self._texts.get(key) or self._text(key) for key in named}
        for place, family in enumerate(self._families):
            found = [
                (key, self._texts[key], float(value))
                for key, values in named.items()
                if (value := values[place]) is not None
            ]
            if rest is not None:
                found.append((self._other, self._text(self._other), rest[place]))
            yield SeriesFamily(family, self._labels, found)

    def _bounded(self, rows: Mapping[Key, Values]) -> tuple[dict[Key, Values], list[float]]:
        chosen = self._choose({key: self._weigh(values) for key, values in rows.items()})
        unnamed = {key: values for key, values in rows.items() if key not in chosen}
        self._rest.add(unnamed, {key for key in unnamed if key in self._texts})
        rest = [
            self._rest.totals[place] if family.is_counter else sum(values[place] or 0.0 for values in unnamed.values())
            for place, family in enumerate(self._families)
        ]
        return {key: rows[key] for key in chosen}, rest

    def _choose(self, weights: Mapping[Key, float]) -> dict[Key, None]:
        """Those that have series keep them, unless others are far larger."""
        kept = {key: weight * _HYSTERESIS + 1.0 for key, weight in weights.items() if key in self._texts}
        ranked = sorted(weights, key=lambda key: (-kept.get(key, weights[key]), key))
        return dict.fromkeys(sorted(ranked[: self._max]))

    def _text(self, key: Key) -> str:
        pairs = (f'{self._labels[place]}="{key[place].translate(_ESCAPED)}"' for place in self._order)
        return "{" + ",".join(pairs) + "}"

"""What changed in the messages of a topic since the run before: fields that came or went, types, shares of nulls.

A share counts as changed when it moved by a tenth or more and chance does not explain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from typing import Final

import msgspec

SHARE_MIN: Final = 0.1  # of a change that is worth telling
_DEVIATIONS_MIN: Final = 4.0  # of a change that is no chance
_NULL: Final = "null"


class Profile(msgspec.Struct, frozen=True):
    """One topic in one run: `rows` messages, and how many of them have each field, by type."""

    rows: int
    fields: dict[str, dict[str, int]]

    def present(self, field: str) -> int:
        """Messages with the field. One that has several types in a message, as items of an array can, counts once."""
        return min(self.rows, sum(self.fields.get(field, {}).values()))

    def types(self, field: str) -> list[str]:
        return sorted(one for one in self.fields.get(field, {}) if one != _NULL)

    def nulls(self, field: str) -> int:
        return self.fields.get(field, {}).get(_NULL, 0)


class FieldChange(msgspec.Struct, frozen=True):
    """`change` is `new field`, `missing field`, `types`, `presence` or `nulls`."""

    field: str
    change: str
    before: str
    after: str


def profile_of(rows: Iterable[Mapping[str, object]], whole: str = "") -> Profile:
    """From rows of `fields` of one topic."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(str(row["field"]), {})[str(row["type"])] = int(str(row["rows"]))
    return Profile(sum(found.get(whole, {}).values()), found)


def drift(before: Profile, after: Profile) -> list[FieldChange]:
    """By field; nothing where there is nothing to compare."""
    if not before.rows or not after.rows:
        return []
    names = sorted(before.fields.keys() | after.fields.keys())
    return [change for field in names for change in _changes(field, before, after)]


def _changes(field: str, before: Profile, after: Profile) -> Iterator[FieldChange]:
    had, has = before.present(field), after.present(field)
    if not had:
        yield FieldChange(field, "new field", "", f"{_types(after, field)}, {_share(has, after.rows)}")
    elif not has:
        if _is_change(had, before.rows, 0, after.rows, least=0.0):
            yield FieldChange(field, "missing field", f"{_types(before, field)}, {_share(had, before.rows)}", "")
    else:
        yield from _moved(field, before, after)


def _moved(field: str, before: Profile, after: Profile) -> Iterator[FieldChange]:
    had, has = before.present(field), after.present(field)
    if set(after.types(field)) - set(before.types(field)):
        yield FieldChange(field, "types", _types(before, field), _types(after, field))
    if _is_change(had, before.rows, has, after.rows):
        yield FieldChange(field, "presence", _share(had, before.rows), _share(has, after.rows))
    if _is_change(before.nulls(field), had, after.nulls(field), has):
        yield FieldChange(field, "nulls", _share(before.nulls(field), had), _share(after.nulls(field), has))


def _is_change(some: int, of: int, others: int, of_others: int, least: float = SHARE_MIN) -> bool:
    """Two shares compared: the distance in standard deviations of what one common share would give."""
    common = (some + others) / (of + of_others)
    deviation = sqrt(common * (1 - common) * (1 / of + 1 / of_others))
    distance = abs(some / of - others / of_others)
    return distance > 0 and distance >= least and (not deviation or distance / deviation >= _DEVIATIONS_MIN)


def _types(profile: Profile, field: str) -> str:
    return ", ".join(profile.types(field)) or _NULL


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"

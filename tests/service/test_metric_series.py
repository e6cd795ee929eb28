"""Families that are bounded: the largest have series of their own, and sums stay right."""

from __future__ import annotations

from goqueue.service.metric_series import Family, Key, SeriesFamily, SeriesTable

FAMILIES = (Family("in", "Came in.", True), Family("size", "Is there."))


def table(series_max: int) -> SeriesTable:
    return SeriesTable(("topic",), FAMILIES, series_max, lambda row: row[0] or 0)


def shown(known: SeriesTable, **topics: tuple[float, float]) -> dict[str, dict[str, float]]:
    rows: dict[Key, tuple[float, float]] = {(name,): values for name, values in topics.items()}
    return {one.name: {key[0]: value for key, _, value in one.rows} for one in known.families(rows)}


def test_all_have_series_while_there_is_room() -> None:
    assert shown(table(2), a=(1, 5), b=(2, 6)) == {"in": {"a": 1, "b": 2}, "size": {"a": 5, "b": 6}}


def test_the_largest_have_series_and_the_rest_are_summed() -> None:
    found = shown(table(1), a=(1, 5), b=(9, 6), c=(2, 7))
    assert found == {"in": {"b": 9, "(other)": 3}, "size": {"b": 6, "(other)": 12}}


def test_a_counter_of_the_rest_never_goes_back() -> None:
    known = table(1)
    assert shown(known, a=(10, 0), b=(4, 0))["in"] == {"a": 10, "(other)": 4}
    assert shown(known, a=(11, 0), b=(6, 0))["in"] == {"a": 11, "(other)": 6}
    assert shown(known, a=(11, 0), b=(60, 0))["in"] == {"b": 60, "(other)": 6}, "what b had there stays there"
    assert shown(known, a=(13, 0), b=(61, 0))["in"] == {"b": 61, "(other)": 8}, "of a, what came since"
    assert shown(known, b=(61, 0))["in"] == {"b": 61, "(other)": 8}, "a was deleted"


def test_a_series_is_not_lost_to_one_that_is_a_little_larger() -> None:
    known = table(1)
    assert "a" in shown(known, a=(10, 0), b=(4, 0))["in"]
    assert "a" in shown(known, a=(10, 0), b=(19, 0))["in"]
    assert "b" in shown(known, a=(10, 0), b=(22, 0))["in"]


def test_what_is_not_known_has_no_line() -> None:
    [family] = SeriesTable(("t",), [Family("age", "Old.")], 9, lambda row: 0).families({("a",): (None,), ("b",): (2,)})
    assert family.lines() == 'age{t="b"} 2.0\n'


def test_labels_are_in_the_order_of_their_names_and_escaped() -> None:
    known = SeriesTable(("topic", "group"), [Family("lag", "Behind.")], 9, lambda row: 0)
    [family] = known.families({("t", 'a"\\\n'): (1,)})
    assert family.lines() == 'lag{group="a\\"\\\\\\n",topic="t"} 1.0\n'
    assert isinstance(family, SeriesFamily)
    assert family.samples[0].labels == {"topic": "t", "group": 'a"\\\n'}

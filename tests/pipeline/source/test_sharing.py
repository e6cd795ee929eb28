from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.sharing import backlog_of, is_held, share_out

_LOGS = st.dictionaries(
    st.builds(Place, st.sampled_from(["a", "b"]), st.integers(0, 20)),
    st.tuples(st.integers(0, 1000), st.integers(0, 5000)),
    min_size=1,
    max_size=20,
)


@given(_LOGS, st.integers(1, 20_000))
def test_a_trigger_is_as_large_as_allowed_and_starves_nobody(logs: dict[Place, tuple[int, int]], most: int) -> None:
    begin = {place: first for place, (first, _) in logs.items()}
    end = {place: first + size for place, (first, size) in logs.items()}
    to = share_out(most, begin, end)
    backlog, taken = backlog_of(begin, end), backlog_of(begin, to)
    assert to.keys() == end.keys()
    assert all(begin[place] <= to[place] <= end[place] for place in end)
    assert taken.keys() == backlog.keys()
    assert sum(taken.values()) == min(sum(backlog.values()), max(most, len(backlog)))


def test_shares_are_in_proportion_to_the_backlog() -> None:
    begin = {Place("a", 0): 0, Place("a", 1): 100, Place("b", 0): 7}
    end = {Place("a", 0): 9_000, Place("a", 1): 1_100, Place("b", 0): 7}
    # Each has one offset for sure, and of the others its part: hence 899 and 101 instead of 900 and 100.
    assert share_out(1_000, begin, end) == {Place("a", 0): 899, Place("a", 1): 201, Place("b", 0): 7}


def test_working_off_a_backlog_comes_to_its_end() -> None:
    begin = {Place("a", number): 0 for number in range(3)}
    end = {Place("a", 0): 1, Place("a", 1): 1_000, Place("a", 2): 37}
    triggers = 0
    while begin != end:
        begin = share_out(100, begin, end)
        triggers += 1
    assert triggers == 11


def test_a_trigger_waits_for_enough_but_not_for_ever() -> None:
    assert is_held(rows=9, least=10, waited_ms=0, patience_ms=1_000)
    assert not is_held(rows=10, least=10, waited_ms=0, patience_ms=1_000)
    assert not is_held(rows=1, least=10, waited_ms=1_000, patience_ms=1_000)

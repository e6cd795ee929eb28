"""What a poll answers: the same members for every message, however it was made."""

from __future__ import annotations

import asyncio
from base64 import b64encode

import msgspec

from goqueue.api.messages import DeliveredOut
from goqueue.base.ids import TopicPartition
from goqueue.edge.rest.delivered_json import delivered_json
from goqueue.format.records import Record
from goqueue.service.leased_run import LeasedRun

TEXTS = [b"plain", b"", None, 'quotes " and \\ and \n and ü'.encode(), "\u2028\x00".encode()]


def shown(*records: Record) -> list[DeliveredOut]:
    run = LeasedRun(TopicPartition("t", 3), "abc", 2, 1, 50, 40, records)
    encoded = asyncio.run(delivered_json([run, run]))
    found = msgspec.json.decode(encoded, type=list[DeliveredOut])
    assert found[: len(records)] == found[len(records) :]
    assert [(one.topic, one.partition, one.attempt, one.failures, one.leased_until) for one in found] == [
        ("t", 3, 2, 1, 50)
    ] * len(found)
    return found[: len(records)]


def test_text_is_text_whatever_is_in_it() -> None:
    records = [Record(at, 10 + at, text, text, ()) for at, text in enumerate(TEXTS)]
    found = shown(*records)
    assert [one.receipt for one in found] == [f"t:3:{at}:2:abc" for at in range(len(TEXTS))]
    assert [one.timestamp for one in found] == [10 + at for at in range(len(TEXTS))]
    expected = [None if text is None else text.decode() for text in TEXTS]
    assert [one.value for one in found] == [one.key for one in found] == expected
    assert all(one.headers == {} and one.priority == "normal" for one in found)


def test_text_that_only_the_neighbours_make_whole_is_not_text() -> None:
    cut = "ü".encode()
    found = shown(Record(0, 1, None, b"a" + cut[:1], ()), Record(1, 1, None, cut[1:] + b"b", ()))
    assert [one.encoding for one in found] == ["base64", "base64"]


def test_text_with_line_ends_and_what_looks_like_one_stays_apart() -> None:
    texts = [b"a\nb", b"\\n", b"\\\n", b"c", b'{"json": "yes"}']
    for some in ([texts[0], texts[3]], [texts[1], texts[3]], [texts[2], texts[4]], texts, texts[4:] * 3):
        found = shown(*(Record(at, 1, None, text, ()) for at, text in enumerate(some)))
        assert [one.value for one in found] == [text.decode() for text in some]


def test_some_have_a_key_and_times_differ() -> None:
    records = [Record(4, 7, b"k", b"", ()), Record(6, 7, None, b"x", ()), Record(9, 8, None, None, ())]
    found = shown(*records)
    assert [(one.offset, one.timestamp, one.key, one.value) for one in found] == [
        (4, 7, "k", ""),
        (6, 7, None, "x"),
        (9, 8, None, None),
    ]


def test_plain_messages_among_others_look_as_they_do_alone() -> None:
    plain, binary = Record(0, 1, b"k", b"v", ()), Record(1, 2, None, b"\xff", ())
    urgent = Record(2, 3, None, b"v", (("goqueue-priority", b"0"), ("h", b"x")))
    alone = shown(plain)[0]
    found = shown(plain, binary, urgent)
    assert found[0] == alone
    assert (found[1].value, found[1].encoding) == (b64encode(b"\xff").decode(), "base64")
    assert (found[2].headers, found[2].priority != "normal") == ({"h": "x"}, True)
    members = [set(msgspec.json.decode(asyncio.run(delivered_json([run]))[1:-1])) for run in runs()]
    assert members[0] == members[1]


def runs() -> list[LeasedRun]:
    """A message that is made quickly, and one that is not."""
    quick, other = Record(0, 1, b"k", b"v", ()), Record(0, 1, b"k", b"v", (("h", b"x"),))
    return [LeasedRun(TopicPartition("t", 0), "n", 1, 0, 2, 1, [one]) for one in (quick, other)]


def test_many_messages_are_all_there_and_in_order() -> None:
    records = [Record(at, 0, None, b"%d" % at, ()) for at in range(1_801)]
    assert [one.offset for one in shown(*records)] == list(range(1_801))


def test_offsets_in_a_row_are_numbers_at_any_length() -> None:
    for first in (0, 998, 1_000, 1_995, 12_345_000):
        records = [Record(first + at, 1, None, b"v", ()) for at in range(10)]
        found = shown(*records)
        assert [one.offset for one in found] == [*range(first, first + 10)]
        assert [one.receipt for one in found] == [f"t:3:{first + at}:2:abc" for at in range(10)]
    apart = shown(*(Record(at, 1, None, b"v", ()) for at in (2_000, 2_001, 2_003, 2_002)))
    assert [one.offset for one in apart] == [2_000, 2_001, 2_003, 2_002]

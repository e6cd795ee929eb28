"""Receipts come from outside: a run of them says what each says alone, and what is no run is never taken for one."""

from __future__ import annotations

import random

import pytest

from goqueue.base.errors import InvalidReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import parse_receipt, parse_receipt_run, receipt_ends, receipt_stretches

HEAD, TAIL = receipt_ends(TopicPartition("orders", 3), 1, "0123456789abcdef")


def run_of(offsets: list[int]) -> list[str]:
    return [f"{HEAD}{offset}{TAIL}" for offset in offsets]


def check(texts: list[str]) -> None:
    """A run is taken only if each receipt alone says the same."""
    run = parse_receipt_run(texts)
    if run is not None:
        assert len(run.offsets) == len(texts)
        for text, offset in zip(texts, run.offsets, strict=True):
            one = parse_receipt(text)
            assert (one.topic, one.partition, one.offset) == (run.topic, run.partition, offset)
            assert (one.attempt, one.nonce) == (run.attempt, run.nonce)


def test_receipts_of_one_poll_are_a_run() -> None:
    run = parse_receipt_run(run_of([7, 8, 9, 4]))
    assert run is not None
    assert (run.topic, run.partition, run.attempt, run.nonce) == ("orders", 3, 1, "0123456789abcdef")
    assert run.offsets == [7, 8, 9, 4]
    check(run_of([7, 8, 9, 4]))


@pytest.mark.parametrize("first", [0, 7, 98, 10**17])
def test_receipts_in_a_row_are_told_as_one(first: int) -> None:
    texts = run_of([*range(first, first + 150)])
    run = parse_receipt_run(texts)
    assert run is not None and run.offsets == range(first, first + 150)
    check(texts)


@pytest.mark.parametrize(
    "texts",
    [
        [f"{HEAD}7{TAIL}", f"{HEAD}08{TAIL}"],
        [f"{HEAD}07{TAIL}", f"{HEAD}8{TAIL}"],
        [f"{HEAD}7{TAIL}\n{HEAD}8{TAIL}", f"{HEAD}9{TAIL}"],
        [f"{HEAD}7{TAIL}", f"{HEAD}8{TAIL}\n{HEAD}9{TAIL}"],
        [f"{HEAD}7{TAIL}", f"{HEAD}8{TAIL}", f"{HEAD}8{TAIL}"],
        [f"{HEAD}{'9' * 30}{TAIL}", f"{HEAD}1{'0' * 30}{TAIL}"],
        ["t:x:7:1:n", "t:x:8:1:n"],
        ["t:1:7:x:n", "t:1:8:x:n"],
    ],
)
def test_what_is_no_row_is_not_taken_for_one(texts: list[str]) -> None:
    run = parse_receipt_run(texts)
    assert run is None or not isinstance(run.offsets, range)
    check(texts)


def test_a_topic_may_have_colons() -> None:
    texts = [f"a:1:b:2:{offset}:1:n" for offset in (5, 6)]
    run = parse_receipt_run(texts)
    assert run is not None and run.topic == "a:1:b"
    check(texts)


@pytest.mark.parametrize(
    "texts",
    [
        [*run_of([1, 2]), f"orders:4:3{TAIL}"],
        [*run_of([1, 2]), f"{HEAD}3:2:0123456789abcdef"],
        [*run_of([1, 2]), f"{HEAD}3:1:0123456789abcdee"],
        [*run_of([1]), f"{HEAD}{TAIL}"],
        [*run_of([1]), f"{HEAD}-2{TAIL}"],
        [*run_of([1]), f"{HEAD}+2{TAIL}"],
        [*run_of([1]), f"{HEAD}1_0{TAIL}"],
        [*run_of([1]), f"{HEAD} 2{TAIL}"],
        [*run_of([1]), f"{HEAD}2²{TAIL}"],
        [*run_of([1]), ""],
        [*run_of([1]), "\n"],
        ["", *run_of([1])],
        [":::::"],
        ["::::"],
        ["orders:x:1:1:n"],
        ["orders:1:1::n"],
        ["\n".join(run_of([1, 2])), *run_of([3])],
        ["\n".join(run_of([1, 2]))],
        [f"{HEAD}1{TAIL}\n{HEAD}2", TAIL],
        [f"a\nb:1:{offset}:1:n" for offset in (1, 2)],
        [f"a:1:{offset}:1:n\n" for offset in (1, 2)],
        [f"{HEAD}{'9' * 500}{TAIL}"],
        [f"{HEAD}{'9' * 5_000}{TAIL}", f"{HEAD}1{TAIL}"],
    ],
)
def test_what_is_no_run_is_not_taken_for_one(texts: list[str]) -> None:
    assert parse_receipt_run(texts) is None


def test_a_receipt_that_is_too_long_is_none() -> None:
    with pytest.raises(InvalidReceipt):
        parse_receipt(f"{HEAD}{'9' * 500}{TAIL}")


def test_damaged_receipts_are_never_read_as_others() -> None:
    """Bytes are changed, dropped, doubled and moved between receipts."""
    chance = random.Random(7)
    alphabet = f"{HEAD}{TAIL}\n:0123456789٣²-+_ \0"
    for _ in range(20_000):
        texts = run_of([chance.randrange(10 ** chance.randrange(1, 19)) for _ in range(chance.randrange(1, 5))])
        for _ in range(chance.randrange(3)):
            place = chance.randrange(len(texts))
            text, at = texts[place], chance.randrange(len(texts[place]) + 1)
            cut = chance.choice((at, at + 1, chance.randrange(len(text) + 1)))
            texts[place] = text[:at] + "".join(chance.choices(alphabet, k=chance.randrange(3))) + text[cut:]
        check(texts)


def test_stretches_cover_every_receipt_once() -> None:
    chance = random.Random(11)
    for _ in range(2_000):
        texts = [chance.choice(["", "x", "a:b", *run_of([1, 22]), "other:1:5:1:n", "other:1:6:1:n"]) for _ in range(8)]
        stretches = list(receipt_stretches(texts))
        assert [place for begin, end in stretches for place in range(begin, end)] == list(range(8))
        for begin, end in stretches:
            check(texts[begin:end])


def test_stretches_are_the_runs_of_partitions() -> None:
    texts = [*run_of([1, 2, 3]), "other:1:5:1:n", "other:1:6:1:n", *run_of([4])]
    assert list(receipt_stretches(texts)) == [(0, 3), (3, 5), (5, 6)]

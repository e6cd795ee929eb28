"""Stories of the queue in virtual time: runs of a key, messages that the log no longer has, and counts of both."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import InvalidField, StaleReceipt
from goqueue.broker import Broker
from goqueue.service.storage import Storage
from goqueue.sim.time import VirtualLoop
from tests.service.test_queue_stories import ack, lives, put, take, values

ORDERED = {"queue.order": "key"}


async def put_keys(broker: Broker, *names: str) -> None:
    """Each in a batch of its own; the first letter is the key."""
    for name in names:
        await put(broker, name, key=name[0])


# --- one key after the other -------------------------------------------------------------------------------


def test_a_poll_takes_as_much_of_one_key_as_it_can() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put_keys(broker, "a0", "b0", "a1", "c0", "b1", "a2", "c1", "a3")
        first = await take(broker, 3)
        assert values(first) == ["a0", "a1", "a2"]
        assert values(await take(broker, 3)) == ["b0", "b1", "c0"]
        assert await take(broker, 3) == [], "every key is with somebody"
        await ack(broker, first)
        assert values(await take(broker)) == ["a3"]

    lives(scenario, config=ORDERED)


def test_one_poll_gives_whole_runs_key_by_key_over_a_restart() -> None:
    async def first(broker: Broker, loop: VirtualLoop) -> None:
        await put_keys(broker, "a0", "b0", "a1", "b1", "a2")
        assert values(await take(broker, 2)) == ["a0", "a1"]

    async def second(broker: Broker, loop: VirtualLoop) -> None:
        await put_keys(broker, "b2", "c0")
        assert values(await take(broker)) == ["b0", "b1", "b2", "c0"]

    lives(first, second, config=ORDERED)


def test_a_message_that_comes_back_goes_to_the_next_poll_although_later_ones_are_out() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put_keys(broker, "a0", "a1", "a2", "b0")
        found = await take(broker, 2)
        assert values(found) == ["a0", "a1"]
        await broker.leasing.extend([found[0].receipt], 0)
        again = await take(broker)
        assert values(again) == ["a0", "b0"], "nothing new of a key that is out"
        await ack(broker, [again[0], found[1]])
        assert values(await take(broker)) == ["a2"]

    lives(scenario, config=ORDERED)


def test_a_message_that_is_too_old_does_not_end_a_run() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put_keys(broker, "a0")
        await put(broker, "gone", key="a", ttl_ms=0)
        await put_keys(broker, "b0", "a1", "a2")
        assert values(await take(broker, 3)) == ["a0", "a1", "a2"]

    lives(scenario, config=ORDERED)


def test_many_keys_come_one_after_the_other_and_none_is_forgotten() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        messages = [InputMessage(b"%d" % (at % 50), b"%d" % at, (), 0) for at in range(1_000)]
        await broker.publish.messages(PublishMessages("t", messages))
        got: dict[int, list[int]] = {}
        begun = 0
        while found := await take(broker, 10):
            begun += len({one.stored.key for one in found})
            for one in found:
                got.setdefault(int(one.stored.key or b""), []).append(int(one.stored.value or b""))
            await ack(broker, found)
        assert got == {key: list(range(key, 1_000, 50)) for key in range(50)}
        assert begun < 700, "in the order of the log a poll would be handed ten keys, in all 1,000"

    lives(scenario, config=ORDERED)


async def gone(broker: Broker, before: int) -> None:
    """The log loses its head."""
    await Storage(broker.topics, broker.cleaner, broker.space, "").delete_records("t", 0, before)


# --- gone from the log -------------------------------------------------------------------------------------


def test_what_is_gone_from_the_log_is_not_handed_out_again() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "old", "older")
        await put(broker, "new")
        found = await take(broker)
        assert len(found) == 3
        await gone(broker, 2)
        await broker.leasing.extend([one.receipt for one in found], 0)
        assert broker.leasing.counts("g", "t").ready == 1
        assert values(await take(broker)) == ["new"]

    lives(scenario)


def test_what_is_gone_from_the_log_before_it_was_looked_at_is_not_handed_out() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        await put(broker, "c")
        assert values(await take(broker, 1)) == ["a"]  # the batch of both is in memory now
        await gone(broker, 2)
        assert broker.leasing.counts("g", "t").ready == 1
        assert values(await take(broker)) == ["c"]

    lives(scenario)


# --- counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes", [0, 1, 3])
def test_counts_are_right_after_everything_was_skipped(takes: int) -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b", "c")
        if takes:
            await take(broker, takes)
        await put(broker, "d")
        await broker.leasing.skip_all("g", "t")
        counts = broker.leasing.counts("g", "t")
        assert (counts.ready, counts.in_flight, counts.waiting) == (0, 0, 0)
        await put(broker, "e")
        assert broker.leasing.counts("g", "t").ready == 1

    lives(scenario)


# --- receipts of leases that are over ----------------------------------------------------------------------


def test_a_receipt_of_a_lease_that_is_over_may_be_let_count() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        old = [one.receipt for one in await take(broker)]
        await broker.leasing.extend(old, 0)
        (held,) = await take(broker, 1)
        assert all(isinstance(one, StaleReceipt) for one in await broker.leasing.ack(old))
        assert await broker.leasing.ack(old, late_too=True) == [None, None]
        assert isinstance((await broker.leasing.ack([held.receipt]))[0], StaleReceipt)
        assert await take(broker, wait_ms=60_000) == []

    lives(scenario)


def test_an_old_receipt_keeps_a_message_that_another_has_and_no_other() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        old = [one.receipt for one in await take(broker)]
        await broker.leasing.extend(old, 0)
        await take(broker, 1)
        assert await broker.leasing.extend(old, 45_000, late_too=True) == [None, None]
        (free,) = await take(broker)
        assert values([free]) == ["b"], "what nobody has stays free"
        await ack(broker, [free])
        assert await take(broker, wait_ms=40_000) == []
        assert values(await take(broker, wait_ms=40_000)) == ["a"]

    lives(scenario)


def test_no_lease_lasts_longer_than_is_allowed_in_all() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a")
        (found,) = await take(broker, lease_ms=10_000)
        await asyncio.sleep(6)
        allowed_ms = 15_000
        assert await broker.leasing.extend([found.receipt], 9_000, total_ms_max=allowed_ms) == [None]
        await asyncio.sleep(6)
        (refused,) = await broker.leasing.extend([found.receipt], 9_000, total_ms_max=allowed_ms)
        assert isinstance(refused, InvalidField), "it began 12 s ago, however often it was kept longer"
        assert await broker.leasing.extend([found.receipt], 3_000, total_ms_max=allowed_ms) == [None]

    lives(scenario)


@pytest.mark.parametrize("handed_out", [False, True])
def test_a_queue_of_sqs_hands_out_nothing_older_than_its_retention(handed_out: bool) -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "old")
        if handed_out:
            await take(broker, lease_ms=1_000)
        await asyncio.sleep(40)
        await put(broker, "young")
        await asyncio.sleep(21)
        assert values(await take(broker)) == ["young"]

    lives(scenario, config={"sqs.attributes": '{"modified_s":1}', "retention.ms": "60000"})

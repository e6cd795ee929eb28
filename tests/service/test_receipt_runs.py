"""Answers for many messages at once do to each what an answer for it alone does."""

from __future__ import annotations

from goqueue.base.errors import InvalidReceipt, StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Outcome, Take
from goqueue.broker import Broker
from goqueue.sim.time import VirtualLoop
from tests.service.test_queue_stories import ack, lives, put, take, values


def kinds(outcomes: list[Outcome]) -> list[type | None]:
    return [None if one is None else type(one) for one in outcomes]


def test_one_that_is_over_among_many_does_not_hold_up_the_others() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, *"abcdef")
        receipts = [one.receipt for one in await take(broker)]
        assert await broker.leasing.nack([receipts[2]], 0) == [None]
        assert kinds(await broker.leasing.ack(receipts)) == [None, None, StaleReceipt, None, None, None]
        assert kinds(await broker.leasing.ack(receipts)) == [StaleReceipt] * 6
        again = await take(broker)
        assert [(one.attempt, one.failures) for one in again] == [(2, 1)] and values(again) == ["c"]
        await ack(broker, again)

    lives(scenario)


def test_one_that_is_there_twice_counts_once() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, *"abc")
        a, b, c = (one.receipt for one in await take(broker))
        assert kinds(await broker.leasing.ack([a, b, a, c])) == [None, None, StaleReceipt, None]
        await put(broker, *"de")
        d, e = (one.receipt for one in await take(broker))
        assert kinds(await broker.leasing.ack([d, e, "no receipt", e, d])) == [
            None,
            None,
            InvalidReceipt,
            StaleReceipt,
            StaleReceipt,
        ]

    lives(scenario)


def test_receipts_of_several_polls_partitions_and_groups_are_answered_together() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await broker.topics.create("u", 1, {})
        await put(broker, *"abcdef")
        first, second = await take(broker, 3), await take(broker, 3)
        other = await take(broker, 6, group="h")
        mixed = [one.receipt for some in zip(first, other[:3], second, strict=True) for one in some]
        assert await broker.leasing.ack([*mixed, *(one.receipt for one in other[3:])]) == [None] * 12
        assert await take(broker) == [] == await take(broker, group="h")

    lives(scenario)


def test_messages_that_come_again_among_new_ones_keep_their_counts() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, *"ab")
        found = await take(broker)
        assert await broker.leasing.nack([found[1].receipt], 0) == [None]
        await put(broker, *"cd")
        again = await take(broker)
        assert [(one.attempt, one.failures) for one in again] == [(2, 1), (1, 0), (1, 0)]
        runs = await broker.leasing.take_runs(Take("other", [TopicPartition("t", 0)], "me", 10))
        assert [len(run.records) for run in runs] == [4]
        await ack(broker, [found[0], *again])

    lives(scenario)

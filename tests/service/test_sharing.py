"""Share groups take what there is memory for, and give back what they cannot send without counting it as delivered."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import InvalidConfig
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.service import lending
from goqueue.service.sharing import ACCEPT, RELEASE, Acquired, AnswerRange, ShareTake
from goqueue.sim.time import VirtualLoop
from tests.service.test_queue_stories import lives, put, take

AT = TopicPartition("t", 0)


class Memory:
    """Grants what it is told to."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.least = free

    def reserve(self, wanted: int) -> int:
        granted = min(wanted, self.free)
        self.free -= granted
        self.least = min(self.least, self.free)
        return granted

    def release(self, granted: int) -> None:
        self.free += granted

    async def wait(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)


async def begin(broker: Broker) -> None:
    await broker.groups.configure("g", {"share.auto.offset.reset": "earliest"})


async def acquire(
    broker: Broker, limit: int = 500, bytes_max: int = 1 << 20, wait_ms: int = 0, memory: Memory | None = None
) -> list[tuple[int, int, int]]:
    asked = ShareTake("g", "m", [AT], limit, bytes_max, wait_ms, whole_batches=False)
    found = await broker.sharing.acquire(asked, memory or Memory(1 << 30))
    return ranges(found)


def ranges(found: list[Acquired]) -> list[tuple[int, int, int]]:
    return [(one.first, one.last, one.deliveries) for part in found for one in part.ranges]


async def answer(broker: Broker, first: int, last: int, kind: int) -> None:
    outcomes = await broker.sharing.acknowledge("g", "m", {AT: [AnswerRange(first, last, (kind,))]})
    assert outcomes == {AT: None}


def test_nothing_is_acquired_while_there_is_no_memory_to_read_it() -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        await put(broker, "a", "b")
        memory = Memory(0)
        assert await acquire(broker, memory=memory) == []
        assert broker.leasing.in_flight("g", "m") == 0
        waiting = asyncio.ensure_future(acquire(broker, wait_ms=5_000, memory=memory))
        await asyncio.sleep(1)
        assert not waiting.done()
        memory.free = 10_000
        assert await waiting == [(0, 1, 1)]
        assert memory.free == 10_000, "given back"

    lives(scenario)


def test_an_answer_ends_with_the_batch_that_passes_its_size() -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        for value in "abcd":
            await put(broker, value * 1_000)
        assert await acquire(broker, bytes_max=1_500) == [(0, 1, 1)]
        assert await acquire(broker, memory=Memory(1_500)) == [(2, 3, 1)]

    lives(scenario)


def test_what_has_no_room_in_an_answer_is_not_counted_as_delivered() -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        for value in "abcd":
            await put(broker, value * 1_000)
        assert await acquire(broker) == [(0, 3, 1)]
        await answer(broker, 0, 3, RELEASE)
        for left in range(4):  # each is in a batch of its own, and one batch has room
            assert await acquire(broker, bytes_max=500) == [(left, left, 2)]
            await answer(broker, left, left, ACCEPT)
        assert await acquire(broker) == []
        assert broker.topics.find("t.dlq") is None, "nothing was given up"

    lives(scenario)


def test_ranges_last_over_a_restart() -> None:
    async def first(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        await put(broker, *"abcdefgh")
        assert await acquire(broker) == [(0, 7, 1)]
        await answer(broker, 2, 5, ACCEPT)

    async def second(broker: Broker, _: VirtualLoop) -> None:
        assert broker.leasing.in_flight("g", "m") == 4
        await answer(broker, 6, 7, ACCEPT)
        assert await acquire(broker) == []
        assert await acquire(broker, wait_ms=60_000) == [(0, 1, 2)], "the lock ended"

    lives(first, second)


@pytest.mark.parametrize("config", [{"queue.order": "key"}, {"trace": "1"}])
def test_where_messages_are_looked_at_they_come_one_by_one(config: dict[str, str]) -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        await put(broker, *"abc")
        assert await acquire(broker) == [(0, 2, 1)]
        held = broker.deliveries.of("g")[0].snapshot().lanes[0]
        assert (len(held.held), len(held.lent)) == (3, 0)

    lives(scenario, config=config)


def test_a_batch_that_nobody_touched_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        await put(broker, *("x" * 100 for _ in range(400)))
        monkeypatch.setattr("goqueue.drive.batch_cache.read", lambda _: pytest.fail("decoded"))
        assert await acquire(broker) == [(0, 399, 1)]
        await answer(broker, 0, 399, ACCEPT)
        assert await acquire(broker) == []

    assert lending._READ_BYTES > 400 * 100
    lives(scenario)


def test_a_new_group_begins_with_what_is_not_older() -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await broker.groups.configure("g", {"share.auto.offset.reset": "by_duration:PT10S"})
        await put(broker, "old")
        await asyncio.sleep(30)
        await put(broker, "young")
        await asyncio.sleep(5)
        assert await acquire(broker) == [(1, 1, 1)]
        await answer(broker, 1, 1, ACCEPT)
        await asyncio.sleep(60)
        await put(broker, "later")
        assert await acquire(broker) == [(2, 2, 1)], "only a new group looks at the time"

    lives(scenario)


def test_a_group_that_begins_by_time_begins_at_the_end_where_nothing_is_young() -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await broker.groups.configure("g", {"share.auto.offset.reset": "BY_DURATION:pt1s"})
        await put(broker, "old")
        await asyncio.sleep(30)
        assert await acquire(broker) == []
        await put(broker, "young")
        assert await acquire(broker) == [(1, 1, 1)]

    lives(scenario)


@pytest.mark.parametrize("text", ["by_duration", "by_duration:", "by_duration:P", "by_duration:1h", "soon"])
def test_where_a_group_begins_is_one_of_three(text: str) -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        with pytest.raises(InvalidConfig):
            await broker.groups.configure("g", {"share.auto.offset.reset": text})

    lives(scenario)


def test_a_group_keeps_the_order_of_keys_though_its_topic_does_not() -> None:
    async def scenario(broker: Broker, _: VirtualLoop) -> None:
        await begin(broker)
        await broker.groups.configure("g", {"queue.order": "key"})
        await put(broker, "a1", "a2", key="a")
        await put(broker, "b1", key="b")
        await put(broker, "a3", key="a")
        assert await acquire(broker, limit=1) == [(0, 0, 1)]
        others = await take(broker)
        assert [one.stored.value for one in others] == [b"b1"], "the key a is with the share consumer"
        everybody = await take(broker, group="h")
        assert len(everybody) == 4, "another group takes as the topic says"
        await answer(broker, 0, 0, ACCEPT)
        assert [one.stored.value for one in await take(broker)] == [b"a2", b"a3"]

    lives(scenario)

"""The host, with a small machine of its own: counters that can be raised, waited for, and that lapse with time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import pytest

from goqueue.base.errors import DiskFull, InvalidField, NotLoaded, ShuttingDown, StorageFailed
from goqueue.base.ids import Millis, Offset
from goqueue.broker import Broker
from goqueue.core.machine import ASKER, Decision, Reply
from goqueue.drive.host import Host
from goqueue.drive.host_parts import Checkpoint, Codec, Sink
from goqueue.drive.partition import Partition
from goqueue.format.records import Record as Stored
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, settings

T = TypeVar("T")


class Raised(msgspec.Struct, frozen=True):
    """The counter stands at `total`; it lapses at `until_ms`, if that is not 0."""

    name: str
    total: int
    until_ms: Millis = 0


class Counters:
    """Durable: totals and when they lapse. Volatile: who waits for a total."""

    def __init__(self, off_loop: Callable[[], bool] = lambda: True) -> None:
        self.totals: dict[str, Raised] = {}
        self.offsets: list[Offset] = []
        self.waiting: dict[str, list[tuple[int, int]]] = {}
        self.reverted: list[Raised] = []
        self.is_loaded = False
        self._off_loop = off_loop

    def apply(self, record: Raised, offset: Offset) -> None:
        assert self.is_loaded or self._off_loop(), "records are read off the loop"
        self.totals[record.name] = record
        self.offsets.append(offset)

    def loaded(self, now: Millis) -> Decision[Raised]:
        self.is_loaded = True
        return Decision()

    def revert(self, records: Sequence[Raised], now: Millis) -> Sequence[int]:
        self.reverted += records
        return [ticket for one in records for ticket, _ in self.waiting.pop(one.name, [])]

    def next_deadline(self) -> Millis | None:
        return min((one.until_ms for one in self.totals.values() if one.until_ms), default=None)

    def tick(self, now: Millis) -> Decision[Raised]:
        return Decision([Raised(name, 0) for name, one in self.totals.items() if 0 < one.until_ms <= now])

    def shift(self, by_ms: Millis, now: Millis) -> Decision[Raised]:
        return Decision([Raised(one.name, one.total, one.until_ms + by_ms) for one in self.totals.values()])

    def snapshot(self) -> Iterator[Raised]:
        for name in list(self.totals):
            yield self.totals[name]

    def total(self, name: str) -> int:
        return self.totals[name].total if name in self.totals else 0

    def add(self, ticket: int, name: str, by: int = 1, until_ms: Millis = 0, effects: Sequence[str] = ()) -> Any:
        if by <= 0:
            raise InvalidField("A counter only grows.", field="by")
        total = self.total(name) + by
        waiting = self.waiting.pop(name, [])
        told = [Reply(who, total) for who, wanted in waiting if wanted <= total]
        self.waiting[name] = [one for one in waiting if one[1] > total]
        return Decision([Raised(name, total, until_ms)], [Reply(ticket, total), *told], list(effects))

    def wait(self, ticket: int, name: str, wanted: int) -> Decision[Raised]:
        if self.total(name) >= wanted:
            return Decision(replies=[Reply(ASKER, self.total(name))])
        self.waiting.setdefault(name, []).append((ticket, wanted))
        return Decision()


class Heard(Sink[Counters, Raised]):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.performed = asyncio.Event()

    def loaded(self, machine: Counters) -> None:
        self.events.append("loaded")

    def written(self, machine: Counters, records: Sequence[Raised], now: Millis) -> None:
        self.events += [f"{one.name}={one.total}" for one in records]

    def perform(self, effect: Any) -> Awaitable[None] | None:
        if effect not in self.gates:
            self._done(effect)
            return None
        return self._behind(effect)

    async def _behind(self, effect: str) -> None:
        await self.gates[effect].wait()
        self._done(effect)

    def _done(self, effect: str) -> None:
        self.events.append(f"did {effect}")
        self.performed.set()


class World:
    """A host on a partition of a broker's topic."""

    def __init__(self, broker: Broker, disk: SimDisk, partition: Partition, every_bytes: int) -> None:
        self.broker, self.disk, self.partition = broker, disk, partition
        self.heard = Heard()
        self.dropped: list[Offset] = []
        self._depth = 0
        self.reads_wait = asyncio.Event()
        self.reads_wait.set()
        codec = Codec("counters", lambda record, offset: (b"%d" % offset, msgspec.json.encode(record), ()), _decode)
        self.host: Host[Counters, Raised] = Host(
            lambda: Counters(lambda: self._depth > 0),
            codec,
            self.heard,
            broker.clock,
            self._offload,
            Checkpoint(every_bytes, Counters.snapshot, self._drop_head) if every_bytes else None,
        )

    async def _offload(self, work: Callable[[], T]) -> T:
        await self.reads_wait.wait()
        self._depth += 1
        try:
            return work()
        finally:
            self._depth -= 1

    async def _drop_head(self, partition: Partition, offset: Offset) -> None:
        self.dropped.append(offset)
        partition.log.roll()
        await self.broker.flusher.seal(partition)
        await self.broker.cleaner.drop_head(partition, offset)

    def add(self, name: str, by: int = 1, until_ms: Millis = 0, effects: Sequence[str] = ()) -> Any:
        return self.host.ask(lambda machine, ticket, now: machine.add(ticket, name, by, until_ms, effects))

    def wait(self, name: str, wanted: int) -> Any:
        return self.host.ask(lambda machine, ticket, now: machine.wait(ticket, name, wanted))

    def fill_disk(self) -> None:
        self.disk.full_at = self.disk.space_calls


def _decode(stored: Stored) -> Raised | None:
    assert stored.key == b"%d" % stored.offset, "the codec is told where a record will stand"
    return msgspec.json.decode(stored.value or b"", type=Raised)


@asynccontextmanager
async def world(loop: VirtualLoop, fsync: str = "interval", every_bytes: int = 0) -> AsyncIterator[World]:
    disk = SimDisk()
    async with broker_on(disk, loop, settings(fsync=fsync, disk_used_percent_max=100)) as broker:
        await broker.topics.create("t", 1, {})
        topic = broker.table.get("t")
        assert topic is not None
        made = World(broker, disk, topic.partitions[0], every_bytes)
        await made.host.load(made.partition)
        yield made
        await made.host.stop()


def run(scenario: Callable[[World], Awaitable[None]], fsync: str = "interval", every_bytes: int = 0) -> None:
    async def main(loop: VirtualLoop) -> None:
        async with world(loop, fsync, every_bytes) as made:
            await scenario(made)

    run_virtually(main)


def test_a_decision_is_applied_and_answered_at_once_where_the_log_is_durable() -> None:
    async def scenario(it: World) -> None:
        assert it.add("a") == 1
        assert it.add("a", 2) == 3
        assert it.host.machine.total("a") == 3
        assert it.host.machine.offsets == [0, 1], "apply is told where the record stands"
        assert it.heard.events == ["loaded", "a=1", "a=3"]

    run(scenario)


def test_what_a_question_raises_is_raised_and_writes_nothing() -> None:
    async def scenario(it: World) -> None:
        with pytest.raises(InvalidField):
            it.add("a", 0)
        assert it.partition.log.end_offset == 0

    run(scenario)


def test_replies_are_held_back_until_the_records_are_durable() -> None:
    async def scenario(it: World) -> None:
        waiting = it.wait("a", 1)
        asked = it.add("a")
        assert it.host.machine.total("a") == 1, "it is applied at once"
        assert isinstance(asked, asyncio.Future) and not asked.done() and not waiting.done()
        assert not it.host.is_durable
        assert await asked == 1
        assert it.partition.log.synced_offset == 1
        assert await waiting == 1
        await it.host.wait_durable()

    run(scenario, fsync="always")


def test_an_answer_that_changes_nothing_waits_for_the_records_that_it_rests_on() -> None:
    """They may be lost with their leader: whoever was told of them would be wrong."""

    async def scenario(it: World) -> None:
        asked = it.add("a")
        again = it.wait("a", 1)
        assert not it.host.is_durable and isinstance(again, asyncio.Future) and not again.done()
        assert (await asked, await again) == (1, 1)
        assert it.partition.log.synced_offset == 1
        assert it.wait("a", 1) == 1, "at once when all is durable"

    run(scenario, fsync="always")


def test_effects_are_performed_in_order_and_only_when_durable() -> None:
    async def scenario(it: World) -> None:
        it.heard.gates["second"] = asyncio.Event()
        asked = it.add("a", effects=["first", "second", "third"])
        assert it.heard.events == ["loaded", "a=1"]
        await asked
        await it.heard.performed.wait()
        assert it.heard.events[2:] == ["did first"], "the third waits for the second"
        it.add("b", effects=["other"])
        await asyncio.sleep(1)
        assert it.heard.events[2:] == ["did first", "b=1", "did other"], "another decision does not wait for it"
        it.heard.gates["second"].set()
        await asyncio.sleep(1)
        assert it.heard.events[-2:] == ["did second", "did third"]

    run(scenario, fsync="always")


def test_perform_returns_when_the_effects_are_done() -> None:
    async def scenario(it: World) -> None:
        gate = it.heard.gates["slow"] = asyncio.Event()
        work = asyncio.ensure_future(it.host.perform(Decision([Raised("a", 5)], effects=["slow", "last"])))
        await asyncio.sleep(1)
        assert not work.done() and it.host.machine.total("a") == 5
        gate.set()
        await work
        assert it.heard.events[-2:] == ["did slow", "did last"]

    run(scenario)


def test_an_append_that_is_refused_changes_nothing_and_is_told_to_all_whom_it_concerns() -> None:
    async def scenario(it: World) -> None:
        it.add("a", 2)
        waiting, other = it.wait("a", 5), it.wait("b", 1)
        machine, epoch = it.host.machine, it.host.epoch
        it.fill_disk()
        assert isinstance(it.add("a", 3, effects=["never"]), DiskFull)
        assert isinstance(waiting.result(), DiskFull), "it was taken out of the line, and has to ask again"
        assert not other.done(), "others wait on"
        assert it.host.machine is machine and it.host.epoch == epoch, "nothing is read again"
        assert machine.reverted == [Raised("a", 5)] and machine.total("a") == 2
        with pytest.raises(DiskFull):
            it.host.write([Raised("a", 9)])
        with pytest.raises(DiskFull):
            await it.host.call(lambda machine, ticket, now: machine.add(ticket, "a"))
        it.disk.free_space()
        assert it.add("b", 1) == 1 and other.result() == 1
        assert it.add("a", 3) == 5
        assert it.heard.events == ["loaded", "a=2", "b=1", "a=5"]

    run(scenario)


def test_after_a_sync_that_failed_the_host_loads_again_off_the_loop_and_by_itself() -> None:
    async def scenario(it: World) -> None:
        await it.add("a", 2)
        waiting = it.wait("b", 1)
        before, epoch = it.host.machine, it.host.epoch
        it.disk.fails_sync = True
        it.reads_wait.clear()
        asked, more = it.add("a", 3, effects=["never"]), it.add("c")
        assert isinstance(await asked, StorageFailed)
        assert isinstance(waiting.result(), StorageFailed) and isinstance(more.result(), StorageFailed)
        assert not it.host.is_loaded
        for attempt in (lambda: it.add("a"), lambda: it.host.machine, lambda: it.host.write([Raised("a", 1)])):
            with pytest.raises(NotLoaded, match="counters"):
                attempt()
        it.host.tell(lambda machine, now: pytest.fail("nobody is there to be told"))
        it.host.look_again()
        it.reads_wait.set()
        await asyncio.sleep(1)
        assert it.host.machine is not before and it.host.epoch == epoch + 1
        assert it.heard.events.count("loaded") == 2 and "did never" not in it.heard.events
        assert it.host.machine.total("a") in (2, 5), "what is on the disk"

    run(scenario, fsync="always")


def test_a_load_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(it: World) -> None:
        await it.add("a", 2)
        it.disk.fails_sync = True
        fails = [OSError("not now"), OSError("not now")]
        batches = type(it.partition.log).batches

        def read(log: Any, start: Offset) -> Any:
            if fails:
                raise fails.pop()
            return batches(log, start)

        monkeypatch.setattr(type(it.partition.log), "batches", read)
        assert isinstance(await it.add("a"), StorageFailed)
        await asyncio.sleep(0.5)
        assert not it.host.is_loaded
        await asyncio.sleep(2)
        assert not fails and it.host.machine.total("a") >= 2

    run(scenario, fsync="always")


def test_a_new_load_comes_to_the_same_state() -> None:
    async def scenario(it: World) -> None:
        for by in range(1, 6):
            it.add("a", by)
            it.add("b", 1)
        totals = it.host.machine.totals
        waiting = it.wait("a", 99)
        it.host.unload()
        assert isinstance(waiting.result(), NotLoaded), "everybody who waits is told to ask again"
        assert await it.host.load(it.partition) == 10
        assert it.host.machine.totals == totals and it.host.machine.offsets == list(range(10))

    run(scenario)


def test_a_decision_of_an_earlier_epoch_is_refused() -> None:
    async def scenario(it: World) -> None:
        epoch = it.host.epoch
        it.host.write([Raised("a", 1)], epoch)
        it.host.unload()
        await it.host.load(it.partition)
        for decision in (Decision([Raised("a", 2)]), Decision[Raised](effects=["never"])):
            with pytest.raises(NotLoaded):
                it.host.commit(decision, epoch)
        assert it.host.machine.total("a") == 1 and it.partition.log.end_offset == 1
        it.host.commit(Decision([Raised("a", 2)]), it.host.epoch)
        assert it.host.machine.total("a") == 2

    run(scenario)


def test_durability_that_was_waited_for_in_an_earlier_epoch_is_not_promised() -> None:
    async def scenario(it: World) -> None:
        asked = it.add("a", effects=["never"])
        durable = asyncio.ensure_future(it.host.wait_durable())
        await asyncio.sleep(0)
        it.host.unload()
        assert isinstance(await asked, NotLoaded)
        with pytest.raises(NotLoaded):
            await durable
        await it.host.load(it.partition)
        assert it.heard.events == ["loaded", "a=1", "loaded"]

    run(scenario, fsync="always")


def test_one_timer_serves_every_deadline() -> None:
    async def scenario(it: World) -> None:
        now = it.broker.clock.now_ms()
        it.add("late", until_ms=now + 60_000)
        it.add("soon", until_ms=now + 10_000)
        await asyncio.sleep(9.9)
        assert it.host.machine.total("soon") == 1
        await asyncio.sleep(0.2)
        assert (it.host.machine.total("soon"), it.host.machine.total("late")) == (0, 1)
        await asyncio.sleep(50)
        assert it.host.machine.total("late") == 0

    run(scenario)


def test_time_is_kept_again_a_while_after_an_append_was_refused() -> None:
    async def scenario(it: World) -> None:
        it.add("a", until_ms=it.broker.clock.now_ms() + 1_000)
        it.fill_disk()
        calls = it.disk.space_calls
        await asyncio.sleep(5)
        assert it.host.machine.total("a") == 1
        assert 2 <= len(it.host.machine.reverted) <= 6, "about once a second, not without a pause"
        assert it.disk.space_calls > calls
        it.disk.free_space()
        await asyncio.sleep(2)
        assert it.host.machine.total("a") == 0

    run(scenario)


def test_deadlines_follow_the_clock_when_it_is_set() -> None:
    async def scenario(it: World) -> None:
        it.add("a", until_ms=it.broker.clock.now_ms() + 10_000)
        it.host.clock_moved(3_600_000)
        assert it.host.machine.totals["a"].until_ms == it.broker.clock.now_ms() + 3_610_000
        await asyncio.sleep(20)
        assert it.host.machine.total("a") == 1

    run(scenario)


def test_look_again_ticks_what_is_due() -> None:
    async def scenario(it: World) -> None:
        it.add("a", until_ms=it.broker.clock.now_ms() + 10_000)
        it.broker.clock.follow(10_000)
        it.host.look_again()
        assert it.host.machine.total("a") == 0

    run(scenario)


def test_a_log_that_ends_after_now_moves_the_deadlines_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shifts: list[Millis] = []

    def note(machine: Counters, by_ms: Millis, now: Millis) -> Decision[Raised]:
        shifts.append(by_ms)
        return Decision()

    async def scenario(it: World) -> None:
        it.add("a", until_ms=it.broker.clock.now_ms() + 10_000)
        it.host.unload()
        it.broker.clock.follow(-3_600_000)
        await it.host.load(it.partition)
        assert shifts == [-3_600_000]

    monkeypatch.setattr(Counters, "shift", note)
    run(scenario)


def test_a_checkpoint_writes_the_machine_whole_and_drops_the_head() -> None:
    async def scenario(it: World) -> None:
        for number in range(300):
            it.add(f"c{number}")
        while not it.dropped:
            it.add("busy")
            await asyncio.sleep(0)
        await asyncio.sleep(1)
        (first,) = it.dropped
        assert it.partition.log.start_offset == first > 0
        totals = it.host.machine.totals
        it.host.unload()
        await it.host.load(it.partition)
        assert it.host.machine.totals == totals, "what stood before the checkpoint is not needed"

    run(scenario, every_bytes=60_000)


def test_a_checkpoint_that_is_refused_leaves_the_log_as_it_is() -> None:
    async def scenario(it: World) -> None:
        it.add("a")
        it.fill_disk()
        it.host.clock_moved(0)
        await asyncio.sleep(1)
        assert it.dropped == [] and it.partition.log.start_offset == 0
        it.disk.free_space()
        it.host.clock_moved(0)
        await asyncio.sleep(1)
        assert len(it.dropped) == 1, "the next one works"

    run(scenario, every_bytes=1 << 20)


def test_a_stop_tells_everybody_who_waits() -> None:
    async def scenario(it: World) -> None:
        waiting = it.wait("a", 1)
        it.host.stop_waiting()
        assert isinstance(waiting.result(), ShuttingDown)
        assert it.add("b", until_ms=it.broker.clock.now_ms() + 10) == 1, "what must be written still is"
        await asyncio.sleep(1)
        assert it.host.machine.total("b") == 1, "but time stands still"

    run(scenario)


def test_replies_that_need_no_record_are_handed_out_at_once_whatever_becomes_of_the_records() -> None:
    async def scenario(it: World) -> None:
        waiting = it.wait("a", 5)
        ticket = it.host.machine.waiting["a"][0][0]
        it.fill_disk()
        news = Decision([Raised("b", 1)], at_once=[Reply(ticket, 7)])
        assert not it.host.tell(lambda machine, now: news)
        assert waiting.done() and waiting.result() == 7
        assert it.host.machine.reverted == [Raised("b", 1)]

    run(scenario)

"""A node dies at any point of an owner's life: every batch is there whole or not at all, its number goes with it, the
query that comes back neither loses nor repeats a batch, and no reader is held back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from goqueue.base.settings import Settings, TransactionSettings
from goqueue.broker import Broker
from goqueue.core.txn.errors import StagedConflict
from goqueue.core.txn.records import Record, TxnOwner
from goqueue.drive.coordinators import TRANSACTIONS_CODEC, TransactionHost
from goqueue.drive.host import Host
from goqueue.sim.disk import CrashMode, SimDisk
from tests.cuts import CUT_STEP, first_cut, run_until_cut, steps_of
from tests.long import LONG
from tests.service.brokers import publish, settings
from tests.txn.lives import Watch
from tests.txn.staged.world import OWNER, Writer, commit, last_batch, seen, stage, stuck, tell

TOPICS = ("a", "b")
TIMEOUT_S = 2
SHORT = TransactionSettings(staged_timeout_ms=TIMEOUT_S * 1000)


def chosen_with(transactions: TransactionSettings = SHORT, **log: object) -> Settings:
    return msgspec.structs.replace(settings(**log), transactions=transactions)


class Ledger:
    """A query: what it tried for each batch, and what it heard."""

    def __init__(self) -> None:
        self.tried: dict[int, list[frozenset[str]]] = {}  # the whole contents of every commit that was asked for
        self.heard: dict[int, str] = {}
        self._runs = 0

    async def fill(self, broker: Broker, batch: int, attempt: int = 0) -> tuple[list[Writer], frozenset[str]]:
        """Two writers into three partitions of two topics, and a loser beside them."""
        self._runs += 1
        writers: list[Writer] = []
        values: set[str] = set()
        for number in range(2):
            one = await stage(broker, batch, f"{number}", attempt)
            for topic, partition in (("a", number), ("b", 0)):
                value = f"{batch}:{self._runs}.{number}.{topic}{partition}"
                await one.write(topic, partition, value)
                values.add(value)
            writers.append(one)
        loser = await stage(broker, batch, "1", attempt + 1)
        await loser.write("a", 0, f"{batch}:{self._runs}.loser")
        return writers, frozenset(values)

    async def commit(self, broker: Broker, batch: int, writers: list[Writer], values: frozenset[str]) -> None:
        self.tried.setdefault(batch, []).append(values)
        ended = await commit(broker, batch, *writers)
        assert ended.outcome == ("already" if batch in self.heard else "committed")
        self.heard[batch] = ended.outcome

    async def whole(self, broker: Broker, batch: int) -> None:
        await self.commit(broker, batch, *await self.fill(broker, batch))

    async def go_on(self, broker: Broker) -> None:
        """What a query does that does not know whether its last batch was committed."""
        batch, last = max(self.tried, default=0), last_batch(broker)
        writers, values = await self.fill(broker, batch)
        self.tried.setdefault(batch, []).append(values)
        ended = await commit(broker, batch, *writers)
        assert (ended.outcome == "already") == (last is not None and batch <= last)
        self.check(await seen(broker, *TOPICS), last_batch(broker))

    def check(self, found: Counter[str], last: int | None) -> None:
        """Each batch is one of what was tried for it, or nothing; its number says which."""
        assert all(count == 1 for count in found.values()), "twice"
        for batch, tried in self.tried.items():
            there = frozenset(value for value in found if value.startswith(f"{batch}:"))
            is_committed = last is not None and batch <= last
            assert there in tried if is_committed else not there, f"batch {batch} and its number part, or it is torn"
        assert {int(value.partition(":")[0]) for value in found} <= self.tried.keys(), "never asked for"
        assert max(self.heard, default=-1) <= (-1 if last is None else last), "an answer was forgotten"


Script = Callable[[Broker, Ledger], Awaitable[None]]


async def begins(broker: Broker, ledger: Ledger) -> tuple[list[Writer], frozenset[str]]:
    for topic, partitions in (("a", 2), ("b", 1)):
        await broker.topics.create(topic, partitions, {})
    return await ledger.fill(broker, 0)


async def a_life(broker: Broker, ledger: Ledger) -> None:
    """A commit, its repetition, and a batch that is begun twice."""
    writers, values = await begins(broker, ledger)
    await ledger.commit(broker, 0, writers, values)
    await ledger.commit(broker, 0, writers, values)
    await ledger.fill(broker, 1)
    await ledger.whole(broker, 1)  # the same ids again


async def a_long_life(broker: Broker, ledger: Ledger) -> None:
    """The same; then a batch that was committed comes again, an abort, nothing, and one that ran out of time."""
    await a_life(broker, ledger)
    await ledger.commit(broker, 1, *await ledger.fill(broker, 1, attempt=2))
    await ledger.fill(broker, 2)
    await broker.staged.abort(OWNER, 2)
    await ledger.whole(broker, 2)
    await ledger.commit(broker, 3, [], frozenset())
    await ledger.fill(broker, 4)
    await asyncio.sleep(TIMEOUT_S + 1)
    await ledger.whole(broker, 4)


def check_after(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    """The query comes back and goes on where it was; or it never does, and time frees the readers."""

    async def comes_back(broker: Broker) -> None:
        if any(broker.topics.find(topic) is None for topic in TOPICS):
            assert not ledger.heard
            return
        await ledger.go_on(broker)
        assert stuck(broker, TOPICS) == [] and broker.transactions.open() == []

    async def stays_away(broker: Broker) -> None:
        await asyncio.sleep(TIMEOUT_S + 1)
        if all(broker.topics.find(topic) is not None for topic in TOPICS):
            ledger.check(await seen(broker, *TOPICS), last_batch(broker))
            assert stuck(broker, TOPICS) == [] and broker.transactions.open() == []

    other = disk.crash("kept")
    tell(stays_away, other, chosen, at_s=60)
    tell(comes_back, disk, chosen, at_s=60)
    tell(stays_away, disk, chosen, at_s=120)


# --- deaths ----------------------------------------------------------------------------------------------------


def die_after_record(number: int, patch: pytest.MonkeyPatch) -> tuple[SimDisk, Ledger, str | None]:
    """Lives until the coordinator's record of that number is in its log; answers with its kind, None at the end."""
    disk, ledger, written, kind = SimDisk(), Ledger(), 0, ""
    careful = Host.write

    def write(self: TransactionHost, records: Sequence[Record], epoch: int | None = None) -> int:
        nonlocal written, kind
        first = careful(self, records, epoch)
        if self._codec is TRANSACTIONS_CODEC:
            if written == number:
                disk.crash_at = disk.steps
                kind = "owner" if isinstance(records[0], TxnOwner) else str(getattr(records[0], "stage", "gone"))
            written += 1
        return first

    with patch.context() as patched:
        patched.setattr(Host, "write", write)
        was_cut = run_until_cut(disk, chosen_with(fsync_interval_ms=100), a_long_life, ledger)
    return disk, ledger, kind if was_cut else None


def die_after_each_record(patch: pytest.MonkeyPatch) -> Counter[str]:
    kinds: Counter[str] = Counter()
    while True:
        disk, ledger, kind = die_after_record(kinds.total(), patch)
        if kind is None:
            return kinds
        try:
            check_after(disk.crash("kept"), chosen_with(fsync_interval_ms=100), ledger)
        except BaseException:
            print(f"after record {kinds.total()}, {kind}")
            raise
        kinds[kind] += 1


def test_a_death_after_each_record_of_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = die_after_each_record(monkeypatch)
    assert kinds["owner"] == 5, "one decision for each batch"
    assert {"Ongoing", "PrepareAbort", "CompleteCommit", "CompleteAbort"} < kinds.keys()


def cut_everywhere(
    chosen: Settings, mode: CrashMode, a_life: Script = a_life, first: int = 0, step: int = CUT_STEP
) -> int:
    crash_at = first + first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, a_life, ledger):
            return crash_at
        try:
            check_after(disk.crash(mode, crash_at), chosen, ledger)
        except BaseException:
            print(f"crash_at={crash_at} mode={mode}")
            raise
        crash_at += step


@pytest.mark.parametrize(
    ("fsync", "mode"),
    [
        ("interval", "kept"),
        pytest.param("always", "dropped", marks=pytest.mark.slow),
        pytest.param("always", "torn", marks=pytest.mark.slow),
    ],
)
def test_a_cut_at_every_write(fsync: str, mode: CrashMode) -> None:
    assert cut_everywhere(chosen_with(fsync=fsync, fsync_interval_ms=100), mode) > 150


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dropped", "torn"])
def test_ends_that_wait_for_the_disk_where_nothing_else_does(mode: CrashMode) -> None:
    sync = msgspec.structs.replace(SHORT, sync="always")
    assert cut_everywhere(chosen_with(sync, fsync="interval", fsync_interval_ms=1_000), mode) > 150


# --- a driver that outlives the node ---------------------------------------------------------------------------


class Survivor(Ledger):
    """All of its batch was acknowledged before the power went; it commits it after the node is back."""

    def __init__(self, counts: bool = True) -> None:
        super().__init__()
        self.counts = counts
        self.ready: tuple[list[Writer], frozenset[str]] | None = None

    async def finish(self, broker: Broker) -> None:
        assert self.ready is not None
        writers, values = self.ready
        self.tried[0] = [values]
        named = [one.named if self.counts else msgspec.structs.replace(one.named, messages=None) for one in writers]
        try:
            await broker.staged.commit(OWNER, 0, named)
        except StagedConflict:
            assert not await seen(broker, *TOPICS)
            await self.whole(broker, 0)
        self.check(await seen(broker, *TOPICS), last_batch(broker))
        assert stuck(broker, TOPICS) == [] and broker.transactions.open() == []


async def stages_and_waits(broker: Broker, ledger: Survivor) -> None:
    await broker.topics.create("other", 1, {})
    for topic, partitions in (("a", 2), ("b", 1)):
        await broker.topics.create(topic, partitions, {})
    await broker.flusher.force()
    ledger.ready = await ledger.fill(broker, 0)
    for number in range(40):
        await publish(broker, "other", f"{number}")
        await asyncio.sleep(0.1)


def survive_everywhere(mode: CrashMode, counts: bool = True) -> Counter[bool]:
    """Answers with how often the batch was found whole."""
    chosen = chosen_with(msgspec.structs.replace(SHORT, sync="always", staged_timeout_ms=3_600_000))
    whole: Counter[bool] = Counter()
    crash_at = first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Survivor(counts)
        if not run_until_cut(disk, chosen, stages_and_waits, ledger):
            return whole
        if ledger.ready is not None:
            tell(ledger.finish, disk.crash(mode, crash_at), chosen, at_s=60)
            whole[ledger.heard.get(0) is None] += 1
        crash_at += CUT_STEP


@pytest.mark.parametrize("mode", ["dropped", "torn"])
def test_what_a_power_cut_took_of_a_staged_batch_is_not_committed_without_it(mode: CrashMode) -> None:
    whole = survive_everywhere(mode)
    assert whole[True] > (20 if LONG else 8) and whole[False] > (5 if LONG else 1)


def test_who_does_not_say_how_many_messages_there_were_does_not_notice() -> None:
    with pytest.raises(AssertionError):
        survive_everywhere("torn", counts=False)


# --- planted bugs ----------------------------------------------------------------------------------------------


def written_in_parts(patch: pytest.MonkeyPatch, parts: Callable[[Sequence[Record]], list[list[Record]]]) -> None:
    """What belongs together is written so, batch by batch."""
    careful = Host.write

    def careless(self: TransactionHost, records: Sequence[Record], epoch: int | None = None) -> int:
        wanted = parts(records) if self._codec is TRANSACTIONS_CODEC else [list(records)]
        return min((careful(self, part, epoch) for part in wanted if part), default=0)

    patch.setattr(Host, "write", careless)


def owners_in(records: Sequence[Record]) -> list[Record]:
    return [one for one in records if isinstance(one, TxnOwner)]


def others_in(records: Sequence[Record]) -> list[Record]:
    return [one for one in records if not isinstance(one, TxnOwner)]


def no_record_of_the_owner(patch: pytest.MonkeyPatch) -> None:
    written_in_parts(patch, lambda records: [others_in(records)])


def the_owner_is_written_after_the_decision(patch: pytest.MonkeyPatch) -> None:
    written_in_parts(patch, lambda records: [others_in(records), owners_in(records)])


def the_owner_is_written_before_the_decision(patch: pytest.MonkeyPatch) -> None:
    written_in_parts(patch, lambda records: [owners_in(records), others_in(records)])


def each_writer_is_decided_alone(patch: pytest.MonkeyPatch) -> None:
    written_in_parts(patch, lambda records: [[record] for record in records])


@pytest.mark.parametrize(
    "plant",
    [
        no_record_of_the_owner,
        the_owner_is_written_after_the_decision,
        the_owner_is_written_before_the_decision,
        each_writer_is_decided_alone,
    ],
)
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, watched_lives: Watch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    chosen = chosen_with(fsync="interval", fsync_interval_ms=100)
    first = steps_of(chosen, lambda broker: begins(broker, Ledger()))
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        cut_everywhere(chosen, "kept", first=first, step=1)
    watched_lives.forget()

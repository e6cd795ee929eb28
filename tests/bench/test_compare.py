"""The comparison catches cheats, takes turns, and tells losses."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.compare import log_load, stream_load
from bench.compare.__main__ import arguments, finish, go_on, keep
from bench.compare.bodies import Ledger, body, number_of
from bench.compare.guard import accept, losses, not_measured, read
from bench.compare.harness import Outcome, Result, compare, settled
from bench.compare.model import OURS, QUICK, CheckFailed, Metric, Running, Sample, Scenario, System, Turn
from bench.compare.results import HOW, LEFT_OUT, Machine, Report, drawing, durations, page, rows
from bench.peers.client import Taken
from bench.peers.server import PeerMissing

MESSAGES = 1_000_000
SPEED = Metric("speed", "speed", "msg/s")
FAST = msgspec.structs.replace(QUICK, rounds=2)


# --- what comes back is checked ------------------------------------------------------------------------------------


def test_one_message_of_a_million_that_is_dropped_is_found() -> None:
    ledger = Ledger(0, MESSAGES)
    ledger.note(number for number in range(MESSAGES) if number != 654_321)
    with pytest.raises(CheckFailed, match="1 messages never came, 654321 the first"):
        ledger.close()


def test_a_message_that_comes_twice_or_was_never_sent_is_found() -> None:
    ledger = Ledger(10, 5)
    ledger.note([11])
    with pytest.raises(CheckFailed, match="twice"):
        ledger.note([11])
    with pytest.raises(CheckFailed, match="never sent"):
        ledger.note([15])


@pytest.mark.parametrize("damaged", [body(7)[:-1], body(7) + b"x", b"", body(7).replace(b"7", b"8", 1), b"\xff" * 100])
def test_a_message_that_comes_back_damaged_is_found(damaged: bytes) -> None:
    assert number_of(body(7)) == 7
    with pytest.raises(CheckFailed, match="damaged"):
        number_of(damaged)


# --- the load's clock is its own -----------------------------------------------------------------------------------


class Wire:
    """A broker in this process, which cheats as it is told."""

    def __init__(
        self, acks_early: bool = False, stands_still_s: float = 0.0, dropped: int = -1, ends_after_crash: int = 0
    ) -> None:
        self.acks_early = acks_early
        self.stands_still_s = stands_still_s
        self.dropped = dropped
        self.ends_after_crash = ends_after_crash  # of each partition
        self.log: deque[bytes] = deque()


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


class FakeProducer:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sent = 0

    def produce_batch(self, topic: str, messages: list[dict[str, bytes]]) -> int:
        self._wire.log += [one["value"] for one in messages if number_of(one["value"]) != self._wire.dropped]
        return len(messages)

    def produce(self, topic: str, value: bytes, on_delivery: Any) -> None:
        self._sent += 1
        if self._sent == 200 and self._wire.stands_still_s:
            _pause(self._wire.stands_still_s)  # and then says that each took no time
        on_delivery(None, None)
        if self._wire.acks_early:
            threading.Timer(6.0, self._wire.log.append, (value,)).start()
        else:
            self._wire.log.append(value)

    def poll(self, seconds: float) -> int:
        _pause(seconds)
        return 0

    def flush(self, seconds: float) -> int:
        return 0

    def __len__(self) -> int:
        return 0


class FakeMessage:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def value(self) -> bytes:
        return self._value

    def error(self) -> None:
        return None


class FakeConsumer:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def assign(self, places: object) -> None: ...

    def poll(self, seconds: float) -> FakeMessage | None:
        try:
            return FakeMessage(self._wire.log.popleft())
        except IndexError:
            _pause(0.0002)
            return None

    def consume(self, count: int, seconds: float) -> list[FakeMessage]:
        taken = [self._wire.log.popleft() for _ in range(min(count, len(self._wire.log)))]
        if not taken:
            _pause(0.01)
        return [FakeMessage(one) for one in taken]

    def get_watermark_offsets(self, place: object, seconds: float) -> tuple[int, int]:
        return 0, self._wire.ends_after_crash

    def close(self) -> None: ...


def with_clients_of(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> None:
    monkeypatch.setattr(log_load, "Producer", lambda _: FakeProducer(wire))
    monkeypatch.setattr(log_load, "Consumer", lambda _: FakeConsumer(wire))


def measured(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> dict[str, float]:
    with_clients_of(monkeypatch, wire)
    return log_load.latency("nowhere", "t", 100, 2)


def test_a_system_that_is_measured_from_its_own_queue_is_found_by_the_time_each_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stood still for half a second and answered each at once afterwards: fifty that were due meanwhile show it."""
    found = measured(monkeypatch, Wire(stands_still_s=0.5))
    assert found["ack-p99"] > 300


def test_a_system_that_acknowledges_what_is_not_there_yet_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match="after it was acknowledged"):
        measured(monkeypatch, Wire(acks_early=True))


def test_a_log_that_drops_one_message_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_load, "_WAIT_S", 1.0)
    with_clients_of(monkeypatch, Wire())
    assert log_load.throughput("nowhere", "t", 10_000, 100)["consume"] > 0
    with_clients_of(monkeypatch, Wire(dropped=6_543))
    with pytest.raises(CheckFailed, match="1 messages never came, 6543 the first"):
        log_load.throughput("nowhere", "t", 10_000, 100)


def test_a_log_that_loses_acknowledged_messages_in_a_crash_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    with_clients_of(monkeypatch, Wire(ends_after_crash=333))
    with pytest.raises(CheckFailed, match="1 acknowledged messages are gone after the crash"):
        log_load.recovered("nowhere", "t", 1_000, 100)


class FakeStream:
    """A stream in this process, which may drop one message or hand one out twice."""

    def __init__(self, dropped: int = -1, doubled: int = -1) -> None:
        self._dropped = dropped
        self._doubled = doubled
        self._log: list[bytes] = []
        self._read = 0

    async def create(self) -> None: ...

    async def publish(self, bodies: Sequence[bytes]) -> None:
        for one in bodies:
            number = number_of(one)
            self._log += [one] * ((number != self._dropped) + (number == self._doubled))

    async def reader(self) -> FakeStream:
        return self

    async def take(self, limit: int, wait_ms: int) -> list[Taken]:
        taken = self._log[self._read : self._read + limit]
        self._read += len(taken)
        return [(one, 0) for one in taken]

    async def ack(self, handles: object) -> None: ...

    async def close(self) -> None: ...


def test_a_stream_is_read_back_whole() -> None:
    found = asyncio.run(stream_load.throughput(FakeStream(), 20_000, 100))
    assert found["publish"] > 0 and found["consume"] > 0


@pytest.mark.parametrize(
    ("stream", "message"),
    [(FakeStream(dropped=7), "1 messages never came, 7"), (FakeStream(doubled=7), "7 came twice")],
)
def test_a_stream_that_drops_or_doubles_a_message_has_no_figure(
    monkeypatch: pytest.MonkeyPatch, stream: FakeStream, message: str
) -> None:
    monkeypatch.setattr(stream_load, "_WAIT_S", 3.0)
    with pytest.raises(CheckFailed, match=message):
        asyncio.run(stream_load.throughput(stream, 2_000, 100))


# --- rounds --------------------------------------------------------------------------------------------------------


def system(key: str, starts: list[str], missing: bool = False, breaks: bool = False) -> System:
    @contextmanager
    def start(root: Path) -> Iterator[Running]:
        if missing:
            raise PeerMissing("it is not installed")
        if breaks:
            raise RuntimeError("it did not start")
        starts.append(key)
        yield Running(rest=key)

    return System(key, key.title(), 1, frozenset({"kafka"}), "as it comes", start)


def test_a_system_that_does_not_start_has_no_figure_and_stops_nobody(tmp_path: Path) -> None:
    found = run(lambda running, turn: {"speed": 1.0}, [system(OURS, []), system("broken", [], breaks=True)], tmp_path)
    assert [(bool(one.samples), one.failed) for one in found.results] == [
        (True, ""),
        (False, "RuntimeError: it did not start"),
    ]


def run(measure: Any, systems: list[System], tmp_path: Path) -> Outcome:
    scenario = Scenario("s", "S", "kafka", (SPEED,), measure)
    (found,) = compare([scenario], systems, FAST, tmp_path, lambda _: None)
    return found


def test_systems_take_turns_and_the_first_round_does_not_count(tmp_path: Path) -> None:
    starts: list[str] = []
    order: list[str] = []

    def measure(running: Running, turn: Turn) -> Sample:
        order.append(running.rest)
        return {"speed": float(turn.number)}

    found = run(measure, [system(OURS, starts), system("peer", starts)], tmp_path)
    assert starts == [OURS, "peer"]
    assert order == ["peer", OURS, OURS, "peer", "peer", OURS]
    assert [one.samples for one in found.results] == [{"speed": [1.0, 2.0]}] * 2


def test_who_breaks_or_is_missing_has_no_figure_and_stops_nobody(tmp_path: Path) -> None:
    def measure(running: Running, turn: Turn) -> Sample:
        if running.rest == "cheat" and turn.number == 2:
            raise CheckFailed("message 7 came twice")
        if running.rest == "broken":
            raise RuntimeError("it fell over")
        return {"speed": 1.0}

    names = [OURS, "cheat", "broken", "gone"]
    found = run(measure, [system(one, [], one == "gone") for one in names], tmp_path)
    told = {one.system: (bool(one.samples), one.failed, one.absent) for one in found.results}
    assert told == {
        OURS: (True, "", ""),
        "cheat": (False, "message 7 came twice", ""),
        "broken": (False, "RuntimeError: it fell over", ""),
        "gone": (False, "", "it is not installed"),
    }


# --- what is shown -------------------------------------------------------------------------------------------------

LATE = Metric("late", "late by", "ms", False)
SCENARIO = Scenario("s", "Some scenario", "kafka", (SPEED, LATE))
SYSTEMS = [system(OURS, []), system("peer", [])]


def report(speed: float, late: float) -> Report:
    ours = Result(OURS, {"speed": [speed, speed, speed + 50], "late": [late]})
    peer = Result("peer", {"speed": [100.0], "late": [4.0]})
    machine = Machine("3.11", 2, "Linux", "no Java")
    return Report("today", "quick", machine, [Outcome("s", 1, [ours, peer, Result("gone", absent="not there")])])


def test_a_ratio_above_one_is_ahead_whichever_direction_is_better() -> None:
    found = {row.metric.key: row.ratio for row in rows(report(200.0, 2.0), [SCENARIO])}
    assert found == {"speed": 2.0, "late": 2.0}


def test_the_page_has_ratios_configurations_spread_and_who_is_absent() -> None:
    shown = report(50.0, 8.0)
    text = page(shown, [SCENARIO], [*SYSTEMS, system("gone", [])])
    assert "| Some scenario: speed | Peer | **0.50** |" in text
    assert "50.0 (50.0 to 100)" in text
    assert "- **Peer**: as it comes." in text
    assert "s, Gone: absent: not there" in text
    assert drawing(shown.outcomes[0], SPEED, SYSTEMS).count("<rect") == 2


def test_the_page_says_what_was_not_run_and_nothing_of_systems_that_were_not() -> None:
    other = Scenario("o", "Another scenario", "kafka", (SPEED,))
    text = page(report(50.0, 8.0), [SCENARIO, other], [*SYSTEMS, system("gone", []), system("elsewhere", [])])
    assert "## Not in this run" in text and "\n- Another scenario\n" in text
    assert "- **Gone**: as it comes." in text and "Elsewhere" not in text
    assert "Not in this run" not in page(report(50.0, 8.0), [SCENARIO], [*SYSTEMS, system("gone", [])])


def test_the_page_in_the_tree_says_what_a_new_one_would() -> None:
    text = (Path(__file__).parents[2] / "docs/comparison.md").read_text()
    assert HOW in text and text.endswith(f"{LEFT_OUT}\n")


def test_how_long_each_scenario_took_is_told_with_the_sum() -> None:
    shown = report(50.0, 8.0)
    shown.outcomes = [msgspec.structs.replace(shown.outcomes[0], seconds=took) for took in (61.0, 30.4)]
    told = [line.strip() for line in durations(shown).splitlines()]
    assert told == ["61 s  s, 1 node(s)", "30 s  s, 1 node(s)", "91 s  altogether"]


def test_an_interrupted_run_goes_on_with_what_it_has_not_measured(tmp_path: Path) -> None:
    place, before, after = tmp_path / "found.json", report(50.0, 8.0), report(70.0, 8.0)
    keep(before, place)
    after.outcomes, after.made = [], "tomorrow"
    go_on(after, place)
    assert (after.outcomes, after.made) == (before.outcomes, "today to tomorrow")
    assert settled(after.outcomes, [SCENARIO], SYSTEMS) == after.outcomes
    assert not settled(after.outcomes, [SCENARIO], [*SYSTEMS, system("new", [])])
    assert not settled(after.outcomes, [], SYSTEMS), "there is no such scenario any more"
    broken = Outcome("s", 1, [Result(OURS), Result("peer", failed="it fell over")])
    assert not settled([broken], [SCENARIO], SYSTEMS)
    assert not list(compare([SCENARIO], SYSTEMS, FAST, tmp_path, lambda _: None, {("s", 1)}))
    after.machine = Machine("3.12", 2, "Linux", "no Java")
    with pytest.raises(SystemExit, match="another machine"):
        go_on(after, place)


def test_a_loss_of_a_fifth_against_what_was_accepted_is_told_and_a_new_value_can_be_accepted(tmp_path: Path) -> None:
    path = tmp_path / "accepted.json"
    accept(rows(report(200.0, 2.0), [SCENARIO]), path)
    assert list(losses(rows(report(170.0, 2.0), [SCENARIO]), read(path))) == []
    lost = list(losses(rows(report(150.0, 2.0), [SCENARIO]), read(path)))
    assert lost == ["s/1/speed/peer: 1.50, and 2.00 was accepted"]
    accept(rows(report(150.0, 2.0), [SCENARIO]), path)
    assert list(losses(rows(report(150.0, 2.0), [SCENARIO]), read(path))) == []


def test_what_was_accepted_and_is_not_measured_any_more_is_told_with_its_reason() -> None:
    """A peer that is gone, one that fails, and a scenario that was left out: none of them passes silently."""
    shown = report(200.0, 2.0)
    shown.outcomes[0].results += [Result("cheat", failed="message 7 came twice")]
    accepted = dict.fromkeys(("s/1/speed/peer", "s/1/speed/gone", "s/1/late/cheat", "other/3/speed/peer"), 1.0)
    assert list(not_measured(rows(shown, [SCENARIO]), accepted, shown.outcomes)) == [
        "other/3/speed/peer: it was not asked for",
        "s/1/late/cheat: message 7 came twice",
        "s/1/speed/gone: not there",
    ]


def test_the_guard_prints_what_was_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = msgspec.structs.replace(report(1.0, 1.0), outcomes=[])
    assert finish(nothing, arguments(["--quick", "--guard"])) == 0
    assert "not measured: start/1/memory/redis: it was not asked for\n" in capsys.readouterr().out

"""One run: workloads all the while, faults one after the other by a seed, checks at the end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from chaos.field import open_field
from chaos.histories import PROGRESS, Findings
from chaos.leaders import LeaderWatch, Led
from chaos.nemeses import NEMESES
from chaos.ops import Op
from chaos.workload import Workload
from chaos.workloads import WORKLOADS
from tests.cluster.clients import Cluster
from tests.waiting import WAIT_S

_HOLD_S: Final = (1.0, 6.0)
_TOGETHER: Final = (1, 1, 2)  # how many faults at a time


class Plan(NamedTuple):
    seed: int
    seconds: float
    nemeses: tuple[str, ...]
    workloads: tuple[str, ...]
    bug: str = ""  # planted
    rounds: int = 0  # of faults; by the seconds if 0
    command: str = ""  # that does the same again


class Fault(NamedTuple):
    """`whole_at` is when everybody made progress again."""

    nemesis: str
    message: str
    began: float
    ended: float
    whole_at: float


class Outcome(NamedTuple):
    """Times are by the monotonic clock, from `began` on."""

    plan: Plan
    began: float
    ended: float
    faults: list[Fault]
    left_out: dict[str, str]  # nemeses that cannot be had here, and why
    ops: dict[str, list[Op]]
    leaders: list[Led]
    findings: dict[str, Findings]  # by workload
    counts: dict[str, dict[str, int]]
    place: str

    @property
    def broken(self) -> list[str]:
        found = (
            f"{who}: {promise}: {one}"
            for who, all_ in self.findings.items()
            for promise, list_ in all_.items()
            for one in list_
        )
        return list(found)

    @property
    def is_only_slow(self) -> bool:
        """No promise about messages is broken."""
        return not any(
            list_ for all_ in self.findings.values() for promise, list_ in all_.items() if promise != PROGRESS
        )


Tell = Callable[[str], None]


class Ground(Protocol):
    """Where a run happens. `heal` returns when the cluster is whole."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def skew_ms(self) -> float: ...

    @property
    def place(self) -> str: ...

    def heal(self) -> None: ...


class Act(Protocol):
    """A kind of fault; `begin` says what it did."""

    @property
    def name(self) -> str: ...

    @property
    def is_alone(self) -> bool: ...

    def begin(self) -> str: ...

    def end(self) -> None: ...


def run(plan: Plan, root: Path, tell: Tell) -> Outcome:
    chosen = {name: NEMESES[name].unavailable() for name in plan.nemeses}
    left_out = {name: why for name, why in chosen.items() if why}
    for name, why in left_out.items():
        tell(f"left out: {name}: {why}")
    usable = [name for name, why in chosen.items() if not why]
    has_clocks, has_disks = "clock" in usable, "disk-full" in usable
    root.mkdir(parents=True, exist_ok=True)
    with open_field(root, has_clocks=has_clocks, has_disks=has_disks, bug=plan.bug) as field:
        chance = random.Random(plan.seed)
        acts = [NEMESES[name](field, chance) for name in usable]
        return Run(plan, field, acts, chance, tell).run(left_out)


class Run:
    """Where everything stands already."""

    def __init__(self, plan: Plan, field: Ground, acts: Sequence[Act], chance: random.Random, tell: Tell) -> None:
        self._plan = plan
        self._field = field
        self._chance = chance
        self._acts = acts
        self._tell = tell
        self._began = time.monotonic()
        self.faults: list[Fault] = []
        self.stuck: dict[str, list[str]] = {}
        self.workloads: list[Workload] = []

    @contextmanager
    def running(self) -> Iterator[LeaderWatch]:
        """Clients and who watches leaders, until the block is left."""
        names = enumerate(self._plan.workloads)
        self.workloads = [WORKLOADS[name](self._field.cluster, self._plan.seed * 1000 + 10 * n) for n, name in names]
        watch = LeaderWatch(self._field.cluster)
        watch.start()
        for one in self.workloads:
            one.start()
        self.say(f"seed {self._plan.seed}: {', '.join(self._plan.workloads)}")
        try:
            yield watch
        finally:
            watch.stop()
            for one in self.workloads:
                one.abandon()

    def run(self, left_out: dict[str, str]) -> Outcome:
        with self.running() as watch:
            self._torment()
            findings = self.finish()
        return self.outcome(findings, watch, left_out)

    def outcome(self, findings: dict[str, Findings], watch: LeaderWatch, left_out: dict[str, str]) -> Outcome:
        findings = {**findings, "cluster": {PROGRESS: self.stuck.get("cluster", []), **watch.check()}}
        ops = {one.name: one.ops() for one in self.workloads}
        counts = {**{one.name: one.counts() for one in self.workloads}, "cluster": {"looks at leaders": watch.looks}}
        ended, place = time.monotonic(), self._field.place
        return Outcome(
            self._plan, self._began, ended, self.faults, left_out, ops, watch.changes, findings, counts, place
        )

    # --- faults ----------------------------------------------------------------------------------------------

    def _torment(self) -> None:
        deadline, waiting = time.monotonic() + self._plan.seconds, list(self._acts)
        for number in count():
            is_over = number >= self._plan.rounds if self._plan.rounds else time.monotonic() >= deadline
            if is_over or self.stuck or not self._acts:
                return
            waiting = waiting or list(self._acts)  # each once before any comes again
            acts = self._together(waiting)
            waiting = [one for one in waiting if one not in acts]
            self._round(acts)

    def _together(self, waiting: list[Act]) -> list[Act]:
        first = self._chance.choice(waiting)
        others = [one for one in waiting if one is not first and not one.is_alone]
        if first.is_alone or not others or self._chance.choice(_TOGETHER) == 1:
            return [first]
        return [first, self._chance.choice(others)]

    def _round(self, acts: list[Act]) -> None:
        before = [one.progress for one in self.workloads]
        begun: list[tuple[Act, float, str]] = []
        for act in acts:
            at = time.monotonic()
            begun.append((act, at, act.begin()))
            self.say(begun[-1][2])
            time.sleep(self._chance.uniform(0, 1))
        time.sleep(self._chance.uniform(*_HOLD_S))
        for act in acts:
            act.end()
        ended = time.monotonic()
        during = sum(one.progress for one in self.workloads) - sum(before)
        try:
            self._field.heal()
        except AssertionError as error:
            self.stuck["cluster"] = [f"not whole after {begun[-1][2]}"]
            self.say(str(error))
        self.wait_progress()
        whole_at = time.monotonic()
        self.faults += [Fault(act.name, message, at, ended, whole_at) for act, at, message in begun]
        self.say(f"  whole after {whole_at - ended:.1f} s; {during} acknowledged meanwhile")

    def wait_progress(self) -> None:
        """Of everybody, from now on."""
        goals = {one: one.progress for one in self.workloads}
        deadline = time.monotonic() + WAIT_S
        while goals and time.monotonic() < deadline:
            goals = {one: then for one, then in goals.items() if one.progress <= then}
            time.sleep(0.02)
        for one in goals:
            self.stuck[one.name] = [f"nothing acknowledged for {WAIT_S:.0f} s after {self._last_words()}"]
            self.say(f"  {one.name} stands still")

    def _last_words(self) -> str:
        return self.faults[-1].message if self.faults else "the first fault"

    # --- the end ---------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Findings]:
        self.say("faults are over; senders stop, takers go on until everything is taken")
        for one in self.workloads:
            one.stop_senders()
        findings = {one.name: {PROGRESS: self.stuck.get(one.name, []) + self._drain(one)} for one in self.workloads}
        for one in self.workloads:
            one.stop_takers()
            one.skew_ms = self._field.skew_ms
            findings[one.name] = {**findings[one.name], **one.check()}
            wrong = sum(map(len, findings[one.name].values()))
            self.say(f"{one.name}: {'kept' if not wrong else f'{wrong} broken'}; {one.counts()}")
        return findings

    def _drain(self, workload: Workload) -> list[str]:
        deadline = time.monotonic() + WAIT_S
        while missing := sorted(workload.missing()):
            if time.monotonic() > deadline:
                return [f"never handed out: {missing[:10]} and {max(0, len(missing) - 10)} more"]
            time.sleep(0.05)
        return []

    def say(self, message: str) -> None:
        self._tell(f"{time.monotonic() - self._began:7.1f} s  {message}")

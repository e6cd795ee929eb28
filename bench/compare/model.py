"""What is compared: systems that run, scenarios that measure them, and samples of each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

OURS: Final = "goqueue"
OURS_THREE: Final = "goqueue-3"
OURS_SYNCED: Final = "goqueue-fsync"
ALL_OURS: Final = frozenset({OURS, OURS_THREE, OURS_SYNCED})


class CheckFailed(Exception):
    """A system lost, doubled or damaged a message, or was not measured as it says."""


class Running:
    """A system that runs. What it has no door for is empty."""

    def __init__(
        self,
        *,
        kafka: str = "",
        stream: tuple[str, int] | None = None,
        factor: int = 1,
        queue: tuple[str, int] | None = None,
        sqs: str = "",
        rest: str = "",
        files: Path | None = None,
        topic_config: Mapping[str, str] | None = None,
        pids: Callable[[], list[int]] = list,
        crash: Callable[[], None] | None = None,
        restart: Callable[[], None] | None = None,
        kill_leader: Callable[[str], None] | None = None,
        heal: Callable[[], None] | None = None,
    ) -> None:
        """`queue` is a client below `bench.peers` and its port, `stream` one of `stream_load`; `files` is a directory
        for what is no broker; `topic_config` is that of every topic; `crash` is kill -9 of all of it, `restart` brings
        it back; `kill_leader` ends the node that leads a topic, `heal` brings it back."""
        self.kafka = kafka
        self.stream = stream
        self.factor = factor
        self.queue = queue
        self.sqs = sqs
        self.rest = rest
        self.files = files
        self.topic_config = dict(topic_config or {})
        self.pids = pids
        self.crash = crash
        self.restart = restart
        self.kill_leader = kill_leader
        self.heal = heal


class System(msgspec.Struct, frozen=True):
    """`doors` are kafka, log, synced, queue, lanes, tasks, sqs, spark and start.

    `start` raises PeerMissing where the system cannot be had.
    """

    key: str
    name: str
    nodes: int
    doors: frozenset[str]
    configuration: str
    start: Callable[[Path], AbstractContextManager[Running]]


class Effort(msgspec.Struct, frozen=True):
    """How much of everything: `quick` is for a look, the full one for figures that are shown."""

    rounds: int
    messages: int  # of a log or a backlog
    seconds: float  # of load by the clock
    pending: int  # delayed messages
    topics: int
    log_mib: int  # before a crash
    kills: int


QUICK: Final = Effort(rounds=3, messages=100_000, seconds=2.0, pending=10_000, topics=200, log_mib=64, kills=2)
FULL: Final = Effort(rounds=5, messages=500_000, seconds=4.0, pending=100_000, topics=1_000, log_mib=5 * 1024, kills=5)


class Metric(msgspec.Struct, frozen=True):
    key: str
    title: str
    unit: str
    more_is_better: bool = True


Sample = Mapping[str, float]  # by the key of a metric


class Turn(msgspec.Struct, frozen=True):
    """One round of one system; `number` counts from 0 and makes names that were not used before."""

    number: int
    effort: Effort
    scratch: Path


class Scenario(msgspec.Struct, frozen=True):
    """`measure` does its own checks and raises CheckFailed. `measure_start` starts the system itself, each round."""

    key: str
    title: str
    door: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Running, Turn], Sample] | None = None
    measure_start: Callable[[System, Turn], Sample] | None = None
    nodes: tuple[int, ...] = (1,)

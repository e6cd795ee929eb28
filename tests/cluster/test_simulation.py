"""A three-node cluster under load and faults, in virtual time, for many seeds: what was promised holds."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from goqueue.base.log_settings import Fsync
from goqueue.sim.minute import Minute, run_minute
from tests.cluster import planted

LONG: Final = os.environ.get("GOQUEUE_LONG_TESTS") == "1"
SEEDS: Final = range(2_000 if LONG else 30)
SECONDS: Final = 60.0 if LONG else 4.0

CHEAP: Final = ("stamp", "synced", "start_offset")  # bugs that the first seeds show
CHEAP_SEEDS: Final = 5
DOCS: Final = Path(__file__).resolve().parents[2] / "docs" / "cluster-tests.md"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_promised_is_broken(seed: int) -> None:
    """Every other seed has everything on the disk before it counts."""
    fsync: Fsync = "always" if seed % 2 else "interval"
    outcome = run_minute(Minute(seed, fsync, SECONDS))
    assert not outcome.broken, "\n".join([f"seed {seed}, fsync {fsync}: {outcome.broken}", *outcome.told])


def test_a_seed_is_the_same_to_the_last_event_every_time_and_in_every_process() -> None:
    """With nodes killed, so that the order in which what they had begun ends is the same too."""
    here = run_minute(Minute(77, "interval", 20.0))
    assert sum("kill" in told for told in here.told) > 2, here.told
    program = (
        "import logging; logging.disable(); from goqueue.sim.minute import *; "
        "print(run_minute(Minute(77, 'interval', 20.0)).digest)"
    )
    elsewhere = [
        subprocess.check_output(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": number}, text=True
        )
        for number in ("1", "2")
    ]
    assert [one.strip() for one in elsewhere] == [here.digest] * 2
    assert run_minute(Minute(77, "interval", 20.0)).digest == here.digest
    assert run_minute(Minute(78, "interval", 12.0)).digest != here.digest


@pytest.mark.parametrize("name", planted.BUGS if LONG else CHEAP)
def test_a_rule_that_is_broken_is_noticed(name: str) -> None:
    told: list[str] = []
    found = planted.seeds_needed(name, range(planted.SEEDS if LONG else CHEAP_SEEDS), told.append)
    assert found is not None, told


def test_every_rule_has_a_bug_that_breaks_it_and_the_docs_list_them() -> None:
    rules = {int(number) for bug in planted.BUGS.values() for number in bug.rule.split(", ")}
    assert rules == set(range(1, 17))
    text = DOCS.read_text()
    assert [bug.what for bug in planted.BUGS.values() if f"| {bug.what} |" not in text] == []

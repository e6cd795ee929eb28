"""The report of a chaos run: one page, with everything that happened in it."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from chaos.histories import LOST, ONE_LEASE, PROGRESS
from chaos.leaders import Led
from chaos.nemeses import NEMESES
from chaos.ops import Op
from chaos.report import page, write_report
from chaos.running import Fault, Outcome, Plan
from chaos.workloads import WORKLOADS
from tests.pipeline.report.looking import DARK, looked_at

SECONDS = 300.0


def made_up(wrong: list[str]) -> Outcome:
    chance = random.Random(1)
    faults = []
    for place, name in enumerate(NEMESES):
        at = 10.0 + 20 * place
        faults.append(Fault(name, f"<{name}> & more", at, at + chance.uniform(1, 7), at + 10 + chance.uniform(0, 5)))
    ops = {name: [_op(chance, n * 0.1, faults) for n in range(int(SECONDS * 10))] for name in WORKLOADS}
    leaders = [Led(float(at), shard, (shard + at // 60) % 3 or None) for shard in range(8) for at in range(0, 300, 60)]
    findings = {name: {LOST: [], ONE_LEASE: wrong if name == "queue" else [], PROGRESS: []} for name in WORKLOADS}
    counts = {name: {"acknowledged": 1234} for name in WORKLOADS}
    plan = Plan(7, SECONDS, tuple(NEMESES), tuple(WORKLOADS))
    return Outcome(plan, 0.0, SECONDS, faults, {"clock": "no libfaketime"}, ops, leaders, findings, counts, "loopback")


def _op(chance: random.Random, at: float, faults: list[Fault]) -> Op:
    is_bad = any(one.began < at < one.ended for one in faults) and chance.random() < 0.8
    return Op(at, chance.uniform(0.002, 0.02) * (20 if is_bad else 1), not is_bad)


def test_the_page_is_one_well_formed_file_that_names_every_fault_and_verdict() -> None:
    text = page(made_up(["two leases at once of m<1>"]))
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert all(f"&lt;{name}&gt; &amp; more" in text for name in NEMESES)
    assert "two leases at once of m&lt;1&gt;" in text and "✗ 1 broken" in text and "no libfaketime" in text
    assert "http" not in text.replace("http://www.w3.org", "")


def test_what_is_broken_again_and_again_is_told_once() -> None:
    text = page(made_up(["two leases at once of m1"] * 7))
    assert text.count("two leases at once of m1") == 1 and "(7 times)" in text


def test_a_run_that_kept_everything_says_so() -> None:
    assert "Nothing was broken." in page(made_up([]))


@pytest.mark.slow
def test_the_page_has_a_light_and_a_dark_look(tmp_path: Path) -> None:
    write_report(made_up(["two leases at once of m1"]), tmp_path / "chaos.html")
    light = looked_at(tmp_path / "chaos.html", "chaos-light", 2900)
    dark = looked_at(tmp_path / "chaos.html", "chaos-dark", 2900, DARK)
    assert min(light.corner) > 200 and max(dark.corner) < 60

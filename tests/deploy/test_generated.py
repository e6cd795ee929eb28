"""What is under `deploy/` is what its generator writes, and speaks of metrics and of sections that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.base.errors import leaves
from tools.dashboards.alerts import alerts
from tools.dashboards.boards import boards
from tools.dashboards.files import files
from tools.dashboards.recording import FAULTS, recordings

ROOT = Path(__file__).parents[2]
_SUFFIX = re.compile(r"_(bucket|sum|count)$")


@pytest.mark.parametrize("name", files())
def test_a_file_is_as_its_generator_writes_it(name: str) -> None:
    assert (ROOT / "deploy" / name).read_text() == files()[name], "run make dashboards"


def test_there_is_nothing_that_the_generator_no_longer_writes() -> None:
    kept = [*(ROOT / "deploy/grafana/dashboards").iterdir(), *(ROOT / "deploy/prometheus/rules").iterdir()]
    assert {str(path.relative_to(ROOT / "deploy")) for path in kept} <= files().keys()


def test_every_alert_leads_to_a_section_of_the_runbook() -> None:
    sections = set(re.findall(r"^## (.+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE))
    assert {one.section for one in alerts()} <= sections
    assert len({one.name for one in alerts()}) == len(alerts())


def expressions() -> Iterator[str]:
    yield from (query.expr for board in boards() for panel in board.panels() for query in panel.queries)
    yield from (one.expr for one in recordings())
    yield from (one.expr for one in alerts())


def test_every_series_that_is_asked_for_is_documented() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    known = set(re.findall(r"^\| `(goqueue_\w+)`", text, re.MULTILINE))
    used = {name for expr in expressions() for name in re.findall(r"goqueue_\w+", expr)}
    used = {name for name in used if not name.startswith("goqueue_pipeline_")}
    assert {name for name in used if name not in known and _SUFFIX.sub("", name) not in known} == set()
    recorded = {name for expr in expressions() for name in re.findall(r"goqueue:[\w:]+", expr)}
    assert recorded <= {one.record for one in recordings()}


def test_a_dashboard_has_panels_that_do_not_overlap_and_numbers_of_their_own() -> None:
    for board in boards():
        panels = json.loads(files()[f"grafana/dashboards/{board.uid}.json"])["panels"]
        assert len({one["id"] for one in panels}) == len(panels)
        taken = [(x, y) for one in panels for x, y in _cells(one["gridPos"])]
        assert len(taken) == len(set(taken)), board.title
        assert max(x for x, _ in taken) < 24


def _cells(at: dict[str, int]) -> Iterator[tuple[int, int]]:
    return ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"]))


def test_faults_that_spend_the_budget_are_error_codes() -> None:
    assert set(FAULTS.split("|")) <= {leaf.code for leaf in leaves()} | {"internal"}

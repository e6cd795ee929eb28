"""The page and the progress display as a person sees them. The pictures stay in `build/artefacts` to be looked at."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from goqueue.pipeline.live import Bar, bar
from goqueue.pipeline.progress import Watched
from goqueue.pipeline.report.page import page
from goqueue.pipeline.report.rows import Facts
from tests.pipeline.report.looking import DARK, looked_at
from tests.pipeline.report.made_up import START_MS, facts

LIGHT_GROUND, DARK_GROUND = (243, 245, 248), (14, 19, 24)


def test_a_full_page_in_light_and_dark(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    html.write_text(page(facts()))
    light = looked_at(html, "report", 4600)
    dark = looked_at(html, "report-dark", 4600, DARK)
    assert (light.width, light.height, light.corner) == (1280, 4600, LIGHT_GROUND)
    assert dark.corner == DARK_GROUND
    assert min(light.size, dark.size) > 100_000, "a picture of little more than its ground"


def test_a_narrow_page_and_an_empty_one(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    html.write_text(page(facts()))
    assert looked_at(html, "report-narrow", 6000, width=520).size > 100_000
    html.write_text(page(Facts(lake="/data/lake", made_ms=START_MS)))
    assert looked_at(html, "report-empty", 1600).size > 30_000


def test_the_progress_on_a_terminal(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    shown = bar(console)
    told = Watched(Bar("archive", shown))
    told.step("looking for new messages")
    told.step("archiving orders, payments", 12_000, 50_000)
    console.print(shown.get_renderable())
    html = tmp_path / "progress.html"
    html.write_text(console.export_html())
    assert looked_at(html, "progress", 240, width=900).size > 6_000

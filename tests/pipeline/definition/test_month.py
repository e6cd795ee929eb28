"""Some simulated days of `pipeline serve`; `python -m tests.pipeline.definition.month` has the whole month."""

from __future__ import annotations

import faulthandler
from pathlib import Path

import pytest

from tests.etcd import etcd_program
from tests.long import only_long
from tests.pipeline.definition.month import month

pytestmark = [only_long, pytest.mark.slow, pytest.mark.timeout(1_800), pytest.mark.xdist_group("jvm")]


def test_days_of_serving_are_exact_through_upgrades_a_pause_and_a_new_node(tmp_path: Path) -> None:
    etcd_program()
    faulthandler.cancel_dump_traceback_later()  # the usual limit of one test is shorter than this one
    plot = tmp_path / "month.svg"
    assert len(month(tmp_path, 8, 2_000, plot)) == 8
    assert "<path" in plot.read_text()

"""The drills of the runbook go as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.drills import NAMES, run_drill, unavailable
from tests.etcd import etcd_program
from tests.long import only_long

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def test_each_drill_has_its_section_in_the_runbook() -> None:
    assert sorted(re.findall(r"python -m chaos --drill ([a-z-]+)", RUNBOOK.read_text())) == sorted(NAMES)


@only_long
@pytest.mark.parametrize("name", NAMES)
def test_a_drill_goes_as_the_runbook_says(name: str, tmp_path: Path) -> None:
    if why := unavailable(name):
        pytest.skip(why)
    etcd_program()
    told: list[str] = []
    try:
        broken = run_drill(name, tmp_path, told.append)
    finally:
        print("\n".join(["", *told]))
    assert not broken, broken
    section = RUNBOOK.read_text().partition(f"--drill {name}`")[2].partition("\n### ")[0]
    typed = [line.partition("typed: ")[2] for line in told if "typed: " in line]
    assert typed and all(line in section for line in typed), typed

"""The contract suite runs on both disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.log.disk import Disk
from goqueue.log.real_disk import RealDisk
from goqueue.sim.disk import SimDisk


@pytest.fixture(params=["sim", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return SimDisk() if request.param == "sim" else RealDisk(tmp_path)

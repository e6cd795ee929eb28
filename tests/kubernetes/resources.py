"""What a node of the chart takes in a pod, idle and under load: `python -m tests.kubernetes.resources IMAGE.tar`.

CPU and memory are those of the pods' control groups. Memory is without caches of files that the kernel can drop, which
is what Kubernetes looks at; the peak is with them. The chart's defaults rest on it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from chaos import pods
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.programs import require_programs, small_images
from tests.kubernetes.release import Release
from tests.waiting import let_pass

SECONDS: Final = 30
_GROUPS: Final = Path("/sys/fs/cgroup")
LOADS: Final[dict[str, tuple[str, ...]]] = {
    "idle": (),
    "queue, 50 a second one by one": ("queue", "--rate", "50"),
    "publish, 5 MB/s in batches": ("produce", "--rate", "5000", "--size", "1000", "--batch", "250"),
}


class Usage(NamedTuple):
    cpu_s: float
    working_bytes: int
    peak_bytes: int


class PodGroup:
    """The control group of a pod's process, of either version."""

    def __init__(self, pid: int) -> None:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        self._paths = {
            name: path for line in lines for names, path in [line.split(":")[1:]] for name in names.split(",")
        }

    def usage(self) -> Usage:
        return self._of_version_1() if "memory" in self._paths else self._of_version_2()

    def _of_version_1(self) -> Usage:
        memory, cpu = (_GROUPS / name / self._paths[name].lstrip("/") for name in ("memory", "cpuacct"))
        inactive = _fields(memory / "memory.stat")["total_inactive_file"]
        used, peak = (int((memory / f"memory.{name}").read_text()) for name in ("usage_in_bytes", "max_usage_in_bytes"))
        return Usage(int((cpu / "cpuacct.usage").read_text()) / 1e9, used - inactive, peak)

    def _of_version_2(self) -> Usage:
        group = _GROUPS / self._paths[""].lstrip("/")
        inactive = _fields(group / "memory.stat")["inactive_file"]
        used, peak = (int((group / f"memory.{name}").read_text()) for name in ("current", "peak"))
        return Usage(_fields(group / "cpu.stat")["usage_usec"] / 1e6, used - inactive, peak)


def _fields(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}


def measured(groups: list[PodGroup], load: Callable[[], None]) -> tuple[float, float, float]:
    """The busiest pod's cores, its largest working set and its peak, in MiB."""
    before, began = [one.usage() for one in groups], time.monotonic()
    load()
    seconds, after = time.monotonic() - began, [one.usage() for one in groups]
    cores = max((new.cpu_s - old.cpu_s) / seconds for old, new in zip(before, after, strict=True))
    return cores, max(one.working_bytes for one in after) / 2**20, max(one.peak_bytes for one in after) / 2**20


def put_load(url: str, words: tuple[str, ...]) -> None:
    if not words:
        let_pass(SECONDS)
        return
    program = [sys.executable, "-c", "from goqueue.cli import main; main()", "bench", *words]
    command = [*program, "--duration", f"{SECONDS}s", "--server", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20 * SECONDS)
    print(done.stdout, done.stderr[-500:], sep="", flush=True)


def main(image: Path) -> None:
    require_programs()
    with tempfile.TemporaryDirectory(prefix="goqueue-pods-") as scratch:
        root = Path(scratch)
        with KubernetesLab(root / "lab", [image, *small_images(image, root)]) as lab:
            lab.volumes(3)
            release = Release(lab, root, pods.VALUES)
            release.install()
            groups = [PodGroup(release.pid(name)) for name in release.ready()]
            url = pods.PodField(lab, release).cluster.nodes[0].url
            for name, words in LOADS.items():
                cores, working, peak = measured(groups, lambda words=words: put_load(url, words))  # type: ignore[misc]
                print(
                    f"{name:<32} {cores:5.2f} cores {working:6.0f} MiB, at most {peak:6.0f} MiB with files", flush=True
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A month of `goqueue pipeline serve` in compressed time, on a cluster of three nodes.

    python -m tests.pipeline.definition.month --days 30 --events 1000000 --plot docs/images/pipeline-month.svg

Each day is published and worked off. On the way: two upgrades, a schema change, a pause, a node replaced by an empty
one. At the end tables, quarantine and topic are held against plain Python, and what grew is told.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
from deltalake import DeltaTable

from bench.cluster_process import ClusterProcess
from tests.pipeline.definition.month_check import Calendar, Copies, check, large_ids
from tests.pipeline.definition.month_plot import draw
from tests.pipeline.topics import Row, fill, make_topic
from tests.pipeline.victims import Victim, free_address
from tests.waiting import wait_until

DAY_S: Final = 600.0  # to work one off, at most

ORDERS: Final = """name = "orders"
[node]
kafka = "KAFKA"
[[source]]
name = "orders"
topic = "orders"
columns = "id bigint, customer string, total bigint, at timestampNEW_COLUMNS"
[[rule]]
name = "total-is-positive"
view = "orders"
must = "total > 0"
[[step]]
name = "kept"
sql = "SELECT id, customer, total, atMORE FROM orders"
[[step]]
name = "large"
sql = "SELECT id, customer, total FROM orders WHERE total >= LARGE"
[[sink]]
view = "kept"
table = "orders"
[[sink]]
view = "large"
topic = "large"
key = "customer"
[maintenance]
every = "1m"
retention = "0s"
"""
DAILY: Final = """name = "daily"
[node]
kafka = "KAFKA"
[[source]]
name = "orders"
topic = "orders"
columns = "id bigint, customer string, total bigint, at timestamp"
watermark = "at 2 days"
[[step]]
name = "daily"
sql = '''
SELECT customer, date(window.start) AS day, count(*) AS orders, sum(total) AS total
FROM orders WHERE total > 0 GROUP BY customer, window(at, '1 day')
'''
[[sink]]
view = "daily"
table = "daily"
mode = "merge"
keys = ["customer", "day"]
[maintenance]
every = "1m"
retention = "0s"
"""


class Sample(msgspec.Struct, frozen=True):
    """What there was when a day had been worked off."""

    day: int
    seconds: float
    jvm_mib: float
    python_mib: float
    checkpoint_files: int
    data_files: int
    log_files: int
    state_rows: int


class Month:
    def __init__(self, folder: Path, calendar: Calendar, cluster: ClusterProcess) -> None:
        self.calendar, self.cluster, self.lake = calendar, cluster, folder / "lake"
        self.folder = folder / "pipelines"
        self.folder.mkdir()
        self.log, self.listen = folder / "serve.log", free_address()
        self.samples: list[Sample] = []
        self.began = time.monotonic()
        self.more, self.columns, self.large = "", "", 90
        self.valid = sum(one.total > 0 for one in calendar.orders(0))  # of each day

    def run(self) -> None:
        make_topic(self.cluster.nodes[0], "orders", 4)
        make_topic(self.cluster.nodes[0], "large", 2)
        self.copies = Copies(self.cluster.bootstrap, "large", 2)
        self.write_orders()
        (self.folder / "daily.toml").write_text(DAILY.replace("KAFKA", self.cluster.bootstrap))
        command = ("pipeline", "serve", str(self.folder), "--every", "1s", "--listen", self.listen)
        with Victim(self.log, "tests.pipeline.definition.month_serve", *command, "--lake", str(self.lake)) as serve:
            for day in range(self.calendar.days):
                self.turn(day, serve)
                self.samples.append(self.sample(day, serve))
                print(msgspec.json.encode(self.samples[-1]).decode(), flush=True)
            wait_until(lambda: self.has_copied(self.calendar.days - 1), lambda: "large", DAY_S)
        check(self.calendar, self.lake, self.copies.ids())
        self.copies.close()

    def turn(self, day: int, serve: Victim) -> None:
        what = self.calendar.what.get(day, "")
        if what:
            print(f"day {day}: {what}", flush=True)
        if what == "pause":
            self.order("pause")
            wait_until(lambda: self.state("orders") == "paused", lambda: serve.told, DAY_S)
        self.change(what, serve)
        self.publish(day)
        if what == "pause":
            self.wait(lambda: self.rows("daily", "orders") == self.expected(day), serve)
            assert self.rows("orders") == self.expected(day - 1), "rows came while it was paused"
            self.order("resume")
        if what == "node":
            self.replace_node()
        self.wait(lambda: self.is_done(day), serve)

    def change(self, what: str, serve: Victim) -> None:
        """Between days: all that was published went by what was asked then."""
        if what == "upgrade":
            self.more = ", total >= 50 AS is_half"
        elif what == "schema":
            self.columns, self.more = ", channel string", f"{self.more}, channel"
        elif what == "upgrade 2":
            self.large = 80
        else:
            return
        starts = self.starts()
        self.write_orders()
        self.wait(lambda: self.starts() > starts, serve)

    def write_orders(self) -> None:
        text = ORDERS.replace("KAFKA", self.cluster.bootstrap).replace("NEW_COLUMNS", self.columns)
        draft = self.folder / "orders.draft"
        draft.write_text(text.replace("MORE", self.more).replace("LARGE", str(self.large)))
        draft.replace(self.folder / "orders.toml")

    def starts(self) -> int:
        return self.log.read_text(errors="replace").count("orders: running")

    def order(self, word: str) -> None:
        code = "from goqueue.cli import main; main()"
        command = [sys.executable, "-c", code, "pipeline", word, "orders", "--dir", str(self.folder)]
        subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)

    def replace_node(self) -> None:
        number = self.cluster.leader_of("orders", 0)
        gone = self.cluster.running[0] if number is None else number
        self.cluster.kill(gone)
        shutil.rmtree(self.cluster.nodes[gone].data_dir)
        self.cluster.heal()

    def publish(self, day: int) -> None:
        rows = (Row(msgspec.json.encode(one), one.customer.encode()) for one in self.calendar.orders(day))
        fill(self.cluster.nodes[self.cluster.running[0]], "orders", rows)

    # --- what is there --------------------------------------------------------------------------------------------

    def state(self, name: str) -> str:
        return next((one["state"] for one in self.status() if one["name"] == name), "")

    def status(self) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = httpx.get(f"http://{self.listen}/status", timeout=10).json()
        except httpx.HTTPError:
            return []
        return found

    def wait(self, holds: Callable[[], bool], serve: Victim) -> None:
        wait_until(lambda: holds() or serve.is_over, lambda: f"{self.status()}\n{serve.told}", DAY_S)
        assert not serve.is_over, serve.told

    def expected(self, day: int) -> int:
        """Valid orders up to the end of the day."""
        return (day + 1) * self.valid

    def rows(self, table: str, summed: str | None = None) -> int:
        path = self.lake / table
        if not (path / "_delta_log").exists():
            return 0
        found = DeltaTable(str(path))
        if summed is not None:
            return sum(found.to_pyarrow_table(columns=[summed])[summed].to_pylist())
        return int(sum(found.get_add_actions(flatten=True).column("num_records").to_pylist()))

    def is_done(self, day: int) -> bool:
        expected = self.expected(day)
        if self.rows("orders") < expected or self.rows("daily", "orders") < expected:
            return False
        if self.rows("quarantine") < (day + 1) * self.calendar.events - expected:
            return False
        if not self.calendar.what.get(day + 1, "").startswith("upgrade"):
            return True
        return self.has_copied(day)

    def has_copied(self, day: int) -> bool:
        return len(self.copies.ids()) >= len(large_ids(self.calendar, day))

    def sample(self, day: int, serve: Victim) -> Sample:
        memory = memory_mib(serve.process.pid)
        files = [path for path in self.lake.rglob("*") if path.is_file()]
        checkpoints = sum("_checkpoints" in path.parts for path in files)
        logs = sum("_delta_log" in path.parts for path in files)
        state = sum(int(one["numbers"].get("state_rows", 0)) for one in self.status())
        others = len(files) - checkpoints - logs
        return Sample(day, time.monotonic() - self.began, *memory, checkpoints, others, logs, state)


def memory_mib(session: int) -> tuple[float, float]:
    """Memory of the JVM, and of all Pythons, of what was started in a session of processes."""
    found = {"java": 0.0, "python": 0.0}
    for process in Path("/proc").iterdir():
        try:
            if not process.name.isdecimal() or os.getsid(int(process.name)) != session:
                continue
            told = (process / "smaps_rollup").read_text()
            kind = "java" if (process / "comm").read_text().startswith("java") else "python"
        except OSError:
            continue
        shares = re.search(r"^Pss:\s+(\d+) kB", told, re.MULTILINE)  # what processes share is counted once
        found[kind] += int(shares[1]) / 1024 if shares else 0.0
    return found["java"], found["python"]


def check_bounds(samples: list[Sample]) -> None:
    """Nothing is larger in the last third than in the middle one, but for a margin."""
    third = len(samples) // 3
    for name, margin in (("jvm_mib", 250), ("python_mib", 250), ("checkpoint_files", 60), ("data_files", 60)):
        middle, last = (max(getattr(one, name) for one in part) for part in (samples[third:-third], samples[-third:]))
        assert last <= 1.3 * middle + margin, f"{name} grew from {middle} to {last}"


def month(folder: Path, days: int, events: int, plot: Path | None = None) -> list[Sample]:
    calendar = Calendar(days, events)
    with ClusterProcess(folder / "cluster") as cluster:
        lived = Month(folder, calendar, cluster)
        try:
            lived.run()
        finally:
            if plot is not None and len(lived.samples) > 1:
                plot.write_text(draw(lived.samples, calendar.what, events))
    return lived.samples


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-month-") as scratch:
        check_bounds(month(Path(scratch), asked.days, asked.events, asked.plot))
    print("exact, and bounded")

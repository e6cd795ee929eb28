"""A folder of pipelines that are kept running: files that come, change, break and go; queries that die."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.pipeline.definition.begin_again import ReplayOrder, order, what_replay_does
from goqueue.pipeline.definition.performing import Asked
from goqueue.pipeline.definition.queries import Queries, begin
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.serving import PipelineFolder, PipelineStatus
from goqueue.pipeline.definition.status_page import show
from goqueue.pipeline.definition.supervising import PipelineSupervisor
from tests.pipeline.definition.files import messages, publish, table
from tests.waiting import wait_until

SHOP = """name = "shop"
[[source]]
name = "orders"
topic = "served"
columns = "id string, total double"
[[step]]
name = "large"
sql = "SELECT id, total FROM orders WHERE total >= 10"
[[rule]]
name = "has-a-total"
view = "orders"
must = "total IS NOT NULL"
[[sink]]
view = "large"
table = "large"
"""
SERVED = (
    SHOP
    + """[maintenance]
every = "1m"
retention = "0s"
[alerts]
topic = "served-alerts"
quarantined_rows = 0
"""
)


class Life:
    """What runs of one file."""

    def __init__(self, file: PipelineFile) -> None:
        self.file, self.ended, self.why, self.steady = file, False, "", True
        self.batches_left = 0
        self.trouble = ""
        self.changed: str | None = None

    def failure(self) -> str | None:
        return self.why or None

    def is_steady(self) -> bool:
        return self.steady

    def changed_source(self, now: float) -> str | None:
        return self.changed

    def wind_down(self) -> bool:
        self.batches_left -= 1
        return self.batches_left < 0

    def stop(self) -> None:
        self.ended = True
        if self.trouble:
            raise ValueError(self.trouble)

    def numbers(self) -> Mapping[str, float]:
        return {"rows": 7.0}


class World:
    def __init__(self, folder: Path) -> None:
        self.folder, self.lives, self.said = folder, list[Life](), list[str]()
        self.refusing = ""
        self.kept = PipelineFolder(folder, self.begin, self.said.append)

    def begin(self, file: PipelineFile) -> Life:
        if self.refusing and self.refusing in file.text:
            raise ValueError("state would not survive")
        self.lives.append(Life(file))
        return self.lives[-1]

    def look(self, now: float) -> PipelineStatus:
        self.kept.look(now)
        (one,) = self.kept.status()
        return one

    def write(self, text: str) -> None:
        (self.folder / "shop.toml").write_text(text)


def test_a_file_that_comes_runs_and_one_that_goes_stops(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.kept.look(0)
    assert world.kept.status() == []
    world.write(SHOP)
    assert (world.look(1).state, world.look(2).numbers) == ("running", {"rows": 7.0})
    (tmp_path / "shop.toml").unlink()
    world.kept.look(3)
    assert world.kept.status() == [] and [life.ended for life in world.lives] == [True]


def test_what_dies_is_started_again_with_longer_and_longer_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    world.lives[-1].why = "no such luck"
    assert (world.look(10).state, world.look(10.5).state, world.look(11).state) == ("waiting", "waiting", "running")
    assert world.look(11).restarts == 1
    world.refusing = "shop"
    world.lives[-1].why = "again"
    assert world.look(20).error == "again"
    tries = [now for now in range(21, 200) if world.look(now) and world.said[-1].endswith("s")]
    waits = [line.rpartition("in ")[2] for line in world.said if "next try" in line]
    assert tries and waits[:5] == ["1 s", "1 s", "2 s", "4 s", "8 s"] and waits[-1] == "60 s"


def test_what_starts_well_and_dies_in_its_first_batch_waits_longer_and_keeps_its_error(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    told = []
    for now in range(1, 36):
        world.lives[-1].steady, world.lives[-1].why = False, "a bad row"
        told.append(world.look(now))
    assert {(one.state, one.error) for one in told} == {("waiting", "a bad row"), ("running", "a bad row")}
    waits = [line.rpartition("in ")[2] for line in world.said if "next try" in line]
    assert waits == ["1 s", "2 s", "4 s", "8 s", "16 s"]
    assert world.look(40).state == "running"
    world.lives[-1].steady = False
    assert world.look(60).error == "a bad row"
    world.lives[-1].steady = True
    assert (world.look(61).state, world.look(61).error) == ("running", "")


def test_a_change_of_a_function_replaces_what_runs(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "steps.py").write_text("def large(views): return views['orders']\n")
    world.write(SHOP.replace('sql = "SELECT id, total FROM orders WHERE total >= 10"', 'python = "steps.py:large"'))
    assert [world.look(now).state for now in range(3)] == ["running"] * 3 and len(world.lives) == 1
    (tmp_path / "steps.py").write_text("def large(views): return views['orders'].limit(1)\n")
    assert [world.look(now).state for now in range(3, 6)] == ["running"] * 3 and len(world.lives) == 2


def test_a_table_that_changed_starts_what_reads_it_anew(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    world.lives[-1].changed = "customers"
    assert (world.look(1).state, world.look(2).restarts) == ("running", 0)
    assert [life.ended for life in world.lives] == [True, False]
    assert "shop: stopped, what it reads as customers changed" in world.said


def test_a_refusal_stays_told_when_what_runs_dies_and_is_started_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    world.write(SHOP.replace("view", "veiw"))
    world.look(1)
    world.lives[-1].why = "no such luck"
    assert (world.look(2).state, world.look(3).state) == ("waiting", "running")
    assert "unknown field `veiw`" in world.look(4).error


def test_a_file_that_cannot_be_read_is_told_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "shop.toml").mkdir()
    (tmp_path / ".#shop.toml").symlink_to("nowhere")
    assert [world.look(now).state for now in range(3)] == ["refused"] * 3
    assert len(world.said) == 1 and "Is a directory" in world.said[0]


def test_a_change_replaces_what_runs_unless_it_cannot(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    world.write(SHOP.replace("10", "20"))
    assert world.look(1).state == "running" and [life.ended for life in world.lives] == [True, False]
    world.write(SHOP.replace("view", "veiw"))
    refused = world.look(2)
    assert refused.state == "running" and "unknown field `veiw`" in refused.error and not world.lives[-1].ended
    world.refusing = "30"
    world.write(SHOP.replace("10", "30"))
    refused = world.look(3)
    assert refused.state == "running" and refused.error == "state would not survive"
    assert "20" in world.lives[-1].file.text and not world.lives[-1].ended


def test_a_note_beside_the_file_pauses_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    (tmp_path / "shop.paused").touch()
    assert world.look(1).state == "paused" and world.lives[-1].ended
    (tmp_path / "shop.paused").unlink()
    assert world.look(2).state == "running" and len(world.lives) == 2


def test_it_is_paused_after_the_batch_that_it_is_at(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    world.lives[0].batches_left = 2
    (tmp_path / "shop.paused").touch()
    assert [world.look(now).state for now in range(1, 5)] == ["running", "running", "paused", "paused"]
    assert world.said[1:] == ["shop: stopped, paused"]
    (tmp_path / "shop.paused").unlink()
    assert world.look(5).state == "running"


def test_what_is_to_go_on_before_it_is_paused_begins_anew(tmp_path: Path) -> None:
    """Some of its queries may have ended, which is no failure."""
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    world.lives[0].batches_left = 2
    (tmp_path / "shop.paused").touch()
    world.look(1)
    world.lives[0].why = "its query ended"
    (tmp_path / "shop.paused").unlink()
    assert (world.look(2).state, world.look(2).restarts, world.look(2).error) == ("running", 0, "")
    assert [life.ended for life in world.lives] == [True, False]


def test_an_order_to_replay_stops_and_starts_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(SHOP)
    world.look(0)
    (tmp_path / "shop.replay").write_text('{"from_ms": 0}')
    assert world.look(1).state == "running" and [life.ended for life in world.lives] == [True, False]
    assert "shop: stopped, to be replayed" in world.said


def test_at_the_end_each_stops_after_its_batch_while_there_is_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    for name in ("long", "quick", "stuck", "torn"):
        (tmp_path / f"{name}.toml").write_text(SHOP)
    world.kept.look(0)
    world.lives[0].batches_left, world.lives[2].batches_left = 2, 100
    world.lives[3].trouble = "Spark is gone"
    looks = iter([True] * 4 + [False])
    world.kept.wind_down(lambda: next(looks))
    assert [life.ended for life in world.lives] == [True, True, False, True]
    world.kept.stop()
    assert all(life.ended for life in world.lives)
    assert world.said[4:] == [
        "quick: stopped, after its last batch",
        "torn: could not be stopped: Spark is gone",
        "long: stopped, after its last batch",
        "stuck: stopped, within a batch, which the next start does again",
    ]


def test_nothing_is_started_once_the_end_is_asked_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.toml").write_text(SHOP)
    world.kept.look(0, lambda: len(world.lives) == 2)
    assert len(world.lives) == 2


def rows_in(lake: str, name: str) -> int:
    path = f"{lake}/{name}"
    return int(DeltaTable(path).to_pyarrow_table().num_rows) if DeltaTable.is_deltatable(path) else 0


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(600)
def test_a_folder_is_served_on_spark(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    """Rows, numbers, a page, alerts to a topic, maintenance by itself, and a replay after the rule was mended."""
    publish(module_node, "served", [{"id": str(n), "total": float(n)} for n in range(20)])
    publish(module_node, "served-alerts", [])
    served = SERVED.replace("SELECT id, total", "SELECT id, total, _topic, _partition, _offset")
    path = tmp_path / "shop.toml"
    path.write_text(served)
    lake = str(tmp_path / "lake")
    asked = Asked({"url": module_node.url}, lake, 0.5)
    files: list[PipelineFile] = []

    def start(file: PipelineFile) -> Queries:
        files.append(file)
        return begin(spark, file, asked)

    said: list[str] = []
    kept = PipelineSupervisor(tmp_path, start, lambda file: asked.node, lambda file: lake, said.append)
    shown = show("127.0.0.1", 0, kept.status)
    url = f"http://127.0.0.1:{shown.server_address[1]}"

    def looked(holds: Callable[[], object]) -> None:
        def look() -> object:
            kept.look(time.monotonic())
            return holds()

        wait_until(look, lambda: f"{said} {kept.status()}")

    try:
        looked(lambda: rows_in(lake, "large") == 10)
        publish(module_node, "served", [{"id": "x", "total": 99.0}, {"id": "y"}, {"id": "z"}])
        looked(lambda: kept.status()[0].numbers.get("quarantined_rows") == 2)
        looked(lambda: "table_files" in kept.status()[0].numbers)
        text = httpx.get(f"{url}/metrics").text
        assert 'goqueue_pipeline_state{pipeline="shop",state="running"} 1.0' in text
        assert 'goqueue_pipeline_served_quarantined_rows{pipeline="shop"} 2.0' in text
        assert 'goqueue_pipeline_served_lag_rows{pipeline="shop"} 0.0' in text
        assert httpx.get(f"{url}/status").json()[0]["state"] == "running"
        assert "<td>shop<td>running" in httpx.get(url).text and httpx.get(f"{url}/x").status_code == 404
        looked(lambda: messages(spark, module_node, "served-alerts"))
        ((key, alert),) = messages(spark, module_node, "served-alerts")
        assert (key, alert["alert"], alert["value"]) == ("shop", "quarantined_rows_above", 2.0)

        path.write_text(served.replace("total IS NOT NULL", "true").replace("total >= 10", "coalesce(total, 50) >= 10"))
        looked(lambda: len(files) == 2)
        assert rows_in(lake, "large") == 11  # from where it stopped
        since = what_replay_does(files[-1], lake, ReplayOrder(0))
        assert since == ["table large: rows of messages since 1970-01-01T00:00:00.000Z are deleted, and written again"]
        order(path, ReplayOrder(0))
        looked(lambda: rows_in(lake, "large") == 13)
        assert not (tmp_path / "shop.replay").exists() and table(spark, files[0], "quarantine") == []
        ids = sorted(row["id"] for row in table(spark, files[0], "large"))
        assert ids == sorted([*map(str, range(10, 20)), "x", "y", "z"])
    finally:
        kept.stop()
        shown.shutdown()
        shown.server_close()

"""Orders to pipelines that are served, by the command line: each leaves a note beside the file, or a reason."""

from __future__ import annotations

import datetime as dt
import socket
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake

from goqueue.cli import app
from goqueue.pipeline.definition.begin_again import ReplayOrder, ordered

SHOP = """name = "shop"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
view = "orders"
table = "copies"
[maintenance]
expire = "30d"
expire_by = "_timestamp"
retention = "0s"
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, words)], prog_name="goqueue")


def test_pause_and_resume_are_a_note(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SHOP)
    assert run("pause", "shop", "--dir", tmp_path).exit_code == 0
    assert (tmp_path / "shop.paused").exists()
    assert run("resume", tmp_path / "shop.toml").exit_code == 0
    assert not (tmp_path / "shop.paused").exists()
    assert "is not paused" in run("resume", "shop", "--dir", tmp_path).stderr
    assert "There is no file" in run("pause", "shap", "--dir", tmp_path).stderr


def test_a_replay_says_what_it_does_and_wants_a_yes(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(SHOP)
    asked = ("replay", "shop", "--dir", tmp_path, "--from", "2026-01-31T12:00:00Z")
    refused = run(*asked)
    assert refused.exit_code and "--yes" in refused.stderr and ordered(path) is None
    done = run(*asked, "--yes")
    assert done.exit_code == 0 and "table copies: rows of messages since 2026-01-31T12:00:00.000Z" in done.stderr
    assert ordered(path) == ReplayOrder(1_769_860_800_000)
    assert "is not a time" in run("replay", "shop", "--dir", tmp_path, "--from", "noon").stderr


def test_a_replay_that_would_double_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SHOP.replace('table = "copies"', 'topic = "copies"'))
    asked = ("replay", "shop", "--dir", tmp_path, "--from", "2026-01-31T12:00:00Z", "--yes")
    assert "cannot be taken back" in run(*asked).stderr
    assert run(*asked, "--again").exit_code == 0
    write_deltalake(str(tmp_path / "lake/copies"), pa.table({"value": ["a"]}))
    (tmp_path / "shop.toml").write_text(SHOP)
    assert "keep _topic, _partition and _offset" in run(*asked).stderr


def test_tables_are_looked_after_now(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text(SHOP)
    now = dt.datetime.now(dt.UTC)
    for days in (1, 2, 40):
        rows = pa.table(
            {"value": ["a"], "_timestamp": pa.array([now - dt.timedelta(days=days)], pa.timestamp("us", "UTC"))}
        )
        write_deltalake(str(tmp_path / "lake/copies"), rows, mode="append")
    done = run("maintain", tmp_path / "shop.toml")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1].split() == ["copies", "3", "1", "1", "3"]
    table = DeltaTable(str(tmp_path / "lake/copies"))
    assert table.to_pyarrow_table().num_rows == 2
    assert table.metadata().configuration["delta.logRetentionDuration"] == "interval 1 hours"


def test_an_address_that_is_taken_is_told_before_spark_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = ("serve", tmp_path, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert f"There is no pipeline in {tmp_path} yet" in run(*asked).stderr
        (tmp_path / "shop.toml").write_text(SHOP)
        refused = run(*asked)
    (line,) = refused.stderr.splitlines()
    assert refused.exit_code and "Address already in use" in line

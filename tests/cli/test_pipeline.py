"""`goqueue pipeline`, with pipelines that are told what to do, and where the real ones cannot run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from goqueue.pipeline import running
from goqueue.pipeline.running import PIPELINES, Progress, Run, Summary
from tests.cli.running import COMMAND, goqueue

WITHOUT_EXTRA = """
import sys

class Absent:  # as where the packages were never installed
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        gone = name.partition(".")[0] in ("deltalake", "numpy", "pandas", "py4j", "pyarrow", "pyspark")
        return None if gone else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Absent(finder) for finder in sys.meta_path if hasattr(finder, "find_spec")]
from goqueue.cli import main

main()
"""


class Told(ModuleType):
    """A pipeline's module that notes what it was asked, and does what a test wants."""

    NAME = "rates"
    SUMMARY_LINE = "Counts what is there."
    OPTIONS = {"window": "Length of a window.", "source": "Where from."}
    NEEDS_SPARK = False

    def __init__(self) -> None:
        super().__init__("told")
        self.asked: list[Run] = []
        self.raises: Exception | None = None

    def run(self, spark: Any, run: Run, progress: Progress) -> Summary:
        assert spark is None
        self.asked.append(run)
        progress.step("counting", 3, 10)
        progress.step("counting", 10, 10)
        if self.raises is not None:
            raise self.raises
        facts = {"topics": ["a", "b"], "windows": 1234, "by_topic": [{"topic": "a", "rows_in": 7}, {"topic": "b"}]}
        return Summary("rates", 10, 4, 0.5, 1, facts, ["one thing was odd"])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    module = Told()
    monkeypatch.setitem(sys.modules, "tests.cli.told", module)
    monkeypatch.setitem(running.PIPELINES, "rates", "tests.cli.told")
    return module


def test_a_run_is_asked_for_what_was_given(told: Told, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    options = ["--topics", "a,b", "--topics", "b, c", "-o", "window=10s", "--kafka", "h:1", "--dry-run"]
    assert goqueue("pipeline", "run", "rates", "--lake", lake, *options).exit_code == 0
    assert told.asked == [Run("h:1", None, ("a", "b", "c"), lake, dry_run=True, options={"window": "10s"})]
    assert goqueue("pipeline", "run", "rates", "--lake", lake, "--once", server="http://x:8").exit_code == 0
    assert told.asked[-1] == Run(None, "http://x:8", (), lake)


def test_the_summary_is_told_line_by_line_and_as_json(told: Told, tmp_path: Path) -> None:
    done = goqueue("pipeline", "run", "rates", "--lake", str(tmp_path))
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert ["rows", "in", "10"] in lines and ["windows", "1,234"] in lines and ["topics", "a,", "b"] in lines
    assert ["took", "500", "ms (20/s)"] in lines
    assert ["TOPIC", "ROWS", "IN"] in lines and ["b", "-"] in lines
    assert "rates: counting  10 of 10 rows" in done.stderr and "warning: one thing was odd" in done.stderr
    told_json = goqueue("pipeline", "run", "rates", "--lake", str(tmp_path), "--output", "json")
    assert json.loads(told_json.stdout)["facts"]["windows"] == 1234


def test_what_ran_is_counted_and_listed(told: Told, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for _ in range(2):
        assert goqueue("pipeline", "run", "rates", "--lake", lake).exit_code == 0
    told.raises = running_error("the disk is full")
    failed = goqueue("pipeline", "run", "rates", "--lake", lake)
    assert (failed.exit_code, failed.stderr.splitlines()[-1]) == (1, "error: the disk is full")
    goqueue("pipeline", "run", "rates", "--lake", lake, "--dry-run")
    metrics = (tmp_path / "lake/_metrics/rates.prom").read_text()
    assert 'goqueue_pipeline_rows_in_total{pipeline="rates"} 20.0' in metrics
    assert 'goqueue_pipeline_failures_total{pipeline="rates"} 1.0' in metrics
    assert 'goqueue_pipeline_fact{fact="windows",pipeline="rates"} 1234.0' in metrics
    shown = goqueue("pipeline", "list", "--lake", lake, "--output", "json")
    assert json.loads(shown.stdout)["rates"]["runs"] == 2


def running_error(text: str) -> Exception:
    from goqueue.pipeline.link.errors import PipelineError

    return PipelineError(text)


def test_wrong_usage_is_refused_before_anything_runs(told: Told, tmp_path: Path) -> None:
    lake = ["--lake", str(tmp_path)]
    wrong = goqueue("pipeline", "run", "rates", *lake, "-o", "windw=1m")
    assert (wrong.exit_code, "did you mean 'window'?" in wrong.stderr) == (2, True)
    assert goqueue("pipeline", "run", "rates", *lake, "--once", "--every", "10s").exit_code == 2
    assert goqueue("pipeline", "run", "rates", *lake, "--every", "soon").exit_code == 2
    assert goqueue("pipeline", "run", "nothing", *lake).exit_code == 2
    assert goqueue("pipeline", "run", "rates").exit_code == 2
    assert told.asked == []


def test_no_answer_and_what_spark_wrapped_end_as_elsewhere(told: Told, tmp_path: Path) -> None:
    from pyspark.errors import PythonException

    from goqueue.pipeline.link.errors import NodeUnreachable

    told.raises = NodeUnreachable("h:1", 3, "refused")
    gone = goqueue("pipeline", "run", "rates", "--lake", str(tmp_path))
    assert (gone.exit_code, "No node answered at h:1" in gone.stderr) == (3, True)
    told.raises = PythonException(
        "An exception was thrown from the Python worker. Please see the stack trace below.\nTraceback (most recent "
        'call last):\n  File "x.py", line 1, in read\ngoqueue.pipeline.link.errors.UnknownTopic: There is no topic '
        "'x'; create it, or correct the name.\n\n\tat org.apache.spark.Some.scala(1)\n"
    )
    wrapped = goqueue("pipeline", "run", "rates", "--lake", str(tmp_path))
    assert wrapped.exit_code == 1
    assert wrapped.stderr.splitlines()[-1] == "error: There is no topic 'x'; create it, or correct the name."


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    demo = ["demo", "--dir", str(tmp_path / "demo")]
    runs = [["run", name, "--lake", str(tmp_path / "lake")] for name in PIPELINES]
    for command in (["list"], *runs, ["report", "--lake", str(tmp_path)], demo):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_EXTRA, "pipeline", *command], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "pip install 'goqueue[pipeline]'" in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "demo").exists(), "nothing is begun"


def test_help_needs_no_extra() -> None:
    for command in (["pipeline", "--help"], ["pipeline", "run", "--help"], ["--help"]):
        done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRA, *command], capture_output=True, text=True)
        assert done.returncode == 0 and "pipeline" in done.stdout


@pytest.mark.parametrize("command", [["run", "rates"], ["demo", "--dir", "demo"]])
def test_without_java_it_says_what_to_install(command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    code = (
        "from pathlib import Path; from goqueue.pipeline.session import java; "
        "java.find_java.__defaults__ = (*java.find_java.__defaults__[:-1], Path('nowhere')); "
        "from goqueue.cli import main; main()"
    )
    if command[0] == "run":
        command = [*command, "--lake", str(tmp_path)]
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", *command], capture_output=True, text=True, env=environ, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "Spark needs Java 17 or newer" in done.stderr, done.stderr


def test_rounds_go_on_until_they_are_interrupted(tmp_path: Path) -> None:
    """As a process: the report needs neither Spark nor a node."""
    command = [*COMMAND, "pipeline", "run", "report", "--lake", str(tmp_path), "--every", "50ms", "--output", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    ends = (line for line in process.stdout if line == "}\n")
    assert [next(ends), next(ends)], "two rounds"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0 and "the next run goes on from here" in said


def test_a_pipeline_of_ones_own_begins_with_a_file(tmp_path: Path) -> None:
    made = goqueue("pipeline", "new", "shop", "--dir", str(tmp_path))
    assert made.exit_code == 0 and (tmp_path / "shop.toml").exists()
    again = goqueue("pipeline", "new", "shop", "--dir", str(tmp_path))
    assert again.exit_code == 2 and "already" in again.output
    assert goqueue("pipeline", "new", "../shop").exit_code == 2


def test_mistakes_in_a_file_are_told_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('name = "shop"\n[[source]]\nname = "a"\ntopic = "a b"\n')
    for command in ("check", "explain", "test", "run"):
        ended = goqueue("pipeline", command, str(tmp_path / "shop.toml"))
        assert ended.exit_code == 1 and "shop.toml:1: Object missing required field `sink`" in ended.output
    ended = goqueue("pipeline", "run", str(tmp_path / "shop.toml"), "--topics", "a")
    assert ended.exit_code == 2 and "A file says its topics" in ended.output
    ended = goqueue("pipeline", "run", "nothing")
    assert ended.exit_code == 2

"""The pages about pipelines are true: their examples run as printed, one page after the other on one node and in
one Spark session, and no option is missing."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.node_process import NodeProcess
from goqueue.cli import pipeline as commands
from goqueue.cli import pipeline_file
from goqueue.pipeline.options import READ, WRITE
from goqueue.pipeline.running import PIPELINES
from tests.cli.running import goqueue
from tests.docs.test_docs import ON_SPARK, examples, matches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", ON_SPARK)
def test_the_examples_work_as_printed(
    name: str, spark: SparkSession, module_node: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (commands, pipeline_file):
        monkeypatch.setattr(module, "_session", lambda found, master: nullcontext(spark))
    for language, code, expected in examples(PAGE.parent / name):
        placed = _placed(code, module_node, tmp_path)
        printed = _exec(placed) if language == "python" else "".join(_shell(placed, module_node))
        printed = printed.replace(f"{tmp_path}/", "/tmp/")
        if expected is not None:
            assert matches(printed, expected), f"{code}\nprinted:\n{printed}\nexpected:\n{expected}"


def _placed(code: str, node: NodeProcess, folder: Path) -> str:
    """The examples name the usual ports and folders; here they are others."""
    port = node.url.rpartition(":")[2]
    code = code.replace("8080", port).replace("localhost:9092", node.kafka)
    return re.sub(r"/(?:data|tmp)/", f"{folder}/", code)


def _exec(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})
    return out.getvalue()


def _shell(code: str, node: NodeProcess) -> Iterator[str]:
    """Pipelines run in this process, in the session that is there; everything else in a shell."""
    for part in re.split(r"^(goqueue pipeline .*\n)", code, flags=re.MULTILINE):
        if part.startswith("goqueue pipeline "):
            done = goqueue(*shlex.split(part)[1:], server=node.url)
            assert done.exit_code == 0, f"{part}\n{done.output}"
            yield done.stdout
        elif part.strip():
            yield _bash(part, node)


def _bash(code: str, node: NodeProcess) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "GOQUEUE_SERVER": node.url}
    done = subprocess.run(["bash", "-euc", code], capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_option_is_documented() -> None:
    read, write = PAGE.read_text().split("### Options of a read")[1].split("## Ready pipelines")[0].split("## Write")
    for name in READ:
        assert re.search(rf"^\| (?:`[\w.]+`, )*`{re.escape(name)}`", read, re.MULTILINE), name
    for name in WRITE:
        assert re.search(rf"^\| (?:`[\w.]+`, )*`{re.escape(name)}`", write, re.MULTILINE), name


def test_every_pipeline_has_its_part() -> None:
    text = PAGE.read_text()
    for name in PIPELINES:
        assert re.search(rf"^### {name}$", text, re.MULTILINE), name
        assert f"goqueue pipeline run {name}" in text, name

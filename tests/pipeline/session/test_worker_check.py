"""What the Python of Spark's workers has to have is asked for before anything begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from goqueue.cli import app
from goqueue.pipeline import session as session_module
from goqueue.pipeline.definition.template import template
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.session.worker_check import WorkersUnfit, check_workers


@pytest.mark.xdist_group("spark")
def test_a_module_that_workers_lack_is_told(spark: SparkSession) -> None:
    check_workers(spark, ("deltalake",))
    with pytest.raises(WorkersUnfit, match=r"cannot load no_such_module .* with pyarrow, pandas and no_such_module; "):
        check_workers(spark, ("no_such_module",))


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        (("check", "shop.toml"), ("deltalake",)),
        (("check", "topics.toml"), ()),
        (("serve", ".", "--listen", "off"), ("deltalake",)),
        (("run", "archive", "--topics", "a", "--lake", "lake"), ("deltalake",)),
    ],
)
def test_commands_name_what_their_work_needs(
    words: tuple[str, ...], needs: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def unfit(*given: object, worker_modules: object, **named: object) -> None:
        asked.append(worker_modules)
        raise PipelineError("the workers are unfit")

    monkeypatch.setattr(session_module, "session", unfit)
    monkeypatch.chdir(tmp_path)
    Path("shop.toml").write_text(template("shop"))
    topics = '[[source]]\nname = "a"\ntopic = "a"\n[[sink]]\nview = "a"\ntopic = "b"\n'
    Path("topics.toml").write_text(f'name = "topics"\n{topics}')
    ended = CliRunner().invoke(app, ["pipeline", *words], prog_name="goqueue")
    assert (ended.exit_code, asked) == (1, [needs]) and "error: the workers are unfit" in ended.output

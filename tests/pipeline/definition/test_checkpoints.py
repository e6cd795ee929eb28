"""Before anything runs: a checkpoint that is another's, and a lake that cannot be written, are one clear line."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from goqueue.cli.pipeline_failures import end_of_pipeline
from goqueue.pipeline.definition.checkpoints import CheckpointMismatch, CheckpointOwner, claim
from goqueue.pipeline.definition.lake_notes import NoteUnwritable
from goqueue.pipeline.definition.sinks import SinkPlace
from goqueue.pipeline.lake.stores import store
from goqueue.pipeline.link.errors import PipelineError

SINK = "table-copies"


def place(lake: Path | str, name: str = "shop") -> SinkPlace:
    return SinkPlace(name, str(lake), str(lake), {}, None, store("delta", str(lake), None), None)


def owner(name: str = "shop", topic: str = "orders") -> CheckpointOwner:
    return CheckpointOwner(name, SINK, {"orders": topic}, [])


def refused(where: SinkPlace, wanted: CheckpointOwner) -> PipelineError:
    with pytest.raises(PipelineError) as raised:
        claim(where, wanted)
    ended = end_of_pipeline(raised.value)
    assert ended is not None and "\n" not in ended.message
    return raised.value


def test_a_checkpoint_is_its_pipelines_alone(tmp_path: Path) -> None:
    claim(place(tmp_path), owner())
    claim(place(tmp_path), owner())
    assert "read orders before, and now clicks" in str(refused(place(tmp_path), owner(topic="clicks")))
    copied = place(tmp_path, "till")
    copytree(place(tmp_path).checkpoint(SINK), copied.checkpoint(SINK))
    assert "is the checkpoint of shop/table-copies" in str(refused(copied, owner("till")))


def test_a_checkpoint_of_something_else_is_left_alone(tmp_path: Path) -> None:
    folder = Path(place(tmp_path).checkpoint(SINK))
    folder.mkdir(parents=True)
    (folder / "metadata").write_text('{"id": "of a query"}')
    error = refused(place(tmp_path), owner())
    assert isinstance(error, CheckpointMismatch) and "is the checkpoint of something else" in str(error)
    assert [one.name for one in folder.iterdir()] == ["metadata"]


def test_a_lake_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Not even root makes folders in /proc."""
    error = refused(place("/proc/lake"), owner())
    assert isinstance(error, NoteUnwritable) and "/proc/lake" in str(error) and "cannot be written" in str(error)
    (tmp_path / "file").write_text("no lake")
    assert str(tmp_path / "file") in str(refused(place(tmp_path / "file"), owner()))

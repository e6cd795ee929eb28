"""Before anything runs: a checkpoint that is another's, and a lake that cannot be written, are one clear line."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from goqueue.cli.pipeline_failures import end_of_pipeline
from goqueue.pipeline.definition import lake_notes
from goqueue.pipeline.definition.checkpoints import CheckpointMismatch, CheckpointOwner, check_folder, claim
from goqueue.pipeline.definition.lake_notes import NoteUnwritable, write_note
from goqueue.pipeline.definition.sinks import SinkPlace
from goqueue.pipeline.definition.words import PipelineSink
from goqueue.pipeline.lake.errors import LakeUnwritable
from goqueue.pipeline.lake.stores import store
from goqueue.pipeline.link.errors import PipelineError

SINK = "table-copies"


def place(lake: Path | str, name: str = "shop") -> SinkPlace:
    return SinkPlace(name, str(lake), str(lake), {}, None, store("delta", str(lake), None), None)


def owner(name: str = "shop", topic: str = "orders", reads: list[str] | None = None) -> CheckpointOwner:
    return CheckpointOwner(name, SINK, {"orders": topic}, [], reads)


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


def test_a_checkpoint_is_bound_to_the_topics_that_its_sink_reads_in_their_order(tmp_path: Path) -> None:
    """Older notes have all topics of the pipeline, and are written anew."""
    claim(place(tmp_path), owner())
    claim(place(tmp_path), owner(reads=["orders", "payments"]))
    claim(place(tmp_path), owner(topic="of another sink", reads=["orders", "payments"]))
    error = refused(place(tmp_path), owner(reads=["payments", "orders"]))
    assert "read orders, payments before, and now payments, orders. Run it with --from-scratch" in str(error)


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


REFUSED = """The operation lacked the necessary privileges to complete for path x/a.json
          \x1b[31m↳\x1b[0m Error performing POST http://s3/x/a.json in 61.3ms - Server returned non-2xx status code
           \x1b[31m↳\x1b[0m 403 Forbidden
            \x1b[31m↳\x1b[0m <Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>
"""
BUSY = """Generic S3 error
          \x1b[31m↳\x1b[0m Error performing POST http://s3/lake/x/a.json?uploads= in 3.5s, after 10 retries, max_retries
           \x1b[31m↳\x1b[0m 10, retry_timeout
            \x1b[31m↳\x1b[0m 180s  - Server returned non-2xx status code
             \x1b[31m↳\x1b[0m 503 Service Unavailable
"""
AWAY = """Generic S3 error
          \x1b[31m↳\x1b[0m Error performing POST http://s3/lake/x/a.json?uploads= in 9.4s, after 10 retries, max_retries
           \x1b[31m↳\x1b[0m 10, retry_timeout
            \x1b[31m↳\x1b[0m 180s  - HTTP error
             \x1b[31m↳\x1b[0m Connection refused (os error 111)
"""
OWN_USER = "Choose a lake that this user may write to."
LATER = "run it again later."


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(REFUSED), OWN_USER),
        (OSError("Object at location x/a.json not found"), OWN_USER),
        (PermissionError(13, "Permission denied"), OWN_USER),
        (OSError(BUSY), LATER),
        (OSError(AWAY), LATER),
        (OSError("When initiating multiple part upload: AWS Error SLOW_DOWN during CreateMultipartUpload"), LATER),
        (OSError(28, "No space left on device"), "Make room there, and run it again."),
    ],
)
def test_storage_that_is_away_is_told_from_storage_that_refuses(
    error: OSError, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As delta-rs and Arrow say it."""

    class Storage:
        def open_output_stream(self, path: str, buffer_size: int) -> None:
            raise error

    monkeypatch.setattr(lake_notes, "place_of", lambda where: (Storage(), "a.json"))
    with pytest.raises(NoteUnwritable) as raised:
        write_note("s3://lake/x/a.json", owner())
    told = str(raised.value)
    assert told.startswith("s3://lake/x/a.json cannot be written") and told.endswith(advice)
    assert told.isprintable() and "↳" not in told and "  " not in told
    assert str(LakeUnwritable("s3://lake/x", error)).endswith(
        "Choose a folder or bucket that takes files." if advice == OWN_USER else advice
    )


def test_a_full_disk_is_told() -> None:
    with pytest.raises(NoteUnwritable, match=r"/dev/full cannot be written: .*No space left.* Make room there"):
        write_note("/dev/full", owner())


def test_a_folder_with_files_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    where = SinkPlace("export", str(tmp_path / "lake"), str(tmp_path), {}, None)
    sink = PipelineSink("numbers", file="out", format="json")
    check_folder(where, sink, anew=True)
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)
    with pytest.raises(CheckpointMismatch, match=r"/out has the files of another checkpoint.* Name another folder"):
        check_folder(where, sink, anew=False)
    begun = Path(where.checkpoint(sink.id))
    begun.mkdir(parents=True)
    (begun / "metadata").write_text("{}")
    check_folder(where, sink, anew=False)
    with pytest.raises(CheckpointMismatch, match="Name another folder"):
        check_folder(where, sink, anew=True)

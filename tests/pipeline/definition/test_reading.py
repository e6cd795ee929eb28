"""Mistakes in a pipeline's file: each is one line that names the file's line. Spark is not needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.pipeline.definition.mistakes import PipelineFileError
from goqueue.pipeline.definition.reading import PipelineFile, from_text, read_file
from goqueue.pipeline.definition.template import template

SOURCE = '[[source]]\nname = "orders"\ntopic = "orders"\n'
RULE = '[[rule]]\nname = "r"\nview = "orders"\nmust = "true"\n'
SINK = '[[sink]]\nview = "orders"\ntable = "copies"\n'


def read(text: str) -> PipelineFile:
    return from_text(Path("shop.toml"), text)


def told(text: str) -> list[str]:
    with pytest.raises(PipelineFileError) as raised:
        read(text)
    return str(raised.value).splitlines()


def test_the_template_is_a_whole_pipeline() -> None:
    found = read(template("shop")).definition
    assert (found.name, found.views(), [one.target for one in found.sink]) == (
        "shop",
        ["orders", "large"],
        ["table large_orders", "topic large-orders"],
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('name = "shop"\nsource = [', 2, "not TOML"),
        ('name = "shop"\n' + SOURCE, 1, "missing required field `sink`"),
        ('name = "shop"\nsink = []\n' + SOURCE, 1, "nothing would come of it"),
        ('name = "shop"\n' + SOURCE + 'watermrk = "at 5 minutes"\n' + SINK, 5, "unknown field `watermrk`"),
        ('name = "shop"\n' + SOURCE + "max_rows = 'many'\n" + SINK, 5, "max_rows: Expected `int`, got `str`"),
        ('name = "shop"\n' + SOURCE + 'watermark = "at ten minutes"\n' + SINK, 5, "like 'at 10 minutes'"),
        ('name = "shop"\n' + SOURCE + 'begin = "yesterday"\n' + SINK, 5, "begin is earliest, latest or a time"),
        (
            'name = "shop"\n' + SOURCE + SINK.replace("orders", "oders"),
            6,
            "there is no view 'oders'; did you mean 'orders'?",
        ),
        (
            'name = "shop"\n' + SOURCE + SINK.replace("table", "topic").replace("copies", "orders"),
            7,
            "would feed itself",
        ),
        ('name = "shop"\n' + SOURCE + SINK + 'mode = "merge"\n', 8, "merge needs keys"),
        ('name = "shop"\n' + SOURCE + SINK + 'mode = "upsert"\n', 8, "Invalid enum value 'upsert'"),
        ('name = "shop"\n' + SOURCE + SINK + 'keys = ["id"]\n', 8, 'keys goes with mode = "merge"'),
        ('name = "shop"\n' + SOURCE + SINK + SINK, 9, "is there twice"),
        ('name = "shop"\n' + SOURCE + SOURCE + SINK, 6, "there is a view 'orders' already"),
        ('name = "shop"\n' + SOURCE.replace('"orders"\n', '"a b"\n') + SINK, 3, "cannot be a view's name"),
        ('name = "shop"\n' + SOURCE + SINK + '[[step]]\nname = "a"\n', 8, "say either sql or python"),
        ('name = "shop"\n' + SOURCE + SINK + '[[step]]\nname = "a"\npython = "os"\n', 10, "FILE.py:FUNCTION"),
        ('name = "shop"\n' + SOURCE + 'table = "x"\n' + SINK, 4, "exactly one of topic, table and file"),
        ('name = "shop"\n[spark]\nx = 1\n' + SOURCE + SINK, 2, "Expected `str`, got `int`"),
        ('name = "shop"\n[maintenance]\nevery = "often"\n' + SOURCE + SINK, 3, "is not a duration"),
        ('name = "shop"\n[maintenance]\nevery = "1s"\n' + SOURCE + SINK, 3, "a minute or more"),
        ('name = "shop"\n[maintenance]\nfile_size = "big"\n' + SOURCE + SINK, 3, "is not a size"),
        ('name = "shop"\n[maintenance]\nexpire = "1d"\n' + SOURCE + SINK, 3, "say both or none"),
        ('name = "shop"\n[alerts]\ntopic = "orders"\n' + SOURCE + SINK, 3, "would feed itself"),
        ('name = "shop"\n[alerts]\ntopic = "a"\nlag_rows = -1\n' + SOURCE + SINK, 4, "0 or more"),
        ('name = "../x"\n' + SOURCE + SINK, 1, "letters, digits"),
        ('name = "shop"\n' + SOURCE + SINK + 'name = "../../.."\n', 8, "cannot be the name of a checkpoint"),
        ('name = "shop"\n' + SOURCE + SINK + 'name = ""\n', 8, "cannot be the name of a checkpoint"),
        ('name = "shop"\n' + SOURCE + SINK.replace("copies", "../copies"), 7, "cannot be a table's name"),
        ('name = "shop"\n' + SOURCE + SINK.replace("copies", "/copies"), 7, "cannot be a table's name"),
        ('name = "shop"\n' + SOURCE + SINK.replace("copies", ""), 7, "cannot be a table's name"),
        ('name = "shop"\n' + SOURCE + SINK.replace("copies", "_checkpoints/pipelines"), 7, "cannot be a table's name"),
        ('name = "shop"\n' + SOURCE.replace("topic", "table").replace('"orders"\n', '"a//b"\n', 1) + SINK, 3, "name"),
        ('name = "shop"\n' + SOURCE + SINK.replace("table", "file").replace("copies", "."), 7, "no folder of its own"),
        ('name = "shop"\n' + SOURCE.replace("topic", "file") + SINK, 4, "say format: csv, json, parquet"),
        ('name = "shop"\n' + SOURCE + RULE + 'quarantine = "../x"\n' + SINK, 9, "cannot be a table's name"),
        (
            'name = "shop"\n' + SOURCE + RULE + RULE + 'quarantine = "bad"\n' + SINK,
            13,
            "go to the table quarantine, as",
        ),
        ('name = "shop"\n' + SOURCE + RULE + SINK.replace("copies", "quarantine"), 11, "rows that break a rule go to"),
        (
            'name = "shop"\n' + SOURCE + SINK + '[[step]]\nname = "Orders"\nsql = "SELECT 1"\n',
            9,
            "a view 'orders' already",
        ),
        ('name = "shop"\n' + SOURCE + 'begin = "2026-13-41T00:00:00Z"\n' + SINK, 5, "or a time like"),
        ('name = "shop"\n' + SOURCE + SINK.replace("table", "topic") + 'partition_by = ["a"]\n', 8, "are divided"),
        ('name = "shop"\n[maintenance]\nfile_size = "0"\n' + SOURCE + SINK, 3, "between 1 and 1024GiB"),
        ('name = "shop"\n[maintenance]\nfile_size = "9999999GiB"\n' + SOURCE + SINK, 3, "between 1 and 1024GiB"),
        ('name = "shop"\n[maintenance]\nexpire_by = "at"\nexpire = "99999999d"\n' + SOURCE + SINK, 4, "36500d or less"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(text: str, line: int, words: str) -> None:
    (found,) = (one for one in told(text) if words in one)
    assert found.startswith(f"shop.toml:{line}: ")


def test_all_mistakes_of_the_file_are_told_at_once() -> None:
    text = 'name = "shop"\n' + SOURCE + SINK + 'keys = ["id"]\n[[rule]]\nname = "r"\nview = "x"\nmust = "true"\n'
    assert [line.split(":")[1] for line in told(text)] == ["8", "11"]


def test_texts_over_several_lines_do_not_move_places() -> None:
    step = '[[step]]\nname = "a"\nsql = """\nSELECT 1\n[[sink]]\nname = 3\n"""\n'
    (found,) = told('name = "shop"\n' + SOURCE + step + SINK + 'keys = ["id"]\n')
    assert found.startswith("shop.toml:15: ")


def test_a_mark_before_the_text_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text("name = 'shop'\n" + SOURCE + SINK, encoding="utf-8-sig")
    assert read_file(tmp_path / "shop.toml").definition.name == "shop"


def test_a_file_that_is_none_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="No such file"):
        read_file(tmp_path / "none.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(PipelineFileError, match="larger than 1024 KiB"):
        read_file(tmp_path / "large.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(PipelineFileError, match=r"deep.toml:1: "):
        read_file(tmp_path / "deep.toml")

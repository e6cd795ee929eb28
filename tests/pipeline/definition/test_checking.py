"""What Spark would refuse is told before anything runs, in one line with the file's line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from goqueue.pipeline.definition.mistakes import PipelineFileError
from goqueue.pipeline.definition.planning import empty_frames
from goqueue.pipeline.definition.template import template
from goqueue.pipeline.definition.testing import run_tests
from goqueue.pipeline.definition.views import plain
from tests.pipeline.definition.files import check, written

pytestmark = pytest.mark.xdist_group("spark")

HEAD = """name = "shop"
[[source]]
name = "orders"
topic = "orders"
columns = "id string, total double, at timestamp"
WATERMARK
[[step]]
name = "found"
sql = \"\"\"
SQL
\"\"\"
[[sink]]
view = "found"
table = "found"
REST
"""


def text(sql: str, watermark: str = "", rest: str = "") -> str:
    return HEAD.replace("SQL", sql).replace("WATERMARK", watermark).replace("REST", rest)


BROKEN = '[[rule]]\nname = "r"\nview = "found"\nmust = "true"'
AT = 'watermark = "at 10 minutes"'
WINDOWS = "SELECT window.start AS began, count(*) AS orders\nFROM orders GROUP BY window(at, '5 minutes')"


@pytest.mark.parametrize(
    ("sql", "watermark", "rest", "line", "words"),
    [
        ("SELECT id,\n  totl\nFROM orders", "", "", 11, "`totl`"),
        ("SELECT id\nFORM orders", "", "", 11, "Syntax error"),
        ("SELECT id FROM oders", "", "", 10, "`oders` cannot be found"),
        ("SELECT id + at AS x FROM orders", "", "", 10, "mismatch"),
        (WINDOWS, "", "", 13, "watermark"),
        (WINDOWS, 'watermark = "when 10 minutes"', "", 6, "`when`"),
        (WINDOWS, 'watermark = "id 10 minutes"', "", 6, "id"),
        (WINDOWS, 'watermark = "at 10 parsecs"', "", 6, "parsecs"),
        (
            "SELECT id FROM orders",
            "",
            'mode = "merge"\nkeys = ["number"]',
            16,
            "found has no column 'number'; it has id",
        ),
        ("SELECT 1 AS id", "", "", 12, "every run would append all of it again"),
        ("SELECT id, total AS ID FROM orders", "", "", 13, "the column 'ID' twice"),
        ("SELECT id FROM orders", "", 'mode = "merge"\nkeys = ["id"]\ndelete_when = "gone"', 17, "no column 'gone'"),
        (
            "SELECT * FROM orders",
            "",
            'mode = "merge"\nkeys = ["id"]\ndelete_when = "total"',
            17,
            "is double, and not true",
        ),
        (
            "SELECT id, total FROM orders",
            "",
            'partition_by = ["total"]',
            15,
            "'total' is double; a table is divided by",
        ),
        (
            "SELECT id FROM orders",
            "",
            BROKEN.replace("true", "sum(total) > 0").replace("found", "orders"),
            18,
            "rule 'r'",
        ),
    ],
)
def test_what_spark_refuses(
    spark: SparkSession, tmp_path: Path, sql: str, watermark: str, rest: str, line: int, words: str
) -> None:
    file = written(tmp_path, text(sql, watermark, rest))
    with pytest.raises(PipelineFileError) as raised:
        check(spark, file)
    (told,) = str(raised.value).splitlines()
    assert told.startswith(f"shop.toml:{line}: ") and words in told, told


def test_a_catalogue_without_a_driver_is_told_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    """No run of the file's own tests needs one."""
    catalogued = 'format = "iceberg"\ncatalog = "foo+bar://x"\n' + text("SELECT id FROM orders")
    file = written(tmp_path, catalogued)
    with pytest.raises(PipelineFileError, match=r"^shop.toml:2: catalog: no kind of database is called 'foo\+bar'"):
        check(spark, file)
    with empty_frames(spark, file, file.place("lake"), {}) as like:
        assert list(run_tests(spark, file, like)) == []


def test_names_that_sql_made_up_are_columns_of_messages_and_refused_for_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    made_up = text("SELECT id, total * 1.5 FROM orders", "", BROKEN)
    with pytest.raises(PipelineFileError, match=r"column '\(total \* 1\.5\)' needs a name without a dot"):
        check(spark, written(tmp_path, made_up))
    check(spark, written(tmp_path, made_up.replace('table = "found"', 'topic = "found"')))


def test_sound_pipelines_pass(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, written(tmp_path, text(WINDOWS, AT)))
    check(spark, written(tmp_path, text(WINDOWS, "", 'mode = "merge"\nkeys = ["began"]')))
    check(spark, written(tmp_path, text("SELECT id FROM orders")))


def test_a_function_of_ones_own_is_a_step(spark: SparkSession, tmp_path: Path) -> None:
    asked = text("SELECT id FROM orders") + '[[step]]\nname = "own"\npython = "steps.py:doubled"\n'
    (tmp_path / "steps.py").write_text(
        "def doubled(views):\n    return views['orders'].selectExpr('total * 2 AS twice')\n"
    )
    check(spark, written(tmp_path, asked))
    with pytest.raises(PipelineFileError, match=r"shop.toml:\d+: step 'own': steps.py has no function 'tripled'"):
        check(spark, written(tmp_path, asked.replace("doubled", "tripled")))
    with pytest.raises(PipelineFileError, match=r"there is no file nowhere.py"):
        check(spark, written(tmp_path, asked.replace("steps.py", "nowhere.py")))


@pytest.mark.parametrize(
    ("code", "words"),
    [("raise KeyError('totl')", "KeyError: 'totl'"), ("raise SystemExit(3)", "ended the program (SystemExit: 3)")],
)
def test_what_a_function_raises_is_a_mistake(spark: SparkSession, tmp_path: Path, code: str, words: str) -> None:
    (tmp_path / "steps.py").write_text(f"def found(views):\n    {code}\n")
    called = text("SQL").replace('sql = """\nSQL\n"""', 'python = "steps.py:found"')
    with pytest.raises(PipelineFileError) as raised:
        check(spark, written(tmp_path, called))
    assert str(raised.value).startswith("shop.toml:9: step 'found': ") and words in str(raised.value)


def test_what_is_raised_in_a_worker_of_spark_is_told_without_its_traceback() -> None:
    inside = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):\n"
        '  File "datasource.py", line 48, in schema\n    return self._schema(read_options(self.options))\n'
        "goqueue.pipeline.source.errors.Untyped: No schema is registered for the values of 'orders'.\n"
    )
    assert plain(ValueError(inside)) == "No schema is registered for the values of 'orders'."


def test_tests_of_the_file_say_what_differs(spark: SparkSession, tmp_path: Path) -> None:
    file = written(tmp_path, template("shop").replace("expect.large = [{ id =", 'expect.large = [{ id = "z" }, { id ='))
    with empty_frames(spark, file, file.place("lake"), {}) as like:
        (verdict,) = run_tests(spark, file, like)
    assert verdict.differences == ["large: missing {'id': 'z'}"]
    whole = written(tmp_path, template("shop"))
    with empty_frames(spark, whole, whole.place("lake"), {}) as like:
        assert [one.differences for one in run_tests(spark, whole, like)] == [[]]

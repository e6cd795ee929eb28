"""What Spark would refuse is told before anything runs, in one line with the file's line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from goqueue.pipeline.definition.mistakes import PipelineFileError
from goqueue.pipeline.definition.planning import empty_frames
from goqueue.pipeline.definition.template import template
from goqueue.pipeline.definition.testing import run_tests
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


def test_tests_of_the_file_say_what_differs(spark: SparkSession, tmp_path: Path) -> None:
    file = written(tmp_path, template("shop").replace("expect.large = [{ id =", 'expect.large = [{ id = "z" }, { id ='))
    with empty_frames(spark, file, file.place("lake"), {}) as like:
        (verdict,) = run_tests(spark, file, like)
    assert verdict.differences == ["large: missing {'id': 'z'}"]
    whole = written(tmp_path, template("shop"))
    with empty_frames(spark, whole, whole.place("lake"), {}) as like:
        assert [one.differences for one in run_tests(spark, whole, like)] == [[]]

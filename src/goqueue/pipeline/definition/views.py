"""All views of a pipeline: sources, then steps in the order of the file, each without the rows that break its rules."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final

import msgspec
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.pipeline.definition.frames import PLACE, Frames
from goqueue.pipeline.definition.mistakes import Mistake, PipelineFileError
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.words import PipelineSource, RowRule, Step

_CLASS: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_OURS: Final = re.compile(r"^goqueue\.[\w.]+: (.+)$", re.MULTILINE)
BROKEN: Final = "_broken"

Function = Callable[[Mapping[str, DataFrame]], DataFrame]


class Views(msgspec.Struct):
    """Frames by name. `broken` are rows of views with rules that broke one, with the names of the rules."""

    frames: dict[str, DataFrame] = {}
    broken: dict[str, DataFrame] = {}


def build_views(spark: SparkSession, file: PipelineFile, frames: Frames) -> Views:
    """Every view of the file, as the session's temporary views too. `PipelineFileError` names what Spark refuses."""
    asked, views = file.definition, Views({}, {})
    for number, source in enumerate(asked.source):
        with told_at(file, f"source {source.name!r}", ("source", number, _said(source))):
            _add(file, views, source.name, frames.frame(source), source.watermark)
    for number, step in enumerate(asked.step):
        key = "sql" if step.sql is not None else "python"
        with told_at(file, f"step {step.name!r}", ("step", number, key), step.sql or ""):
            _add(file, views, step.name, _made(spark, file, step, views.frames), step.watermark)
    return views


def _said(source: PipelineSource) -> str:
    """The key that most likely is at fault."""
    if source.watermark is not None:
        return "watermark"
    return "table" if source.table is not None else "file" if source.file is not None else "columns"


def _made(spark: SparkSession, file: PipelineFile, step: Step, frames: Mapping[str, DataFrame]) -> DataFrame:
    if step.sql is not None:
        return spark.sql(step.sql)
    try:
        made = function(file, str(step.python))(frames)
    except SystemExit as error:
        raise RuntimeError(f"the function ended the program (SystemExit: {error})") from None
    if not isinstance(made, DataFrame):
        raise TypeError(f"the function returned {type(made).__name__}, and not a DataFrame")
    return made


def function(file: PipelineFile, name: str) -> Function:
    """`FILE.py:FUNCTION`, beside the pipeline's file. What it gives to workers goes there by value."""
    path, _, called = name.rpartition(":")
    where = Path(file.place(path))
    spec = spec_from_file_location(f"goqueue_pipeline_{where.stem}", where)
    if spec is None or spec.loader is None or not where.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    found: Function | None = getattr(module, called, None)
    if not callable(found):
        raise AttributeError(f"{path} has no function {called!r}")
    return found


def _add(file: PipelineFile, views: Views, name: str, rows: DataFrame, watermark: str | None) -> None:
    """Rules come before the watermark: a row that is left out makes no other row late."""
    rules = file.definition.rules_of(name)
    if rules:
        _check_rules(file, name, rows)
        checked = rows.withColumn(BROKEN, _broken(rules))
        # Its checkpoint names the watermark, so it keeps one.
        views.broken[name] = marked(checked.where(f.size(BROKEN) > 0), watermark)
        rows = checked.where(f.size(BROKEN) == 0).drop(BROKEN)
    views.frames[name] = marked(rows, watermark)
    views.frames[name].createOrReplaceTempView(name)


def _check_rules(file: PipelineFile, name: str, rows: DataFrame) -> None:
    for number, rule in enumerate(file.definition.rule):
        if rule.view == name:
            with told_at(file, f"rule {rule.name!r}", ("rule", number, "must")):
                rows.where(f.expr(rule.must).cast("boolean"))


def marked(rows: DataFrame, watermark: str | None) -> DataFrame:
    if watermark is None:
        return rows
    column, span = watermark.split(maxsplit=1)
    return rows.withWatermark(column, span)


def _broken(rules: list[RowRule]) -> Column:
    """The names of the rules that are not true; of what is null nobody knows, so it is not true."""
    each = [
        f.when(f.coalesce(f.expr(rule.must).cast("boolean"), f.lit(False)), f.lit(None)).otherwise(f.lit(rule.name))
        for rule in rules
    ]
    return f.filter(f.array(*each), lambda one: one.isNotNull())


def quarantined(rows: DataFrame, pipeline: str, view: str) -> DataFrame:
    """Broken rows of any view in one shape: which rules, the whole row as JSON, and the message it came from."""
    kept = [name for name in rows.columns if name != BROKEN]
    place = {"_topic": "string", "_partition": "int", "_offset": "bigint"}
    return rows.select(
        f.lit(pipeline).alias("pipeline"),
        f.lit(view).alias("view"),
        f.col(BROKEN).alias("rules"),
        f.to_json(f.struct(*(f"`{name}`" for name in kept if name not in PLACE))).alias("row"),
        *(
            f.col(name).cast(kind).alias(name[1:]) if name in kept else _null(name[1:], kind)
            for name, kind in place.items()
        ),
        f.current_timestamp().alias("at"),
    )


def _null(name: str, kind: str) -> Column:
    return f.lit(None).cast(kind).alias(name)


class told_at:  # noqa: N801 - used as `with told_at(...)`
    """What Spark or a function of the user raises becomes one line with the place in the file."""

    def __init__(self, file: PipelineFile, about: str, where: tuple[str, int, str], sql: str = "") -> None:
        self._file, self._about, self._where, self._sql = file, about, where, sql

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, PipelineFileError) or not isinstance(error, Exception):
            return
        message = str(error) if type(error).__module__.startswith("goqueue.") else plain(error)
        raise self._file.refuse(Mistake(f"{self._about}: {message}", self._where, self._below(error))) from error

    def _below(self, error: Exception) -> int:
        """How many lines below the key Spark points."""
        if not isinstance(error, AnalysisException | ParseException) or not self._sql:
            return 0
        contexts = error.getQueryContext()
        line = re.search(r"\(line (\d+), pos \d+\)", str(error))
        if contexts and contexts[0].startIndex() >= 0:
            inside = self._sql.count("\n", 0, contexts[0].startIndex())
        else:
            inside = int(line[1]) - 1 if line else 0
        return inside + self._file.text_begins_below(self._where)


def plain(error: Exception) -> str:
    """The first line of what was raised, without Spark's class, state and plan."""
    text = str(error.getMessage() or "") if isinstance(error, PySparkException) else str(error)
    if raised := _OURS.findall(text):
        return " ".join(str(raised[-1]).split())  # inside one of Spark's Python workers
    if isinstance(error, KeyError):
        return f"KeyError: {text}"
    text = _STATE.sub("", _CLASS.sub("", text.strip() or type(error).__name__))
    return " ".join(text.split("\n\n")[0].split()) or type(error).__name__

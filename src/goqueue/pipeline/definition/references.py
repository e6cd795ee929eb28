"""Mistakes that show without Spark: names that nobody defines, targets that are sources, choices that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from goqueue.base.errors import InvalidField, InvalidName
from goqueue.base.names import check_name
from goqueue.base.settings import parse_size
from goqueue.base.times import parse_duration_ms, parse_time_ms
from goqueue.pipeline.definition.mistakes import Mistake
from goqueue.pipeline.definition.words import NAME, Definition, Maintenance, PipelineSink, PipelineSource, Step

_NAME: Final = re.compile(NAME)
_WATERMARK: Final = re.compile(r"^\s*[A-Za-z_]\w*\s+\d+(\.\d+)?\s+[a-z]+\s*$")
_BEGIN: Final = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$")
_MINUTE_MS: Final = 60_000
_CENTURY_MS: Final = 36_500 * 86_400_000
_FILE_BYTES_MAX: Final = 1 << 40
_PYTHON: Final = re.compile(r"^[^:]+\.py:[A-Za-z_]\w*$")
_CHECKPOINT: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,199}$")
_TABLE_PART: Final = re.compile(r"^[^_.\s/\\:*?\x00-\x1f][^/\\:*?\x00-\x1f]{0,199}$")
_FORMATS: Final = ("csv", "json", "parquet")


def mistakes_in(asked: Definition) -> Iterator[Mistake]:
    if not _NAME.match(asked.name.replace("-", "_")):
        yield Mistake(f"name: {asked.name!r} has to be letters, digits, - and _", ("", 0, "name"))
    if asked.catalog is not None and asked.format != "iceberg":
        yield Mistake('catalog goes with format = "iceberg"', ("", 0, "catalog"))
    if asked.catalog is not None and "://" not in asked.catalog:
        yield Mistake("catalog is the address of a database, like sqlite:////data/lake.db", ("", 0, "catalog"))
    if not asked.source:
        yield Mistake("there is no [[source]]")
    if not asked.sink:
        yield Mistake("there is no [[sink]]: nothing would come of it")
    yield from _names(asked)
    for number, source in enumerate(asked.source):
        yield from _of_source(source, number)
    for number, step in enumerate(asked.step):
        yield from _of_step(step, number)
    yield from _of_rules(asked)
    for number, sink in enumerate(asked.sink):
        yield from _of_sink(asked, sink, number)
    yield from _doubled_sinks(asked)
    yield from _of_tests(asked)
    yield from _of_maintenance(asked.maintenance)
    yield from _of_alerts(asked)


def _names(asked: Definition) -> Iterator[Mistake]:
    seen: dict[str, str] = {}  # by what SQL makes of them, which does not tell A from a
    places = [("source", n, one.name) for n, one in enumerate(asked.source)]
    places += [("step", n, one.name) for n, one in enumerate(asked.step)]
    for section, number, name in places:
        if not _NAME.match(name):
            yield Mistake(
                f"{section}: {name!r} cannot be a view's name: letters, digits and _", (section, number, "name")
            )
        if name.lower() in seen:
            yield Mistake(f"{section}: there is a view {seen[name.lower()]!r} already", (section, number, "name"))
        seen.setdefault(name.lower(), name)


def _of_source(source: PipelineSource, number: int) -> Iterator[Mistake]:
    told = f"source {source.name!r}"
    given = [kind for kind in ("topic", "table", "file") if getattr(source, kind) is not None]
    if len(given) != 1:
        yield Mistake(
            f"{told}: say exactly one of topic, table and file", ("source", number, given[0] if given else "")
        )
        return
    if source.topic is not None:
        yield from _topic(source.topic, told, ("source", number, "topic"))
    if source.table is not None:
        yield from _table(source.table, told, ("source", number, "table"))
    if source.file is not None:
        yield from _file(source, told, number)
    if source.topic is None and source.schema != "none":
        yield Mistake(f"{told}: only topics have schemas in the registry", ("source", number, "schema"))
    if source.schema == "registry" and source.columns is not None:
        yield Mistake(f"{told}: the registry says the columns; take columns away", ("source", number, "columns"))
    if source.format is not None and source.file is None:
        yield Mistake(f"{told}: only files have a format", ("source", number, "format"))
    if source.as_of is not None and source.table is None:
        yield Mistake(f"{told}: only tables have older versions", ("source", number, "as_of"))
    if source.as_of is not None and not _is_time(source.as_of):
        told_as_of = f"{told}: as_of is a time like 2026-01-31T12:00:00Z, not {source.as_of!r}"
        yield Mistake(told_as_of, ("source", number, "as_of"))
    if source.begin not in ("earliest", "latest") and not _is_time(source.begin):
        told_begin = f"{told}: begin is earliest, latest or a time like 2026-01-31T12:00:00Z, not {source.begin!r}"
        yield Mistake(told_begin, ("source", number, "begin"))
    if not 1 <= source.max_rows <= 10_000_000:
        yield Mistake(f"{told}: max_rows is between 1 and 10,000,000", ("source", number, "max_rows"))
    yield from _watermark(source.watermark, told, "source", number)


def _is_time(text: str) -> bool:
    try:
        return _BEGIN.match(text) is not None and parse_time_ms(text, "time") >= 0
    except InvalidField:
        return False


def _file(source: PipelineSource, told: str, number: int) -> Iterator[Mistake]:
    kind = source.format or str(source.file).rpartition(".")[2].lower()
    if kind not in _FORMATS:
        message = f"{told}: {source.file!r} does not tell by its end what is in it; say format: {', '.join(_FORMATS)}"
        yield Mistake(message, ("source", number, "file"))


def _table(name: str, told: str, where: tuple[str, int, str]) -> Iterator[Mistake]:
    """A name is a folder in the lake, or several. What begins with an underscore is no table's."""
    if not all(_TABLE_PART.match(part) for part in name.split("/")):
        yield Mistake(
            f"{told}: {name!r} cannot be a table's name: a folder in the lake, like orders or eu/orders", where
        )


def _of_step(step: Step, number: int) -> Iterator[Mistake]:
    told = f"step {step.name!r}"
    if (step.sql is None) == (step.python is None):
        yield Mistake(f"{told}: say either sql or python", ("step", number, "sql"))
    if step.python is not None and not _PYTHON.match(step.python):
        yield Mistake(f"{told}: python is FILE.py:FUNCTION, not {step.python!r}", ("step", number, "python"))
    yield from _watermark(step.watermark, told, "step", number)


def _watermark(given: str | None, told: str, section: str, number: int) -> Iterator[Mistake]:
    if given is not None and not _WATERMARK.match(given):
        message = f"{told}: a watermark is a column and a span, like 'at 10 minutes', not {given!r}"
        yield Mistake(message, (section, number, "watermark"))


def _of_rules(asked: Definition) -> Iterator[Mistake]:
    for number, rule in enumerate(asked.rule):
        told = f"rule {rule.name!r}"
        yield from _view(asked, rule.view, told, ("rule", number, "view"))
        yield from _table(rule.quarantine, told, ("rule", number, "quarantine"))
        first = asked.rules_of(rule.view)[0]
        if rule.quarantine != first.quarantine:
            one = f"rows of {rule.view} that break a rule go to the table {first.quarantine}, as {first.name!r} says"
            yield Mistake(f"{told}: {one}", ("rule", number, "quarantine"))


def _of_sink(asked: Definition, sink: PipelineSink, number: int) -> Iterator[Mistake]:
    given = [kind for kind, name in sink.targets() if name is not None]
    if len(given) != 1:
        yield Mistake("sink: say exactly one of topic, table and file", ("sink", number, given[0] if given else ""))
        return
    told = f"sink {sink.target!r}"
    yield from _view(asked, sink.view, told, ("sink", number, "view"))
    if sink.name is not None and not _CHECKPOINT.match(sink.name):
        message = f"{told}: {sink.name!r} cannot be the name of a checkpoint: letters, digits, - and _"
        yield Mistake(message, ("sink", number, "name"))
    if sink.table is not None:
        yield from _table(sink.table, told, ("sink", number, "table"))
    if sink.table is not None and sink.table in asked.broken_tables():
        yield Mistake(f"{told}: rows that break a rule go to that table; name another one", ("sink", number, "table"))
    if sink.file is not None and not sink.file.strip("./ "):
        yield Mistake(f"{told}: {sink.file!r} is no folder of its own", ("sink", number, "file"))
    if sink.topic is not None:
        yield from _topic(sink.topic, told, ("sink", number, "topic"))
    if _is_source(asked, sink):
        yield Mistake(f"{told} is a source of this pipeline: it would feed itself", ("sink", number, given[0]))
    yield from _of_mode(sink, told, number)


def _of_mode(sink: PipelineSink, told: str, number: int) -> Iterator[Mistake]:
    if sink.mode == "merge" and sink.table is None:
        yield Mistake(f"{told}: only tables are merged into", ("sink", number, "mode"))
    if sink.mode == "merge" and not sink.keys:
        yield Mistake(f"{told}: merge needs keys, the columns that name a row", ("sink", number, "mode"))
    if sink.mode == "overwrite" and sink.topic is not None:
        yield Mistake(f"{told}: a topic cannot be overwritten", ("sink", number, "mode"))
    for key in ("keys", "order", "delete_when"):
        if getattr(sink, key) and sink.mode != "merge":
            yield Mistake(f'{told}: {key} goes with mode = "merge"', ("sink", number, key))
    if sink.partition_by and sink.topic is not None:
        yield Mistake(
            f"{told}: only tables and files are divided; a topic's key decides", ("sink", number, "partition_by")
        )
    for key in ("key", "value"):
        if getattr(sink, key) and sink.topic is None:
            yield Mistake(f"{told}: only messages of a topic have a {key}", ("sink", number, key))


def _is_source(asked: Definition, sink: PipelineSink) -> bool:
    return any(
        (sink.topic is not None and sink.topic == one.topic)
        or (sink.table is not None and sink.table == one.table)
        or (sink.file is not None and sink.file == one.file)
        for one in asked.source
    )


def _doubled_sinks(asked: Definition) -> Iterator[Mistake]:
    seen: set[str] = set()
    for number, sink in enumerate(asked.sink):
        if not any(name is not None for _, name in sink.targets()):
            continue
        if sink.id in seen:
            yield Mistake(f"sink {sink.id!r} is there twice; give one a name of its own", ("sink", number, "view"))
        seen.add(sink.id)


def _of_tests(asked: Definition) -> Iterator[Mistake]:
    sources = [one.name for one in asked.source]
    for number, test in enumerate(asked.test):
        for view in test.given:
            if view not in sources:
                yield Mistake(f"test {test.name!r}: {_no(view, sources, 'source')}", ("test", number, "given"))
        for view in test.expect:
            yield from _view(asked, view, f"test {test.name!r}", ("test", number, "expect"))


def _of_maintenance(asked: Maintenance | None) -> Iterator[Mistake]:
    if asked is None:
        return
    for key in ("every", "retention", "expire"):
        text = getattr(asked, key)
        try:
            span_ms = None if text is None else parse_duration_ms(text, key)
            if span_ms is not None and span_ms > _CENTURY_MS:
                yield Mistake(f"maintenance: {key} is 36500d or less, not {text!r}", ("maintenance", 0, key))
            elif span_ms is not None and span_ms < _MINUTE_MS and key != "retention":
                yield Mistake(f"maintenance: {key} is a minute or more, not {text!r}", ("maintenance", 0, key))
        except InvalidField as error:
            yield Mistake(f"maintenance: {error.message}", ("maintenance", 0, key))
    try:
        if not 1 <= parse_size(asked.file_size) <= _FILE_BYTES_MAX:
            told = f"maintenance: file_size is between 1 and 1024GiB, not {asked.file_size!r}"
            yield Mistake(told, ("maintenance", 0, "file_size"))
    except ValueError as error:
        yield Mistake(f"maintenance: file_size {error}", ("maintenance", 0, "file_size"))
    if (asked.expire is None) != (asked.expire_by is None):
        told = "maintenance: expire says how old rows become, expire_by the column with their time; say both or none"
        yield Mistake(told, ("maintenance", 0, "expire" if asked.expire_by is None else "expire_by"))


def _of_alerts(asked: Definition) -> Iterator[Mistake]:
    if asked.alerts is None:
        return
    yield from _topic(asked.alerts.topic, "alerts", ("alerts", 0, "topic"))
    if asked.alerts.topic in {one.topic for one in asked.source}:
        yield Mistake("alerts: the topic is a source of this pipeline: it would feed itself", ("alerts", 0, "topic"))
    for name, limit in asked.alerts.limits().items():
        if limit < 0:
            yield Mistake(f"alerts: {name} is 0 or more", ("alerts", 0, name))


def _view(asked: Definition, name: str, told: str, where: tuple[str, int, str]) -> Iterator[Mistake]:
    if name not in asked.views():
        yield Mistake(f"{told}: {_no(name, asked.views(), 'view')}", where)


def _no(name: str, known: Sequence[str], kind: str) -> str:
    near = get_close_matches(name, known, 1)
    return f"there is no {kind} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _topic(name: str, told: str, where: tuple[str, int, str]) -> Iterator[Mistake]:
    try:
        check_name(name)
    except InvalidName as error:
        yield Mistake(f"{told}: {error.message}", where)

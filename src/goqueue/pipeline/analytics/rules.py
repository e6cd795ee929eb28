"""Users' own rules: a name and a condition in Spark's SQL that every message has to meet.

A file of JSON, `{"positive_amount": "get_json_object(text, '$.amount') > 0.0"}`, or with the topics that a rule is for,
`{"positive_amount": {"check": "...", "topics": ["orders"]}}`. Or a file of SQL:

    -- positive_amount: orders, payments
    get_json_object(text, '$.amount') > 0.0;

A condition sees the message's columns and `text`, its value as text. A message passes where the condition is true.
Where it is null, as with a member that is missing, or text where a number should be, it does not pass. Text compares
with a fraction like 0.0 as a number; with a whole number like 0 it is cut to a whole number first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from goqueue.base.decoders import from_json
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.storage import read_text

RULES_MAX: Final = 1_000
_ANSI: Final = "spark.sql.ansi.enabled"
_HEAD: Final = re.compile(r"^\s*--\s*([^\s:]+)\s*(?::\s*(.*?))?\s*$")


class Rule(msgspec.Struct, frozen=True):
    """`topics` empty means all."""

    name: str
    check: str
    topics: tuple[str, ...] = ()


class _Told(msgspec.Struct, forbid_unknown_fields=True):
    check: str
    topics: tuple[str, ...] = ()


def load_rules(path: str) -> list[Rule]:
    """The rules in a file that ends with .json or .sql."""
    text = read_text(path)
    if text is None:
        raise PipelineError(f"There is no file {path!r} with rules.")
    rules = _sql_rules(text, path) if path.endswith(".sql") else _json_rules(text, path)
    if len(rules) > RULES_MAX:
        raise PipelineError(f"{path!r} has {len(rules)} rules; {RULES_MAX} are the most.")
    return rules


def _json_rules(text: str, path: str) -> list[Rule]:
    try:
        told: dict[str, str | _Told] = from_json(text, dict[str, str | _Told])
    except msgspec.MsgspecError as error:
        raise PipelineError(f'{path!r} is no JSON of rules like {{"name": "condition"}}: {error}.') from None
    return [_rule(name, one) for name, one in told.items()]


def _rule(name: str, told: str | _Told) -> Rule:
    return Rule(name, told) if isinstance(told, str) else Rule(name, told.check, told.topics)


def _sql_rules(text: str, path: str) -> list[Rule]:
    rules: list[Rule] = []
    name, topics, lines = "", "", list[str]()
    for line in [*text.splitlines(), "-- end"]:
        head = _HEAD.match(line)
        if head is None:
            lines.append(line)
            continue
        check = "\n".join(lines).strip().rstrip(";").strip()
        if check and not name:
            raise PipelineError(f"A condition in {path!r} has no name; write `-- name` on a line before it.")
        if check:
            rules.append(Rule(name, check, tuple(one.strip() for one in topics.split(",") if one.strip())))
        name, topics, lines = head[1], head[2] or "", []
    return rules


def broken(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """The frame with the column `broken`: the names of the rules that a message does not meet."""
    with _Lenient(frame):
        found = [_broken(frame, one) for one in rules]
        listed = f.array_compact(f.array(*found)) if found else f.array().cast("array<string>")
        return frame.withColumn("broken", listed)


def _broken(frame: DataFrame, rule: Rule) -> Column:
    try:
        kind = frame.select(f.expr(rule.check).alias("fits")).schema["fits"].dataType.simpleString()
    except (AnalysisException, ParseException) as error:
        told = str(error).partition("SQLSTATE")[0].partition("\n")[0]
        raise PipelineError(f"The rule {rule.name!r} cannot be used: {told}") from None
    if kind not in ("boolean", "void"):
        raise PipelineError(f"The rule {rule.name!r} gives {kind}; a rule is a condition that is true or false.")
    is_for = f.col("topic").isin(list(rule.topics)) if rule.topics else f.lit(True)
    return f.when(is_for & ~f.coalesce(f.expr(rule.check), f.lit(False)), f.lit(rule.name))


class _Lenient:
    """While it lasts, SQL that cannot be computed for a row is null and no error: one bad row must not stop others."""

    def __init__(self, frame: DataFrame) -> None:
        self._conf = frame.sparkSession.conf

    def __enter__(self) -> None:
        self._before = self._conf.get(_ANSI)
        self._conf.set(_ANSI, "false")

    def __exit__(self, *why: Any) -> None:
        self._conf.set(_ANSI, self._before or "true")

"""Redrives that bring back the letters of one fingerprint each, in the words that the broker's redrive understands.

The broker chooses letters by reason, group and time of death, and knows nothing of fingerprints. So deaths of one group
and reason are cut into stretches of time in which all have the same fingerprint. Deaths of different fingerprints in
the same millisecond cannot be told apart that way: they are left out, and counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from goqueue.base.decoders import from_json
from goqueue.client import Client, GoQueueClientError
from goqueue.client.dead_letters import Redrive, dry_run, redrive, redrive_progress
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.running import Progress

LIST_MAX: Final = 10_000
_DEATH: Final = ("letter_topic", "topic", "group", "reason")
_PAUSE_S: Final = 0.05
_PAUSE_S_MAX: Final = 1.0


class Stretch(msgspec.Struct, frozen=True):
    """Letters of one fingerprint, and the redrive that means them: `POST` `body` to `path`."""

    fingerprint: str
    topic: str
    letters: int
    path: str
    body: dict[str, Any]


class Outcome(msgspec.Struct):
    """What a redrive did or would do. `gone` are letters that were redriven or deleted before."""

    letters: int = 0
    matched: int = 0
    moved: int = 0
    gone: int = 0
    skipped: dict[str, int] = {}
    warnings: list[str] = []


# --- the list --------------------------------------------------------------------------------------------------


def stretches(letters: DataFrame) -> DataFrame:
    """Stretches of time by group, reason and fingerprint; where that is null, fingerprints share a millisecond."""
    died_ms = f.unix_millis("died_at").alias("died_ms")
    moments = letters.where(f.col("topic").isNotNull()).groupBy(*_DEATH, died_ms)
    one, other = f.min("fingerprint"), f.max("fingerprint")
    counted = moments.agg(f.when(one == other, one).alias("fingerprint"), f.count(f.lit(1)).alias("letters"))
    order = Window.partitionBy(*_DEATH).orderBy("died_ms")
    begins = ~f.lag("fingerprint").over(order).eqNullSafe(f.col("fingerprint"))
    numbered = counted.withColumn("begins", begins).withColumn("number", f.sum(f.col("begins").cast("int")).over(order))
    return numbered.groupBy(*_DEATH, "number", "fingerprint").agg(
        f.min("died_ms").alias("from_ms"), (f.max("died_ms") + 1).alias("to_ms"), f.sum("letters").alias("letters")
    )


def listed(found: DataFrame) -> list[Stretch]:
    """The stretches that can be redriven, those with most letters first, as many as a list may have."""
    rows = found.where(f.col("fingerprint").isNotNull()).orderBy(f.desc("letters"), "from_ms", *_DEATH).limit(LIST_MAX)
    return [_stretch(row.asDict()) for row in rows.collect()]


def _stretch(row: dict[str, Any]) -> Stretch:
    chosen = {"reason": row["reason"], "group": row["group"], "from": row["from_ms"], "to": row["to_ms"]}
    path = f"/topics/{row['topic']}/dlq/redrive"
    return Stretch(row["fingerprint"], row["topic"], row["letters"], path, {"filter": chosen})


def as_lines(found: Iterable[Stretch]) -> str:
    """One JSON object a line."""
    return "".join(msgspec.json.encode(one).decode() + "\n" for one in found)


def of_lines(text: str) -> list[Stretch]:
    """The way back."""
    return [from_json(line, Stretch) for line in text.splitlines()]


# --- carrying it out -------------------------------------------------------------------------------------------


def chosen(asked: str, found: Sequence[Stretch]) -> list[Stretch]:
    """Those that `fingerprint=HEX` means; the first digits are enough where they mean one fingerprint alone."""
    name, equals, digits = asked.partition("=")
    if name != "fingerprint" or not equals or not digits:
        raise PipelineError(f"{asked!r} says no redrive; write it like fingerprint=9f86d081884c7d65.")
    fitting = [one for one in found if one.fingerprint.startswith(digits.lower())]
    if len({one.fingerprint for one in fitting}) > 1:
        raise PipelineError(f"Several fingerprints begin with {digits}; give more digits.")
    if not fitting:
        raise PipelineError(f"No letters have the fingerprint {digits}; run the study first and look at its summary.")
    return fitting


def carry_out(client: Client, found: Sequence[Stretch], apply: bool, rate: int | None, progress: Progress) -> Outcome:
    """One stretch after the other. Without `apply` the broker only says what it would do."""
    done = Outcome(letters=sum(one.letters for one in found))
    for one in found:
        try:
            _redrive(client, one, apply, rate, done)
        except GoQueueClientError as error:
            done.warnings.append(f"{one.letters} letters of {one.topic} were left where they are: {error}")
        progress.step(
            "redriving" if apply else "asking what a redrive would do", done.matched + done.gone, done.letters
        )
    return done


def _redrive(client: Client, one: Stretch, apply: bool, rate: int | None, done: Outcome) -> None:
    dry = client.perform(dry_run(one.topic, one.body))
    if dry.matched > one.letters:
        message = f"{one.topic} has letters of that time that were not studied; run the study again, then redrive."
        done.warnings.append(message)
        return
    done.matched += dry.matched
    done.gone += one.letters - dry.matched
    if apply and dry.matched:
        last = _ended(client, one.topic, client.perform(redrive(one.topic, {**one.body, **_paced(rate)})))
        _note(done, last.moved, last.skipped)
        done.warnings += [f"A redrive of {one.topic} failed: {last.failure}"] if last.failure else []
    else:
        _note(done, 0 if apply else dry.would_move, dry.skipped)


def _paced(rate: int | None) -> dict[str, object]:
    return {} if rate is None else {"rate": rate}


def _note(done: Outcome, moved: int, skipped: dict[str, int]) -> None:
    done.moved += moved
    for error, count in skipped.items():
        done.skipped[error] = done.skipped.get(error, 0) + count


def _ended(client: Client, topic: str, task: Redrive) -> Redrive:
    """The broker has one redrive a dead-letter topic at a time, so that the next one waits for this."""
    for pause_s in _pauses():
        if not task.is_live:
            break
        time.sleep(pause_s)
        task = client.perform(redrive_progress(topic, task.id))
    return task


def _pauses() -> Iterator[float]:
    pause_s = _PAUSE_S
    while True:
        yield pause_s
        pause_s = min(_PAUSE_S_MAX, 2 * pause_s)

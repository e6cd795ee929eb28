"""Whether the Python of a cluster's workers can run what is shipped to it, asked before anything begins."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from goqueue.pipeline.link.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_MIN: Final = 8  # so that each of a few workers gets one
_ANSWER_S: Final = 300.0  # executors may have to be started first
_TAG: Final = "goqueue-workers"
_OF_SPARK: Final = re.compile(r"(Cannot run program .*|\[PYTHON_VERSION_MISMATCH\].*)")
_ALWAYS: Final = ("pyarrow", "pandas")
_OWN: Final = "pyspark_goqueue"
# A text, as a function of this package could not be loaded where the package is missing.
_PROBE: Final = """
def missing(_):
    import importlib, platform, sys
    for name in NAMES:
        try:
            importlib.import_module(name)
        except Exception as error:
            yield f"{sys.executable} on {platform.node()} cannot load {name} ({type(error).__name__}: {error})"
            return
"""


class WorkersUnfit(PipelineError):
    """A worker's Python cannot run the connector, or what is asked for beside it."""

    def __init__(self, reason: str, needs: Sequence[str]) -> None:
        listed = " and ".join((", ".join(needs[:-1]), needs[-1]))
        super().__init__(
            f"Spark's workers cannot run pipelines: {reason}. They need a Python of this minor version with "
            f"{listed}; PYSPARK_PYTHON names it."
        )


def check_workers(spark: SparkSession, more: Sequence[str] = ()) -> None:
    """`WorkersUnfit` with the first reason. Tasks are spread, but a worker that gets none is not asked.

    `more` are modules that the work needs, and that are not shipped.
    """
    needs = (*_ALWAYS, *more)
    context = spark.sparkContext
    tasks = max(_TASKS_MIN, context.defaultParallelism)
    late = threading.Timer(_ANSWER_S, context.cancelJobsWithTag, [_TAG])
    late.daemon = True
    late.start()
    context.addJobTag(_TAG)
    try:
        found = context.parallelize(range(tasks), tasks).mapPartitions(_probe((*needs, _OWN))).collect()
    except Exception as error:
        raise WorkersUnfit(_reason(str(error), is_late=not late.is_alive()), needs) from error
    finally:
        context.removeJobTag(_TAG)
        late.cancel()
    if found:
        raise WorkersUnfit(sorted(found)[0], needs)


def _probe(names: Sequence[str]) -> Callable[[Iterable[int]], Iterable[str]]:
    made: dict[str, Any] = {"__name__": "__main__", "NAMES": names}  # what is defined there travels whole
    exec(_PROBE, made)
    probe: Callable[[Iterable[int]], Iterable[str]] = made["missing"]
    return probe


def _reason(text: str, is_late: bool) -> str:
    if is_late:
        return f"none took a task within {_ANSWER_S:.0f} s; are there workers with free cores and memory?"
    told = _OF_SPARK.search(text)
    first = next((line for line in text.splitlines() if line.strip()), "Spark failed without a word")
    return (told[1] if told else first).strip().rstrip(".")

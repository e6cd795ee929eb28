"""How a pipeline's command ends when something goes wrong, also where it went wrong inside Spark."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from goqueue.cli.failures import Failed, NoAnswer

F = TypeVar("F", bound=Callable[..., Any])

_EXTRA: Final = frozenset({"deltalake", "numpy", "pandas", "py4j", "pyarrow", "pyspark"})
_ICEBERG: Final = frozenset({"pyiceberg", "sqlalchemy"})
_SPARK: Final = ("pyspark.", "py4j.")
_RAISED: Final = re.compile(r"^\s*(?:[\w.]*\.)?([A-Z]\w+): (.+)$", re.MULTILINE)
_WORDS_OF_SPARK: Final = re.compile(r"Exception|Error$|^Traceback$")


def told_plainly(command: F) -> F:
    """A line or two instead of a traceback, and the exit code that fits. What is nobody's fault goes on up."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        try:
            return command(*arguments, **named)
        except Exception as error:
            ended = end_of_pipeline(error)
            if ended is None or click.get_current_context().find_root().params.get("debug"):
                raise
            raise ended from error

    return wrapped  # type: ignore[return-value]


def end_of_pipeline(why: Exception) -> Failed | None:
    """None if this is not a pipeline's way to fail."""
    if isinstance(why, ModuleNotFoundError) and (why.name or "").partition(".")[0] in _ICEBERG:
        return Failed(f"Iceberg tables need a package that is not there ({why.name}): pip install 'goqueue[iceberg]'")
    if isinstance(why, ModuleNotFoundError) and (why.name or "").partition(".")[0] in _EXTRA:
        return Failed(
            f"Pipelines need packages that are not there ({why.name}). Install them: pip install 'goqueue[pipeline]'"
        )
    family = {kind.__name__ for kind in type(why).__mro__}
    if "NodeUnreachable" in family:
        return NoAnswer(str(why))
    if "PipelineError" in family or type(why).__module__.startswith("deltalake"):
        return Failed(str(why))
    return _of_spark(str(why)) if type(why).__module__.startswith(_SPARK) else None


def _of_spark(text: str) -> Failed:
    """Spark wraps what an executor raised in its own words; people want to hear what was raised."""
    for name, told in reversed(_RAISED.findall(text)):
        if name == "NodeUnreachable":
            return NoAnswer(told)
        if not _WORDS_OF_SPARK.search(name):
            return Failed(told)
    first = next((line for line in text.splitlines() if line.strip()), "Spark failed without a word.")
    return Failed(f"Spark failed: {first.strip()}\n--debug before the command shows all of it.")

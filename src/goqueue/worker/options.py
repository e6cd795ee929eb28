"""How a task is run: what its decorator says, checked when the function is decorated."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict

import msgspec

from goqueue.base.decoders import converted
from goqueue.base.errors import InvalidName
from goqueue.base.names import check_name
from goqueue.worker.errors import InvalidOption
from goqueue.worker.spans import TimeSpan, seconds_of

Pool: TypeAlias = Literal["thread", "process"]
DEFAULT_QUEUE: Final = "default"
UNIQUE_SECONDS_MAX: Final = 24 * 3600.0
_PRIORITIES: Final = ("critical", "high", "normal", "low", "background")
_JITTER: Final = 0.2  # a wait is up to so much shorter, so that failures do not come back in step
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h)")
_RATE_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class TaskOptionsIn(TypedDict, total=False):
    """`TaskOptions` as keywords of `@app.task(...)`."""

    name: str
    queue: str
    retries: int
    backoff: TimeSpan | Sequence[TimeSpan]
    backoff_max: TimeSpan
    priority: str | int
    timeout: TimeSpan | None
    unique: TimeSpan | None
    unique_by: Sequence[str]
    rate_limit: str | None
    results: bool
    result_ttl: TimeSpan | None
    pool: Pool


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lengths of time are seconds.

    After the first failure a task is tried again `retries` times, after `backoff` seconds, each time twice as many, at
    most `backoff_max`; or after as many as a list says, the last for all that follow. `rate` is starts a second.
    """

    name: str
    queue: str = DEFAULT_QUEUE
    retries: int = 2
    backoff: tuple[float, ...] = (1.0,)
    is_listed: bool = False  # backoff is a list of its own, which does not double
    backoff_max: float = 300.0
    priority: str | int | None = None
    timeout: float | None = None
    unique: float | None = None
    unique_by: tuple[str, ...] = ()
    rate: float | None = None
    results: bool = True
    result_ttl: float | None = None
    pool: Pool = "thread"

    def delay(self, failures: int, roll: float | None = None) -> float:
        """Seconds before the next try, after so many failures."""
        if self.is_listed:
            wait = self.backoff[min(failures, len(self.backoff)) - 1]
        else:
            wait = min(self.backoff_max, self.backoff[0] * 2.0 ** min(failures - 1, 30))
        return wait * (1 - _JITTER * (random.random() if roll is None else roll))


def options_of(name: str, given: TaskOptionsIn) -> TaskOptions:
    """The options; `InvalidOption` for the first that cannot be."""
    told: dict[str, Any] = {"name": name, **given}
    backoff = told.pop("backoff", 1.0)
    told["is_listed"] = isinstance(backoff, list | tuple)
    waits = backoff if told["is_listed"] else [backoff]
    told["backoff"] = tuple(seconds_of(one, "backoff") for one in waits)
    for option in ("backoff_max", "timeout", "unique", "result_ttl"):
        if told.get(option) is not None:
            told[option] = seconds_of(told[option], option)
    told["rate"] = _rate(told.pop("rate_limit", None))
    told["unique_by"] = tuple(told.get("unique_by", ()))
    try:
        return _checked(converted(told, TaskOptions))
    except msgspec.ValidationError as error:
        raise InvalidOption(f"task {name}: {error}") from None


def _checked(options: TaskOptions) -> TaskOptions:
    if options.retries < 0:
        raise InvalidOption("retries cannot be negative; 0 means that a task is tried once.")
    if not options.backoff:
        raise InvalidOption("backoff needs at least one wait.")
    if options.priority is not None and options.priority not in (*_PRIORITIES, *range(5)):
        raise InvalidOption(f"priority is one of {', '.join(_PRIORITIES)} or 0 to 4, not {options.priority!r}.")
    if options.unique is not None and not 0 < options.unique <= UNIQUE_SECONDS_MAX:
        raise InvalidOption("unique is a window of more than nothing, and at most a day.")
    check_queue(options.queue)
    return options


def check_queue(queue: str) -> str:
    try:
        return check_name(queue, "queue", "queue")
    except InvalidName as error:
        raise InvalidOption(error.message) from None


def _rate(text: str | None) -> float | None:
    """Starts a second, from text like `100/s`, `30/m` or `1/h`."""
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise InvalidOption(f"rate_limit is like 100/s, 30/m or 1/h, not {text!r}.")
    return float(found[1]) / _RATE_SECONDS[found[2]]

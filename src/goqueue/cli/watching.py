"""`--watch`: a view again and again, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])
_CLEAR: Final = "\x1b[H\x1b[2J"


def watch_option(command: F) -> F:
    """Gives a command `--watch` and `--interval`; its function does not see them."""

    @wraps(command)
    def run(*args: object, watch: bool, interval: float, **kwargs: object) -> object:
        if not watch:
            return command(*args, **kwargs)
        try:
            while True:
                _once(lambda: command(*args, **kwargs), interval)
                time.sleep(interval)
        except KeyboardInterrupt:
            return None

    every = click.option(
        "--interval", type=click.FloatRange(0.1, 3600), default=2.0, metavar="SECONDS", help="How often; default 2."
    )
    flag = click.option("-w", "--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
    return cast(F, flag(every(run)))


def _once(show: Callable[[], object], interval: float) -> None:
    """A broker that does not answer is no reason to end: it may come back."""
    if sys.stdout.isatty():
        click.echo(f"{_CLEAR}{datetime.now():%H:%M:%S}, every {interval:g} s; Ctrl-C ends it.\n")
    try:
        show()
    except click.exceptions.Exit:
        return
    except click.ClickException as error:
        error.show()
    except Exception as error:
        from goqueue.cli.failures import end_of
        from goqueue.client import ConnectionFailed

        if not isinstance(error, ConnectionFailed):
            raise
        ended = end_of(error)
        if isinstance(ended, click.ClickException):
            ended.show()
    finally:
        sys.stdout.flush()

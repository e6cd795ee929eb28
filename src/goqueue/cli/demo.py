"""`goqueue demo`: a tour of a minute, on a node of its own that is gone afterwards."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import click

from goqueue.cli.demo_steps import STEPS, DemoStep
from goqueue.cli.failures import Failed
from goqueue.cli.keyboard import keyboard
from goqueue.cli.throwaway_node import PROGRAM, plain_environ, throwaway_node

_PAUSE_S: Final = 5.0
_COMMAND_S_MAX: Final = 120.0


@click.command()
@click.option("--fast", is_flag=True, help="Without pauses between the steps.")
def demo(fast: bool) -> None:
    """Show in a minute what GoQueue does, on a node of its own.

    The node listens on this machine alone, and is gone with its data at the end. In a terminal, Enter goes on at once
    and q ends the tour.
    """
    click.echo("Starting a node for the tour, on this machine alone. Nothing of yours is touched.")
    with throwaway_node() as url:
        click.echo(f"It runs at {url}. To type along: export GOQUEUE_SERVER={url}")
        if fast or not (sys.stdin.isatty() and sys.stdout.isatty()):
            _show_all(url, lambda: True)
        else:
            with keyboard() as keys:
                _show_all(url, lambda: _goes_on(keys.wait))


def _goes_on(wait: Callable[[float], list[str]]) -> bool:
    click.secho(f"\n  Enter goes on (or wait {_PAUSE_S:.0f} s), q ends the tour.", dim=True)
    return not {"q", "Q"} & set(wait(_PAUSE_S))


def _show_all(url: str, goes_on: Callable[[], bool]) -> None:
    trace = ""
    try:
        for number, step in enumerate(STEPS, 1):
            if number > 1 and not goes_on():
                break
            trace = _show(number, step, url, trace)
    except KeyboardInterrupt:
        pass
    click.echo("\nThe tour is over; its node and data go now. Start yours: goqueue serve")
    click.echo("More: goqueue --help, and docs/cli.md")


def _show(number: int, step: DemoStep, url: str, trace: str) -> str:
    """Runs a step's commands. The id of a trace that one of them showed, for those that come behind."""
    click.secho(f"\n{number} of {len(STEPS)}  {step.title}", bold=True)
    click.echo(f"  {step.about}\n")
    for command in step.commands:
        if isinstance(command, str):
            code = command.format(url=url)
            click.secho("".join(f"  >>> {line}\n" for line in code.splitlines()), fg="cyan", nl=False)
            printed = _run([sys.executable, "-c", code], url)
        else:
            words = [trace if word == "TRACE" else word for word in command]
            click.secho(f"  $ goqueue {shlex.join(words)}", fg="cyan")
            printed = _run([*PROGRAM, *words], url)
        for line in printed.splitlines():
            click.echo(f"    {line}")
        if found := re.search(r"^[0-9a-f]{32}\b", printed, re.MULTILINE):
            trace = found[0]
    return trace


def _run(command: list[str], url: str) -> str:
    """What it prints, on both of its outputs."""
    environ = {**plain_environ(), "GOQUEUE_SERVER": url}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            text=True,
            timeout=_COMMAND_S_MAX,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"A step of the tour took longer than {_COMMAND_S_MAX:.0f} s; the machine is too busy.") from None
    if done.returncode:
        raise Failed(f"A step of the tour failed:\n{done.stdout}")
    return done.stdout

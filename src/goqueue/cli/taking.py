"""Messages taken as a member of a group: written out, and answered for if told to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar

import click
import msgspec

from goqueue.cli.connecting import connect
from goqueue.cli.live_names import GROUP
from goqueue.client import Client, Consumer, LeasedMessage
from goqueue.client.member_calls import Begin, Mode
from goqueue.client.transport import DEFAULT_PATIENCE

F = TypeVar("F", bound=Callable[..., Any])
Answer: TypeAlias = Literal["ack", "nack", "reject"]
Form: TypeAlias = Callable[[LeasedMessage], bytes]

_BATCH: Final = 100
# Who does not follow is done when nothing came for so long.
_IDLE_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 10.0
_CLIENT_ID: Final = "goqueue-cli"
_REASON: Final = "goqueue consume"
_ANSWERS: Final[tuple[Answer, ...]] = ("ack", "nack", "reject")


class GroupOptions(TypedDict):
    """The options that only a member of a group has."""

    group: str | None
    ack: bool
    nack: bool
    reject: bool
    visibility_timeout: str | None
    mode: Mode | None


def group_options(command: F) -> F:
    options = (
        click.option("--group", type=GROUP, metavar="GROUP", help="Take messages as a member of this group."),
        click.option("--ack", is_flag=True, help="Each message is done after it was written out."),
        click.option("--nack", is_flag=True, help="Each one failed, and comes again later."),
        click.option("--reject", is_flag=True, help="Each one goes to the dead letters."),
        click.option("--visibility-timeout", metavar="SPAN", help="How long a message is ours, like 30s."),
        click.option(
            "--mode", type=click.Choice(["shared", "partition"]), help="How a new group shares; default shared."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def answer_of(options: GroupOptions) -> Answer | None:
    """The one that was asked for; wrong usage if there are several, or no group to answer in."""
    if options["group"] is None:
        for name in GroupOptions.__annotations__:
            if options.get(name):
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --group.")
    given = [name for name in _ANSWERS if options[name]]
    if len(given) > 1:
        raise click.UsageError(f"Choose one of {' and '.join(f'--{name}' for name in given)}.")
    return given[0] if given else None


class TakeOptions(msgspec.Struct, frozen=True):
    """What to take, and how. Without an answer everything comes again."""

    group: str
    topic: str
    mode: Mode
    begin: Begin
    visibility_timeout: str | None
    answer: Answer | None
    count: int | None
    follow: bool

    def run(self, server: str, form_of: Callable[[Client], Form]) -> None:
        """Until the count is reached, or nothing more comes; Ctrl-C ends it too. The group is left in any case."""
        patience = DEFAULT_PATIENCE if self.follow else 0.0
        with (
            connect(server) as client,
            client.consumer(
                self.group,
                [self.topic],
                mode=self.mode,
                visibility_timeout=self.visibility_timeout,
                auto_commit=False,
                from_=self.begin,
                client_id=_CLIENT_ID,
                patience=patience,
            ) as consumer,
        ):
            self._take(consumer, form_of(client))

    def _take(self, consumer: Consumer, form: Form) -> None:
        left = self.count
        seen: set[tuple[int, int]] = set()
        while left is None or left > 0:
            limit = _BATCH if left is None else min(left, _BATCH)
            messages = consumer.poll(limit, _WAIT_SECONDS if self.follow else _IDLE_SECONDS)
            if not messages and not self.follow:
                return
            if not self.follow:
                # What comes a second time was given back or failed in this run; it is for the next.
                messages = [one for one in messages if (one.partition, one.offset) not in seen]
                seen.update((one.partition, one.offset) for one in messages)
            _write(messages, form)
            self._answer(consumer, messages)
            left = None if left is None else left - len(messages)

    def _answer(self, consumer: Consumer, messages: list[LeasedMessage]) -> None:
        if self.answer == "ack":
            consumer.ack(*messages)
        elif self.answer == "nack":
            consumer.nack(*messages, reason=_REASON)
        elif self.answer == "reject":
            consumer.reject(*messages, reason=_REASON)


def _write(messages: list[LeasedMessage], form: Form) -> None:
    out = sys.stdout.buffer
    for message in messages:
        out.write(form(message) + b"\n")
    out.flush()

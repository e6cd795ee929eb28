"""Names that a shell completes: of topics, groups, subjects, contexts. Asked for while a person types, so the time is
short, and nothing is said if they cannot be had."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from goqueue.client import Client

_ASK_S: Final = 1.0
_NAMES_MAX: Final = 500


class LiveName(click.ParamType[str]):
    """A text. Only completion asks the broker whether it is there."""

    def __init__(self, name: str, ask: Callable[[Client], Iterable[str]]) -> None:
        self.name = name
        self._ask = ask

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _items(lambda: _asked(ctx, self._ask), incomplete)


class ContextName(click.ParamType[str]):
    """A context's name, from the user's own file."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from goqueue.cli.contexts import read_contexts

        return _items(lambda: read_contexts().contexts, incomplete)


def _asked(ctx: click.Context, ask: Callable[[Client], Iterable[str]]) -> Iterable[str]:
    """Parameters were read without their callbacks' help where the line is not complete; `--server` counts all the
    same."""
    from goqueue.cli.connecting import connect, target_of

    server = ctx.params.get("server")
    target = target_of(ctx, server if isinstance(server, str) else None)
    with ctx.scope(), connect(target.server, _ASK_S) as client:
        return list(ask(client))


def _items(names: Callable[[], Iterable[str]], incomplete: str) -> list[CompletionItem]:
    try:
        fitting = sorted(one for one in names() if one.startswith(incomplete))
    except Exception:  # a shell's line is no place for errors
        return []
    return [CompletionItem(one) for one in fitting[:_NAMES_MAX]]


def _subjects(client: Client) -> Iterable[str]:
    from goqueue.client.schemas import schemas

    return {one.subject for one in client.perform(schemas()) if one.subject}


TOPIC: Final = LiveName("topic", lambda client: [one.name for one in client.topics()])
GROUP: Final = LiveName("group", lambda client: [one.group for one in client.groups()])
SUBJECT: Final = LiveName("subject", _subjects)
CONTEXT: Final = ContextName()

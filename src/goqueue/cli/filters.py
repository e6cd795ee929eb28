"""Which messages are wanted: by key, by headers, by an expression over all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from goqueue.cli.decoding import ValueDecoder
from goqueue.cli.options import pairs
from goqueue.cli.where import BadExpression, Expression, json_or_text, parse_where
from goqueue.client import Message

F = TypeVar("F", bound=Callable[..., Any])


class FilterOptions(TypedDict):
    key: str | None
    header: list[tuple[str, str]]
    where: Expression | None


def _parsed(ctx: click.Context, param: click.Parameter, given: str | None) -> Expression | None:
    try:
        return None if given is None else parse_where(given)
    except BadExpression as error:
        raise click.BadParameter(f'{error}. Write it like value.total > 10 and key == "a".', ctx, param) from None


def filter_options(command: F) -> F:
    options = (
        click.option("--key", metavar="KEY", help="Only messages with this key."),
        click.option(
            "--header",
            multiple=True,
            metavar="NAME=VALUE",
            callback=pairs("header"),
            help="Only with it; repeatable.",
        ),
        click.option("--where", metavar="EXPRESSION", callback=_parsed, help="Only if this holds: value.total > 10."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def is_filtered(options: FilterOptions) -> bool:
    return options["key"] is not None or bool(options["header"]) or options["where"] is not None


def message_filter(options: FilterOptions, decoder: ValueDecoder) -> Callable[[Message], bool]:
    """Whether a message is wanted. Values are decoded by the registry if the expression needs them."""
    key = None if options["key"] is None else options["key"].encode("utf-8", "surrogateescape")
    headers = [(name, value.encode("utf-8", "surrogateescape")) for name, value in options["header"]]
    where = options["where"]

    def wanted(message: Message) -> bool:
        if key is not None and message.key != key:
            return False
        if any(pair not in message.headers for pair in headers):
            return False
        return where is None or bool(where(_names(message, decoder)))

    return wanted


def _names(message: Message, decoder: ValueDecoder) -> dict[str, Any]:
    decoded = decoder.decode(message)
    return {
        "value": json_or_text(message.value) if decoded is None else decoded.data,
        "key": json_or_text(message.key) if message.key is None else _text(message.key),
        "headers": {name: _text(value) for name, value in message.headers},
        "timestamp": message.timestamp,
        "partition": message.partition,
        "offset": message.offset,
        "priority": message.priority,
        "topic": message.topic,
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")

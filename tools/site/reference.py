"""Reference pages, written from what the code itself says: nothing can be missing, and nothing can be out of date."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import click

import goqueue.base.startup_errors  # noqa: F401 - so that its words are known
from goqueue.base.errors import GoQueueError, leaves
from goqueue.base.limits import GIB, KIB, MIB
from goqueue.base.settings import SettingKey, setting_keys
from goqueue.base.topic_config import CONFIG_KEYS, TopicConfig, as_text
from goqueue.cli import app
from goqueue.edge.grpc.errors import status_of as grpc_status_of
from goqueue.edge.kafka.errors import code_of
from goqueue.edge.rest.errors import status_of
from goqueue.edge.sqs.errors import translate
from goqueue.wire import codes
from goqueue.wire.api import APIS

_NOTE: Final = "<!-- Written by `make docs` from the code. -->\n"
_HELP: Final = re.compile(r"^# HELP (\w+) (.+)$", re.M)
_TYPE: Final = re.compile(r"^# TYPE (\w+) (\w+)$", re.M)
_WITH_UNIT: Final = re.compile(r"_(ms|bytes)(?:_max|_min)?$")
_UNITS: Final = {
    "ms": (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)),
    "bytes": (("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("", 1)),
}
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_CODE_NAMES: Final = {value: name for name, value in vars(codes).items() if name.isupper() and isinstance(value, int)}


def pages() -> dict[str, str]:
    """By name, without those that need a node."""
    return {
        "settings.md": settings_page(),
        "errors.md": errors_page(),
        "cli.md": cli_page(),
    }


def page(title: str, about: str, *parts: str) -> str:
    """As it is written for the site."""
    return "\n".join([_NOTE, f"# {title}\n", f"{about}\n", *parts])


def table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """With `|` in cells as it has to be written."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    about = (
        "Every setting of a node, by its name in a file and as an environment variable, and [every setting of a "
        "topic](#of-a-topic). [Configuration](../configuration.md) says how to give them."
    )
    parts = (
        f"## {section}\n\n" + table(("setting, variable", "default", "what it does"), map(_setting, keys))
        for section, keys in groupby(setting_keys(), lambda key: key.section)
    )
    topics = ((f"`{name}`", _default(value), CONFIG_KEYS[name].doc) for name, value in as_text(TopicConfig()).items())
    return page("Settings", about, *parts, "## Of a topic\n\n" + table(("setting", "default", "what it does"), topics))


def _setting(key: SettingKey) -> Sequence[str]:
    return f"`{key.dotted}`<br>`{key.variable}`", _default(_in_units(key.name, key.default)), key.doc


def _default(value: object) -> str:
    return "(empty)" if value in ("", None) else f"`{value}`"


def _in_units(name: str, value: object) -> object:
    """Times and sizes as people write them; both forms can be given."""
    found = _WITH_UNIT.search(name)
    if found is None or not isinstance(value, int) or value <= 0:
        return value
    return next(f"{value // size}{unit}" for unit, size in _UNITS[found[1]] if value % size == 0)


def errors_page() -> str:
    def rows() -> Iterator[Sequence[str]]:
        for leaf in sorted(leaves(), key=lambda leaf: leaf.code):
            error = leaf("a sentence")
            given = (f"HTTP {status_of(error)}", _kafka(error), translate(error).name, _grpc(error))
            yield f"`{leaf.code}`", _meaning(leaf), "<br>".join(given)

    about = (
        "Every error that a node can give, by its code. REST gives the code and the HTTP status; other protocols give "
        "what their clients know. The message of an error says what to do."
    )
    return page("Errors", about, table(("code", "what it means", "over HTTP, Kafka, SQS, gRPC"), rows()))


def _meaning(leaf: type[GoQueueError]) -> str:
    return " ".join((leaf.__doc__ or "").split())


def _kafka(error: GoQueueError) -> str:
    return _CODE_NAMES.get(code_of(error), str(code_of(error)))


def _grpc(error: GoQueueError) -> str:
    status = grpc_status_of(error)
    return str(getattr(status, "name", status))


def rest_page(described: Mapping[str, Any]) -> str:
    """From a node's `/openapi.json`."""
    tags: dict[str, list[Sequence[str]]] = {}
    for path, methods in described["paths"].items():
        for method in _METHODS:
            if (one := methods.get(method)) is not None:
                query = ", ".join(f"`{param['name']}`" for param in one.get("parameters", ()) if param["in"] == "query")
                row = (f"`{method.upper()} {path}`", one["summary"], query or "-")
                tags.setdefault(one["tags"][0], []).append(row)
    about = "Every route. [The REST API](../rest.md) tells how they are used; `/docs` of a node lets you try them."
    parts = (
        f"## {tag.capitalize()}\n\n" + table(("route", "what it does", "query"), iter(tags[tag]))
        for tag in sorted(tags)
    )
    return page("REST routes", about, *parts)


def metrics_page(exported: str) -> str:
    """From a node's `/metrics`."""
    kinds = dict(_TYPE.findall(exported))
    told = sorted((name, kinds[name], meaning) for name, meaning in _HELP.findall(exported))
    parts = (
        f"## {group}\n\n"
        + table(("metric, type", "what it says"), ((f"`{one}`<br>{kind}", say) for one, kind, say in rows))
        for group, rows in groupby(told, lambda row: "_".join(row[0].split("_")[: 1 + row[0].startswith("goqueue")]))
    )
    about = (
        "Every metric of a node. [Metrics](../metrics.md) has their labels, says which to watch, and how those of "
        "[processes](../processes.md) and [pipelines](../pipeline.md#watching-pipelines) are read."
    )
    return page("Metrics", about, *parts)


def kafka_page(advertised: Mapping[str, tuple[int, int]]) -> str:
    """From what a node answers to ApiVersions."""
    keys = {api.name: api.key for api in APIS.values()}
    rows = (
        (f"`{name}`", str(keys[name]), str(low) if low == high else f"{low} to {high}")
        for name, (low, high) in sorted(advertised.items())
    )
    about = (
        "Every API of Kafka's protocol that a node advertises, with its number and versions. They do what Kafka's do; "
        "[Kafka clients](../kafka.md) says what differs, and which clients were tested. Produce is advertised from "
        "version 0 on, as Kafka does for old clients; versions below 3 are refused."
    )
    return page("Kafka APIs", about, table(("API", "key", "versions"), rows))


def cli_page() -> str:
    parts = [_command(path, command) for path, command in each_command(app, ("goqueue",))]
    about = "Every command, as `--help` tells it. [The command line](../cli.md) shows how they are used."
    return page("Commands", about, *parts)


def each_command(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """This one and all below it that are not hidden, by the words that are typed."""
    yield path, group
    if isinstance(group, click.Group):
        ctx = click.Context(group, info_name=path[-1])
        for name in group.list_commands(ctx):
            if (command := group.get_command(ctx, name)) is not None and not command.hidden:
                yield from each_command(command, (*path, name))


def _command(path: tuple[str, ...], command: click.Command) -> str:
    parent: click.Context | None = None
    for name in path[:-1]:
        parent = click.Context(click.Group(name), info_name=name, parent=parent)
    ctx = click.Context(command, info_name=path[-1], parent=parent, terminal_width=100, max_content_width=100)
    return f"## {' '.join(path)}\n\n```text\n{command.get_help(ctx)}\n```\n"

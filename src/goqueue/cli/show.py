"""How things look: tables, JSON, YAML or names on stdout, remarks on stderr, bytes and times as text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import click
import msgspec

OUTPUTS: Final = ("table", "json", "yaml", "name")
_WIDE: Final = 10_000  # a terminal wraps long lines by itself; cutting them would lose data


def remark(text: str) -> None:
    """A line for people; stdout is for data."""
    click.echo(text, err=True)


def render(output: str, data: object, table: Callable[[], None], names: Iterable[str]) -> None:
    """The one place that knows the forms of an answer: `data` is all of it, `table` shows it to people."""
    if output == "json":
        print_json(data)
    elif output == "yaml":
        from goqueue.cli.yaml_text import to_yaml

        click.echo(to_yaml(data))
    elif output == "name":
        for name in names:
            click.echo(bytes_text(name.encode("utf-8", "surrogateescape")))
    else:
        table()


def show_rows(
    output: str,
    data: object,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    names: Iterable[str] | None = None,
) -> None:
    """A list. Its names are what stands in the first column, unless they are given."""
    cells = [list(row) for row in rows]
    render(output, data, lambda: print_table(columns, cells), names or (str(row[0]) for row in cells))


def show_facts(output: str, data: object, facts: Iterable[tuple[str, object]], name: str) -> None:
    """One thing: a fact a line."""
    render(output, data, lambda: print_facts(facts), [name])


def tell(output: str, data: object, sentence: str, name: str) -> None:
    """What was done: a sentence for people, or what came of it for programs."""
    render(output, data, lambda: remark(sentence), [name])


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names in a column as wide as the longest of them needs."""
    told = list(facts)
    width = max((len(name) for name, _ in told), default=0) + 2
    for name, value in told:
        click.echo(f"{name:<{width}}{value}".rstrip())


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_json_line(value: object) -> None:
    click.echo(msgspec.json.encode(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns by their width; numbers stand right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [list(row) for row in rows]
    for place, name in enumerate(columns):
        is_number = bool(cells) and all(isinstance(row[place], int) for row in cells)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in cells:
        table.add_row(*map(_cell, row))
    console = Console(markup=False, highlight=False, emoji=False, width=_WIDE)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def time_text(millis: int) -> str:
    """RFC 3339 in UTC; the bare number where that cannot say it."""
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(millis)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if millis >= 0 else str(millis)


def bytes_text(data: bytes | None) -> str:
    """One line without control characters: text as it is, other bytes as `base64:...`, nothing as `null`."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "base64:" + b64encode(data).decode("ascii")
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def headers_text(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return ",".join(f"{bytes_text(name.encode())}={bytes_text(value)}" for name, value in headers) or "-"


def counted(number: int, noun: str) -> str:
    """`1 message`, `1,234 messages`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def size_text(size: int) -> str:
    """`512 B`, `1.5 MiB`."""
    shown, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if shown < 1024:
            break
        shown, unit = shown / 1024, larger
    return f"{shown:,.0f} {unit}" if unit == "B" or shown >= 100 else f"{shown:,.1f} {unit}"

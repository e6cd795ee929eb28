"""`goqueue pipeline forget KEY`: everything of one key removed from topics and tables, for privacy requests."""

from __future__ import annotations

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.failures import Misused
from goqueue.cli.options import output_option, server_option
from goqueue.cli.pipeline_failures import told_plainly
from goqueue.cli.show import remark, show_rows


@click.command()
@click.argument("key")
@click.option("--topics", multiple=True, metavar="A,B", help="Topics to look in; repeatable.")
@click.option("--lake", envvar="GOQUEUE_LAKE", metavar="DIR", help="A lake whose tables to look in, all of them.")
@click.option("--column", "columns", multiple=True, metavar="NAME", help="A column of tables with keys; repeatable.")
@click.option("--url", metavar="URL", help="The node's REST door; default --server.")
@click.option("--kafka", metavar="HOST:PORT", help="The node's Kafka door.")
@server_option
@yes_option
@output_option
@told_plainly
def forget(
    key: str,
    topics: tuple[str, ...],
    lake: str | None,
    columns: tuple[str, ...],
    url: str | None,
    kafka: str | None,
    server: str,
    yes: bool,
    output: str,
) -> None:
    """Remove everything of one key: its rows from tables, its messages from topics as far as a log can.

    What there is is shown first. In tables the columns key and _key are looked at, and those that --column names.
    Rows are deleted and the files that held them removed, so older versions of these tables are gone as well.
    """
    from goqueue.pipeline.forgetting import Forgetting
    from goqueue.pipeline.link.doors import doors

    names = [one.strip() for text in topics for one in text.split(",") if one.strip()]
    if not names and lake is None:
        raise Misused("Say where to look: --topics, --lake, or both.")
    node = doors(kafka, url or (None if kafka else server)) if names else None
    work = Forgetting(key, node, names, None if lake is None else lake.rstrip("/"), columns)
    found = work.look()
    plan = [(one.place, one.kind, one.found, one.plan) for one in found]
    heads = ("PLACE", "KIND", "FOUND", "WHAT HAPPENS")
    if not yes:
        show_rows(output, found, heads, plan)
        confirm(f"Remove {sum(one.found for one in found):,} rows and messages of {key!r}?")
    done = work.carry_out()
    left = [one for one in found if one.kind == "topic" and one.found]
    rows = [(one.place, one.kind, one.removed, one.files, one.note) for one in done]
    show_rows(output, done, ("PLACE", "KIND", "ROWS REMOVED", "FILES REMOVED", "NOTE"), rows)
    for one in left:
        remark(f"{one.place}: {one.found:,} messages: {one.plan}")

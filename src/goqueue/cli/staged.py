"""`goqueue txn staged`: owners of staged sets, and what one of them has staged."""

from __future__ import annotations

import click

from goqueue.cli.connecting import connect
from goqueue.cli.options import view_options
from goqueue.cli.show import print_table, render, show_rows, time_text
from goqueue.client.staged import OpenWriter, Staged, StagedOwner


@click.command()
@click.argument("owner", required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many owners.")
@view_options
def staged(owner: str | None, limit: int, server: str, output: str) -> None:
    """Show owners of staged sets, or one with its open writers."""
    with connect(server) as client:
        found = client.staged_owners(limit=limit) if owner is None else client.staged(owner)
    if isinstance(found, Staged):
        render(output, found, lambda: _show(found), [found.owner])
    else:
        show_rows(output, found, ("OWNER", "LAST BATCH", "COMMITTED", "OPEN WRITERS"), map(_row, found))


def _show(found: Staged) -> None:
    last = "none" if found.last_batch is None else f"{found.last_batch}, committed {time_text(found.updated or 0)}"
    click.echo(f"{'owner':<18}{found.owner}")
    click.echo(f"{'last batch':<18}{last}")
    columns = ("WRITER", "ATTEMPT", "BATCH", "PRODUCER", "EPOCH", "STATE", "OPEN MS", "TIMEOUT MS", "PARTITIONS")
    if found.open:
        print_table(columns, [_writer_row(one) for one in found.open])


def _row(one: StagedOwner) -> tuple[object, ...]:
    when = "-" if one.updated is None else time_text(one.updated)
    return one.owner, "-" if one.last_batch is None else one.last_batch, when, one.open


def _writer_row(one: OpenWriter) -> tuple[object, ...]:
    touched = sum(len(parts.partitions) for parts in one.partitions)
    who = (one.writer, one.attempt, one.batch, one.producer_id, one.epoch)
    return *who, one.state, one.open_ms, one.timeout_ms, touched

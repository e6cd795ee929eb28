"""`goqueue txn`: list, describe, abort, and staged sets."""

from __future__ import annotations

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.options import CommandGroup, output_option, server_option, view_options
from goqueue.cli.show import show_facts, show_rows, tell, time_text
from goqueue.cli.staged import staged
from goqueue.client import transactions as calls
from goqueue.client.transactions import Transaction


@click.group(cls=CommandGroup)
def txn() -> None:
    """List, describe and abort transactions."""


txn.add_command(staged)


@txn.command("list")
@click.option("--all", "idle", is_flag=True, help="Also producers without an open transaction.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@view_options
def list_(idle: bool, limit: int, server: str, output: str) -> None:
    """List open transactions."""
    with connect(server) as client:
        found = client.perform(calls.transactions(idle=idle, limit=limit))
    columns = ("TRANSACTIONAL ID", "PRODUCER", "EPOCH", "STATE", "OPEN MS", "TIMEOUT MS", "PARTITIONS")
    show_rows(output, found, columns, [_row(one) for one in found])


@txn.command()
@click.argument("transactional_id")
@view_options
def describe(transactional_id: str, server: str, output: str) -> None:
    """Show a producer, and what its transaction touches."""
    with connect(server) as client:
        found = client.perform(calls.transaction(transactional_id))
    show_facts(output, found, _facts(found), transactional_id)


@txn.command()
@click.argument("transactional_id")
@yes_option
@server_option
@output_option
def abort(transactional_id: str, yes: bool, server: str, output: str) -> None:
    """Abort an open transaction. Its producer is shut out and has to begin again."""
    if not yes:
        confirm(f"Abort the transaction of {transactional_id}?")
    with connect(server) as client:
        ended = client.perform(calls.abort(transactional_id))
    tell(output, ended, f"{transactional_id} is {ended.state}, epoch {ended.epoch}.", transactional_id)


def _row(one: Transaction) -> tuple[object, ...]:
    touched = sum(len(parts.partitions) for parts in one.partitions)
    facts = (one.transactional_id, one.producer_id, one.epoch, one.state)
    return *facts, "-" if one.open_ms is None else one.open_ms, one.timeout_ms, touched


def _facts(one: Transaction) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("transactional id", one.transactional_id),
        ("producer", f"{one.producer_id}, epoch {one.epoch}"),
        ("state", one.state),
        ("timeout", f"{one.timeout_ms} ms"),
    ]
    if one.started is not None:
        facts.append(("started", f"{time_text(one.started)}, open for {one.open_ms} ms"))
    facts += [("writes to", f"{parts.topic} {', '.join(map(str, parts.partitions))}") for parts in one.partitions]
    facts += [("moves", f"{to.group}: {to.topic} {to.partition} to {to.offset}") for to in one.offsets]
    if one.receipts:
        facts.append(("answers for", f"{one.receipts} messages"))
    if one.delayed:
        facts.append(("delays", f"{one.delayed} messages"))
    return facts

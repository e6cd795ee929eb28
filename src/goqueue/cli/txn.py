"""`goqueue txn`: list, describe, abort, and staged sets."""

from __future__ import annotations

import click

from goqueue.cli.options import CommandGroup, output_option, server_option
from goqueue.cli.show import print_json, print_table, remark, time_text
from goqueue.cli.staged import staged
from goqueue.client import Client
from goqueue.client import transactions as calls
from goqueue.client.transactions import Transaction


@click.group(cls=CommandGroup)
def txn() -> None:
    """List, describe and abort transactions."""


txn.add_command(staged)


@txn.command("list")
@click.option("--all", "idle", is_flag=True, help="Also producers without an open transaction.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@server_option
@output_option
def list_(idle: bool, limit: int, server: str, output: str) -> None:
    """List open transactions."""
    with Client(server) as client:
        found = client.perform(calls.transactions(idle=idle, limit=limit))
    if output == "json":
        print_json(found)
        return
    columns = ("TRANSACTIONAL ID", "PRODUCER", "EPOCH", "STATE", "OPEN MS", "TIMEOUT MS", "PARTITIONS")
    print_table(columns, [_row(one) for one in found])


@txn.command()
@click.argument("transactional_id")
@server_option
@output_option
def describe(transactional_id: str, server: str, output: str) -> None:
    """Show a producer, and what its transaction touches."""
    with Client(server) as client:
        found = client.perform(calls.transaction(transactional_id))
    if output == "json":
        print_json(found)
        return
    for name, value in _facts(found):
        click.echo(f"{name:<18}{value}")


@txn.command()
@click.argument("transactional_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_option
@output_option
def abort(transactional_id: str, yes: bool, server: str, output: str) -> None:
    """Abort an open transaction. Its producer is shut out and has to begin again."""
    if not yes:
        click.confirm(f"Abort the transaction of {transactional_id}?", abort=True, err=True)
    with Client(server) as client:
        ended = client.perform(calls.abort(transactional_id))
    if output == "json":
        print_json(ended)
    else:
        remark(f"{transactional_id} is {ended.state}, epoch {ended.epoch}.")


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

"""`goqueue cluster move`, `rebalance`, `drain` and what belongs to them: the plan first, then the progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from goqueue.cli.failures import Failed
from goqueue.cli.options import F, of_cluster
from goqueue.cli.show import print_json, print_table, remark, size_text

if TYPE_CHECKING:
    from goqueue.api.cluster import MoveIn, PlannedMove, ShardMove
    from goqueue.client import Client

_PAUSE_S: Final = 1.0
_NODE = click.argument("number", metavar="NODE", type=click.IntRange(0))


def _moving(command: F) -> F:
    """How a move is begun and watched."""
    dry_run = click.option("--dry-run", is_flag=True, help="Show what would move, and begin nothing.")
    yes = click.option("--yes", is_flag=True, help="Do not ask.")
    no_wait = click.option("--no-wait", is_flag=True, help="Return when it has begun; `cluster moves` shows it.")
    return of_cluster(dry_run(yes(no_wait(command))))


@click.command()
@click.argument("shard", type=click.IntRange(0))
@click.argument("nodes", nargs=-1, required=True, type=click.IntRange(0))
@_moving
def move(shard: int, nodes: tuple[int, ...], **options: object) -> None:
    """Move SHARD to NODES; the first of them is to lead.

    The shard is copied to those that do not hold it. The others keep it until all of them are in sync.
    """
    from goqueue.api.cluster import MoveIn

    _carry_out(MoveIn(shards={shard: list(nodes)}), options)


@click.command()
@_moving
def rebalance(**options: object) -> None:
    """Even out what nodes hold and lead, after nodes were added or a drain."""
    from goqueue.api.cluster import MoveIn

    _carry_out(MoveIn(rebalance=True), options)


@click.command()
@_NODE
@_moving
def drain(number: int, **options: object) -> None:
    """Move all that NODE holds to others; it gets nothing from then on. See `fill` and `remove`."""
    from goqueue.api.cluster import MoveIn

    _carry_out(MoveIn(drain=number), options)


@click.command()
@_NODE
@of_cluster
def fill(number: int, server: str, output: str, data: Path | None) -> None:
    """Let NODE, which was drained, hold shards again."""
    from goqueue.client.cluster import fill_node

    with _client(server, data) as client:
        client.perform(fill_node(number))
    remark(f"Node {number} may hold shards again; `goqueue cluster rebalance` gives it some.")


@click.command()
@_NODE
@of_cluster
def remove(number: int, server: str, output: str, data: Path | None) -> None:
    """Take NODE out of the cluster, when it is drained and stopped."""
    from goqueue.client.cluster import remove_node

    with _client(server, data) as client:
        client.perform(remove_node(number))
    remark(f"Node {number} does not belong to the cluster any more.")


@click.command()
@click.option("--wait", is_flag=True, help="Show the progress, and return when all have arrived.")
@of_cluster
def moves(wait: bool, server: str, output: str, data: Path | None) -> None:
    """Show the moves under way."""
    from goqueue.client.cluster import moves_under_way

    with _client(server, data) as client:
        if wait:
            _follow(client)
        found = client.perform(moves_under_way())
    if output == "json":
        print_json(found)
    else:
        print_table(("SHARD", "FROM", "TO", "BYTES", "WAITS FOR"), [_row(one) for one in found])


@click.command()
@click.argument("shard", type=click.IntRange(0), required=False)
@of_cluster
def cancel(shard: int | None, server: str, output: str, data: Path | None) -> None:
    """Turn the move of SHARD back, or all moves."""
    from goqueue.client.cluster import cancel_moves

    with _client(server, data) as client:
        turned = client.perform(cancel_moves(shard))
    if output == "json":
        print_json(turned)
    else:
        remark(f"Turned back: {', '.join(f'shard {one}' for one in turned) or 'nothing was moving'}.")


@click.command("restart-safe")
@_NODE
@of_cluster
def restart_safe(number: int, server: str, output: str, data: Path | None) -> None:
    """Say whether NODE may be stopped without a shard becoming unavailable. Exit code 1 if not."""
    from goqueue.client.cluster import restart_safe as ask

    with _client(server, data) as client:
        found = client.perform(ask(number))
    if output == "json":
        print_json(found)
    else:
        click.echo(f"Node {number} may go." if found.is_safe else f"Node {number} may not go:")
        for reason in found.reasons:
            click.echo(f"  {reason}")
    raise click.exceptions.Exit(0 if found.is_safe else 1)


MOVES: Final = (move, rebalance, drain, fill, remove, moves, cancel, restart_safe)


# --- carry out -------------------------------------------------------------------------------------------------


def _client(server: object, data: object) -> Client:
    from goqueue.cli.cluster_show import server_in
    from goqueue.client import Client

    return Client(server_in(data) if isinstance(data, Path) else str(server))


def _carry_out(ask: MoveIn, options: dict[str, object]) -> None:
    import msgspec

    from goqueue.client.cluster import move_shards

    as_json = options["output"] == "json"
    with _client(options["server"], options["data"]) as client:
        plan = client.perform(move_shards(msgspec.structs.replace(ask, dry_run=True)))
        if not as_json:
            _show_plan(plan.moves, plan.bytes)
        if not options["dry_run"] and (plan.moves or ask.drain is not None):
            if not options["yes"]:
                click.confirm("Begin?", abort=True, err=True)
            plan = client.perform(move_shards(ask))
            if not options["no_wait"]:
                _follow(client)
    if as_json:
        print_json(plan)


def _show_plan(moves: Sequence[PlannedMove], total: int) -> None:
    if not moves:
        click.echo("Nothing has to move.")
        return
    rows = [(one.shard, _nodes(one.before), _nodes(one.after), size_text(one.bytes * len(one.adds))) for one in moves]
    print_table(("SHARD", "FROM", "TO", "COPIES"), rows)
    click.echo(f"{size_text(total)} are copied in all.")


def _follow(client: Client) -> None:
    """One line a second, until nothing moves."""
    from goqueue.client import GoQueueClientError
    from goqueue.client.cluster import moves_under_way

    began, first, failures = time.monotonic(), None, 0
    while True:
        try:
            found, failures = client.perform(moves_under_way()), 0
        except GoQueueClientError as error:
            failures += 1
            if failures > 30:
                raise Failed(f"The cluster does not answer any more: {error}. The moves go on without this.") from None
            time.sleep(_PAUSE_S)
            continue
        if not found:
            remark("Everything has arrived.")
            return
        done = sum(one.bytes * share for one in found for share in one.waits_for.values())
        left = sum(one.bytes * (1 - share) for one in found for share in one.waits_for.values())
        first = done if first is None else min(first, done)
        remark(_progress(found, left, (done - first) / max(1e-9, time.monotonic() - began)))
        time.sleep(_PAUSE_S)


def _progress(found: Sequence[ShardMove], left: float, rate: float) -> str:
    shards = f"{len(found)} shard{'s' * (len(found) > 1)} moving, {size_text(int(left))} to copy"
    return shards if rate <= 0 else f"{shards}, {size_text(int(rate))}/s, {left / rate:,.0f} s left"


def _row(one: ShardMove) -> tuple[object, ...]:
    waits = ", ".join(f"node {node} ({share:.0%})" for node, share in one.waits_for.items())
    return one.shard, _nodes(one.before), _nodes(one.after), size_text(one.bytes), waits or "the controller"


def _nodes(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))

"""`goqueue cluster move`, `rebalance`, `drain` and what belongs to them: the plan first, then the progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Failed, Misused
from goqueue.cli.options import F, of_cluster
from goqueue.cli.show import print_table, remark, render, show_rows, size_text, tell

if TYPE_CHECKING:
    from goqueue.api.cluster import CopyProgress, MoveIn, MoveListOut, PlannedMove, ShardMove
    from goqueue.client import Client

_PAUSE_S: Final = 1.0
_PER_S_MAX: Final = 2**53
_NODE = click.argument("number", metavar="NODE", type=click.IntRange(0))


def _moving(command: F) -> F:
    """How a move is begun and watched."""
    dry_run = click.option("--dry-run", is_flag=True, help="Show what would move, and begin nothing.")
    no_wait = click.option("--no-wait", is_flag=True, help="Return when it has begun; `cluster moves` shows it.")
    throttle = click.option(
        "--throttle", metavar="SIZE", help="Copy at most so much a second from each node, as in 50MiB; `off` for all."
    )
    return of_cluster(dry_run(yes_option(no_wait(throttle(command)))))


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
@click.option(
    "--by",
    type=click.Choice(["bytes", "traffic"]),
    default="bytes",
    help="Even by what nodes hold, or by what is written and read.",
)
@_moving
def rebalance(by: Literal["bytes", "traffic"], **options: object) -> None:
    """Even out what nodes hold and lead, after nodes were added or a drain."""
    from goqueue.api.cluster import MoveIn

    _carry_out(MoveIn(rebalance=True, by=by), options)


@click.command()
@click.argument("numbers", metavar="NODE...", nargs=-1, required=True, type=click.IntRange(0))
@_moving
def drain(numbers: tuple[int, ...], **options: object) -> None:
    """Move all that NODE holds to others; it gets nothing from then on. See `fill` and `remove`.

    Several nodes are drained together: nothing goes from one to another of them.
    """
    from goqueue.client.cluster import to_drain

    _carry_out(to_drain(numbers), options)


@click.command()
@_NODE
@of_cluster
def fill(number: int, server: str, output: str, data: Path | None) -> None:
    """Let NODE, which was drained, hold shards again."""
    from goqueue.client.cluster import fill_node

    with cluster_client(server, data) as client:
        client.perform(fill_node(number))
    remark(f"Node {number} may hold shards again; `goqueue cluster rebalance` gives it some.")


@click.command()
@_NODE
@yes_option
@of_cluster
def remove(number: int, yes: bool, server: str, output: str, data: Path | None) -> None:
    """Take NODE out of the cluster, when it is drained and stopped."""
    from goqueue.client.cluster import remove_node

    if not yes:
        confirm(f"Take node {number} out of the cluster for ever?")
    with cluster_client(server, data) as client:
        client.perform(remove_node(number))
    remark(f"Node {number} does not belong to the cluster any more.")


@click.command()
@click.option("--wait", is_flag=True, help="Show the progress, and return when all have arrived.")
@of_cluster
def moves(wait: bool, server: str, output: str, data: Path | None) -> None:
    """Show the moves under way."""
    from goqueue.client.cluster import move_progress

    with cluster_client(server, data) as client:
        if wait:
            follow(client)
        found = client.perform(move_progress())
    columns = ("SHARD", "FROM", "TO", "BYTES", "WAITS FOR")
    show_rows(output, found.moves, columns, [_row(one) for one in found.moves])
    if found.moves:
        remark(_progress(found))


@click.command()
@click.argument("shard", type=click.IntRange(0), required=False)
@of_cluster
def cancel(shard: int | None, server: str, output: str, data: Path | None) -> None:
    """Turn the move of SHARD back, or all moves."""
    from goqueue.client.cluster import cancel_moves

    with cluster_client(server, data) as client:
        turned = client.perform(cancel_moves(shard))
    tell(
        output,
        turned,
        f"Turned back: {', '.join(f'shard {one}' for one in turned) or 'nothing was moving'}.",
        " ".join(map(str, turned)),
    )


@click.command()
@click.argument("shard", type=click.IntRange(0))
@click.option("--unclean", is_flag=True, help="Where nobody leads: let one lead that lacks something, which is lost.")
@yes_option
@of_cluster
def elect(shard: int, unclean: bool, yes: bool, server: str, output: str, data: Path | None) -> None:
    """Let the replica of SHARD that is named first lead again, at once.

    Without this it does so when it has been back for a while. --unclean needs topics that allow it.
    """
    from goqueue.client.cluster import elect_leader

    if unclean and not yes:
        confirm(f"Lose what the next leader of shard {shard} lacks?")
    with cluster_client(server, data) as client:
        client.perform(elect_leader(shard, unclean))
    remark(f"Shard {shard} has its leader.")


@click.command("restart-safe")
@_NODE
@of_cluster
def restart_safe(number: int, server: str, output: str, data: Path | None) -> None:
    """Say whether NODE may be stopped without a shard becoming unavailable. Exit code 1 if not."""
    from goqueue.client.cluster import restart_safe as ask

    with cluster_client(server, data) as client:
        found = client.perform(ask(number))
    verdict = f"Node {number} may go." if found.is_safe else f"Node {number} may not go:"
    lines = [verdict, *(f"  {reason}" for reason in found.reasons)]
    render(output, found, lambda: click.echo("\n".join(lines)), ["safe" if found.is_safe else "not-safe"])
    raise click.exceptions.Exit(0 if found.is_safe else 1)


@click.command()
@click.argument("size")
@of_cluster
def throttle(size: str, server: str, output: str, data: Path | None) -> None:
    """Copy at most SIZE a second from each node when shards move, as in 50MiB; `off` takes the limit away.

    It holds at once, also for moves under way.
    """
    from goqueue.client.cluster import throttle_moves

    per_s = _per_second(size)
    with cluster_client(server, data) as client:
        client.perform(throttle_moves(per_s))
    remark(f"Each node copies at most {size_text(per_s)}/s." if per_s else "Moves copy as fast as they can.")


def _per_second(size: str) -> int:
    from goqueue.base.settings import parse_size

    if size == "off":
        return 0
    try:
        per_s = parse_size(size)
    except ValueError as error:
        raise Misused(f"{size!r} {error}, or off.") from None
    if per_s > _PER_S_MAX:
        raise Misused(f"{size} a second is more than can be asked for; `off` takes the limit away.")
    return per_s


MOVES: Final = (move, rebalance, drain, fill, remove, moves, throttle, cancel, elect, restart_safe)


# --- carry out -------------------------------------------------------------------------------------------------


def cluster_client(server: object, data: object) -> Client:
    from goqueue.cli.cluster_show import server_in

    return connect(server_in(data) if isinstance(data, Path) else str(server))


def _carry_out(ask: MoveIn, options: dict[str, object]) -> None:
    import msgspec

    from goqueue.client.cluster import move_shards

    output = str(options["output"])
    if options["throttle"] is not None:
        ask = msgspec.structs.replace(ask, throttle=_per_second(str(options["throttle"])))
    with cluster_client(options["server"], options["data"]) as client:
        plan = client.perform(move_shards(msgspec.structs.replace(ask, dry_run=True)))
        if output == "table":
            _show_plan(plan.moves, plan.bytes)
        if not options["dry_run"] and (plan.moves or ask.drain is not None):
            if not options["yes"]:
                confirm("Begin?")
            plan = client.perform(move_shards(ask))
            if not options["no_wait"]:
                follow(client)
    render(output, plan, lambda: None, (str(one.shard) for one in plan.moves))


def _show_plan(moves: Sequence[PlannedMove], total: int) -> None:
    if not moves:
        click.echo("Nothing has to move.")
        return
    rows = [(one.shard, _nodes(one.before), _nodes(one.after), size_text(one.bytes * len(one.adds))) for one in moves]
    print_table(("SHARD", "FROM", "TO", "COPIES"), rows)
    click.echo(f"{size_text(total)} are copied in all.")


def follow(client: Client, ends: float = float("inf")) -> None:
    """One line a second, until nothing moves; `ends` is the latest, on the monotonic clock."""
    from goqueue.client import GoQueueClientError
    from goqueue.client.cluster import move_progress

    failures = 0
    while True:
        try:
            found, failures = client.perform(move_progress()), 0
        except GoQueueClientError as error:
            failures += 1
            if failures > 30:
                raise Failed(f"The cluster does not answer any more: {error}. The moves go on without this.") from None
            time.sleep(_PAUSE_S)
            continue
        if not found.moves:
            remark("Everything has arrived.")
            return
        remark(_progress(found))
        if time.monotonic() > ends:
            raise Failed("The time is over. The moves go on without this.")
        time.sleep(_PAUSE_S)


def _progress(found: MoveListOut) -> str:
    count = len(found.moves)
    return f"{count} shard{'s' * (count > 1)} moving, {_left(found)}"


def _left(copy: CopyProgress | MoveListOut) -> str:
    words = f"{size_text(copy.bytes_left)} to copy"
    if copy.bytes_per_s:
        words += f", {size_text(copy.bytes_per_s)}/s"
    return words if copy.seconds_left is None else f"{words}, {copy.seconds_left:,.0f} s left"


def _row(one: ShardMove) -> tuple[object, ...]:
    waits = [f"node {node} ({_share(one, node)}{_left(copy)})" for node, copy in one.copies.items()]
    return one.shard, _nodes(one.before), _nodes(one.after), size_text(one.bytes), "; ".join(waits) or "the controller"


def _share(one: ShardMove, node: int) -> str:
    held = one.copies[node]
    all_bytes = held.bytes_done + held.bytes_left
    return f"{held.bytes_done / all_bytes:.0%}, " if all_bytes else ""


def _nodes(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))

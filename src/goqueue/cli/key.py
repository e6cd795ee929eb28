"""`goqueue key`: create, list, rotate, revoke."""

from __future__ import annotations

import click

from goqueue.api.credentials import KeyOut, NewKeyOut
from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.options import CommandGroup, output_option, server_option, view_options
from goqueue.cli.show import remark, show_facts, show_rows, time_text
from goqueue.client import credentials as calls


def _span_ms(ctx: click.Context, param: click.Parameter, given: str | None) -> int | None:
    try:
        return None if given is None else parse_duration_ms(given, param.name or "")
    except InvalidField as error:
        raise click.BadParameter(error.message, ctx, param) from None


@click.group(cls=CommandGroup)
def key() -> None:
    """Create, list, rotate and revoke API keys."""


@key.command()
@click.argument("owner")
@click.option("--expires", "lives_ms", metavar="SPAN", callback=_span_ms, help="How long it counts, like 90d.")
@click.option("--signs", is_flag=True, help="For SQS too: the id and the secret sign requests (AWS Signature v4).")
@click.option("--note", default="", metavar="TEXT", help="What it is for.")
@server_option
@output_option
def create(owner: str, lives_ms: int | None, signs: bool, note: str, server: str, output: str) -> None:
    """Make a key of a user, and show its secret, once."""
    with connect(server) as client:
        _tell(client.perform(calls.create_key(owner, lives_ms, signs, note)), output)


@key.command("list")
@click.option("--owner", metavar="USER", help="Only this user's.")
@view_options
def list_(owner: str | None, server: str, output: str) -> None:
    """List keys, without their secrets."""
    with connect(server) as client:
        found = client.perform(calls.keys(owner))
    show_rows(
        output,
        found,
        ("KEY", "OWNER", "CREATED", "EXPIRES", "LAST USED", "SIGNS", "NOTE"),
        [_row(one) for one in found],
    )


@key.command()
@click.argument("key_id", metavar="KEY")
@click.option(
    "--overlap",
    "overlap_ms",
    default="1h",
    metavar="SPAN",
    callback=_span_ms,
    show_default=True,
    help="How long the old key counts yet.",
)
@server_option
@output_option
def rotate(key_id: str, overlap_ms: int, server: str, output: str) -> None:
    """Put a new key in the place of another."""
    with connect(server) as client:
        _tell(client.perform(calls.rotate_key(key_id, overlap_ms)), output)


@key.command()
@click.argument("key_id", metavar="KEY")
@yes_option
@server_option
def revoke(key_id: str, yes: bool, server: str) -> None:
    """Revoke a key at once, and cut its connections."""
    if not yes:
        confirm(f"Revoke key {key_id!r} for ever, and cut its connections?")
    with connect(server) as client:
        client.perform(calls.revoke_key(key_id))
    remark(f"Revoked {key_id}.")


def _tell(made: NewKeyOut, output: str) -> None:
    remark("The secret is not shown again.")
    show_facts(output, made, [("id", made.key.id), ("secret", made.secret), ("token", made.token)], made.key.id)


def _row(one: KeyOut) -> tuple[str, ...]:
    times = ("-" if at is None else time_text(at) for at in (one.created_ms, one.expires_ms, one.last_used_ms))
    return one.id, one.owner, *times, "yes" if one.signs else "no", one.note

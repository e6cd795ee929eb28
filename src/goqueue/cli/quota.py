"""`goqueue quota`: set, list and delete limits of users and clients."""

from __future__ import annotations

import click

from goqueue.api.quotas import QuotaOut
from goqueue.base.quotas import LIMITS, QuotaEntity
from goqueue.base.settings import parse_size
from goqueue.cli.connecting import connect
from goqueue.cli.options import CommandGroup, output_option, pairs, server_option, view_options
from goqueue.cli.show import remark, show_rows, tell
from goqueue.client.quotas import delete_quota, list_quotas, set_quota

_user = click.option("--user", help="Of this user; an empty name means each user that has no limit of its own.")
_client = click.option("--client-id", help="Of this client id; an empty name means each client id.")
_tenant = click.option("--tenant", help="Of all of this tenant together; an empty name means each tenant.")


@click.group(cls=CommandGroup)
def quota() -> None:
    """Set, list and delete limits of users and clients."""


@quota.command("set")
@click.argument("limits", nargs=-1, required=True, callback=pairs("limit"), metavar="LIMIT=VALUE...")
@_user
@_client
@_tenant
@server_option
@output_option
def set_(
    limits: list[tuple[str, str]],
    user: str | None,
    client_id: str | None,
    tenant: str | None,
    server: str,
    output: str,
) -> None:
    """Set limits, each so many a second at each node: producer_byte_rate, consumer_byte_rate, request_rate,
    message_rate; and of a tenant how much it has: topics, partitions, storage_bytes, groups, delayed, in_flight,
    connections, message_bytes."""
    _check(user, client_id, tenant)
    chosen = {name: _number(name, value) for name, value in limits}
    with connect(server) as client:
        made = client.perform(set_quota(user, client_id, chosen, tenant))
    tell(output, made, f"{_whose(made)}: {_limits(made)}.", _whose(made))


@quota.command("list")
@view_options
def list_(server: str, output: str) -> None:
    """List limits."""
    with connect(server) as client:
        found = client.perform(list_quotas())
    show_rows(output, found.quotas, ("OF", "LIMITS"), [(_whose(one), _limits(one)) for one in found.quotas])


@quota.command()
@_user
@_client
@_tenant
@server_option
def delete(user: str | None, client_id: str | None, tenant: str | None, server: str) -> None:
    """Take all limits of a user, a client id or a tenant away."""
    _check(user, client_id, tenant)
    with connect(server) as client:
        client.perform(delete_quota(user, client_id, tenant))
    remark(f"{QuotaEntity(user, client_id, tenant)} has no limits.")


def _check(user: str | None, client_id: str | None, tenant: str | None) -> None:
    if (user is None and client_id is None) == (tenant is None):
        raise click.UsageError("Name --user, --client-id, or both; or --tenant.")


def _number(name: str, value: str) -> float:
    if name not in LIMITS:
        raise click.UsageError(f"{name!r} is no limit; there are {', '.join(LIMITS)}.")
    try:
        return float(parse_size(value)) if "byte" in name else float(value)
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}.") from None


def _whose(one: QuotaOut) -> str:
    return str(QuotaEntity(one.user, one.client_id, one.tenant))


def _limits(one: QuotaOut) -> str:
    return ", ".join(f"{name}={value:,.0f}" for name, value in one.limits.items())

"""`goqueue tenant`: create, list, show, usage, delete."""

from __future__ import annotations

import click

from goqueue.api.tenants import TenantOut, UsageOut
from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.options import CommandGroup, server_option, view_options
from goqueue.cli.show import remark, show_rows, time_text
from goqueue.client import tenants as calls


@click.group(cls=CommandGroup)
def tenant() -> None:
    """Create, list, show and delete tenants, and tell what they have."""


@tenant.command()
@click.argument("name")
@server_option
def create(name: str, server: str) -> None:
    """Create a tenant. Users of it are added with `goqueue user add --tenant`."""
    with connect(server) as client:
        client.perform(calls.create_tenant(name))
    remark(f"Created tenant {name!r}.")


@tenant.command("list")
@view_options
def list_(server: str, output: str) -> None:
    """List tenants, and what each of them has."""
    with connect(server) as client:
        found = client.perform(calls.tenants())
    show_rows(
        output, found, ("TENANT", "TOPICS", "PARTITIONS", "MESSAGES", "BYTES", "GROUPS", "USERS"), map(_row, found)
    )


@tenant.command()
@click.argument("name")
@view_options
def show(name: str, server: str, output: str) -> None:
    """Show a tenant, and what it has."""
    with connect(server) as client:
        found = client.perform(calls.tenant(name))
    show_rows(output, found, ("WHAT", "VALUE"), _lines(found))


@tenant.command()
@click.argument("name", required=False)
@view_options
def usage(name: str | None, server: str, output: str) -> None:
    """Show what a tenant has; without a name, the tenant that your credentials belong to."""
    with connect(server) as client:
        found = client.perform(calls.usage()) if name is None else client.perform(calls.tenant(name))
    show_rows(output, found, ("WHAT", "VALUE"), _counts(found))


@tenant.command()
@click.argument("name")
@yes_option
@server_option
def delete(name: str, yes: bool, server: str) -> None:
    """Delete a tenant that has no topics, groups, subjects and users any more."""
    if not yes:
        confirm(f"Delete tenant {name!r}?")
    with connect(server) as client:
        client.perform(calls.delete_tenant(name))
    remark(f"Deleted tenant {name!r}.")


def _row(one: TenantOut) -> tuple[str, ...]:
    return one.name, *map(str, (one.topics, one.partitions, one.messages, one.size_bytes, one.groups, one.users))


def _lines(one: TenantOut) -> list[tuple[str, str]]:
    return [("tenant", one.name), ("created", time_text(one.created_ms)), *_counts(one)]


def _counts(one: TenantOut | UsageOut) -> list[tuple[str, str]]:
    fields = [name for name in one.__struct_fields__ if name not in ("name", "created_ms", "limits")]
    counts = [(name.replace("_", " "), str(getattr(one, name))) for name in fields]
    return counts + [(f"limit of {name}", f"{most:,.0f}") for name, most in one.limits.items()]

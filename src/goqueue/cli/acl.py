"""`goqueue acl`: add, list and delete rules of access control, and ask which of them decides."""

from __future__ import annotations

from collections.abc import Sequence

import click

from goqueue.base.access import (
    ANY_HOST,
    USER,
    AclPattern,
    AclPermission,
    AclRule,
    mistake_in,
    parse_operation,
    parse_pattern,
)
from goqueue.base.errors import InvalidField
from goqueue.cli.connecting import connect
from goqueue.cli.options import CommandGroup, output_option, server_option, view_options
from goqueue.cli.show import counted, remark, render, show_rows, tell
from goqueue.client.acls import add_acls, delete_acls, explain_acl, list_acls

_RESOURCE = (
    "RESOURCE is topic:NAME, group:NAME, transactional-id:NAME, subject:NAME or cluster; NAME* is every name "
    "that begins so, * every name."
)


@click.group(cls=CommandGroup)
def acl() -> None:
    """Add, list, delete and explain rules of access control."""


@acl.command(epilog=_RESOURCE)
@click.argument("user")
@click.argument("operations", metavar="OPERATION[,OPERATION...]")
@click.argument("resource")
@click.option("--deny", is_flag=True, help="Deny it, whatever other rules allow.")
@click.option("--host", default=ANY_HOST, show_default=True, help="Only from this address.")
@server_option
@output_option
def add(user: str, operations: str, resource: str, deny: bool, host: str, server: str, output: str) -> None:
    """Add a rule: USER (or * for everybody) may do OPERATION to RESOURCE."""
    rules = _rules(user, operations.split(","), resource, AclPermission.DENY if deny else AclPermission.ALLOW, host)
    with connect(server) as client:
        made = client.perform(add_acls(rules))
    tell(output, made, "\n".join(f"{rule}." for rule in made.rules), resource)
    if not made.enforced:
        remark("This node asks no rules: its security.authorization is off.")


@acl.command("list")
@click.option("--user", help="Only rules of this user.")
@click.option("--resource", help="Only rules that name just this.")
@click.option("--matching", is_flag=True, help="With --resource: all rules that hold for it.")
@view_options
def list_(user: str | None, resource: str | None, matching: bool, server: str, output: str) -> None:
    """List rules."""
    with connect(server) as client:
        found = client.perform(list_acls(_chosen(user, resource, matching)))
    columns = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "HOST")
    show_rows(output, found, columns, map(_row, found.rules), (_row(rule)[3] for rule in found.rules))
    if not found.enforced:
        remark("This node asks no rules: its security.authorization is off.")


@acl.command(epilog=_RESOURCE)
@click.argument("user")
@click.argument("operations", metavar="OPERATION[,OPERATION...]")
@click.argument("resource")
@click.option("--deny", is_flag=True, help="A rule that denies.")
@click.option("--host", default=ANY_HOST, show_default=True, help="The rule's address.")
@server_option
@output_option
def delete(user: str, operations: str, resource: str, deny: bool, host: str, server: str, output: str) -> None:
    """Delete a rule, named as `add` names it."""
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    gone: list[AclRule] = []
    with connect(server) as client:
        for rule in _rules(user, operations.split(","), resource, permission, host):
            gone += client.perform(delete_acls(_exactly(rule))).rules
    tell(output, gone, f"{counted(len(gone), 'rule')} deleted.", resource)


@acl.command(epilog=_RESOURCE)
@click.argument("user")
@click.argument("operation")
@click.argument("resource")
@click.option("--host", default="", help="The address that the user asks from.")
@view_options
def explain(user: str, operation: str, resource: str, host: str, server: str, output: str) -> None:
    """Say whether USER may do OPERATION to RESOURCE, and which rule decides."""
    with connect(server) as client:
        found = client.perform(explain_acl(user, operation, resource, host))
    word = "allowed" if found.allowed else "refused"
    lines = [f"{word}: {found.reason}"] + ([] if found.rule is None else [f"rule: {found.rule}"])
    render(output, found, lambda: click.echo("\n".join(lines)), [word])
    if not found.enforced:
        remark("This node asks no rules: its security.authorization is off.")


def _rules(user: str, operations: Sequence[str], resource: str, permission: AclPermission, host: str) -> list[AclRule]:
    try:
        kind, name, pattern = parse_pattern(resource)
        principal = USER + user.removeprefix(USER)
        rules = [AclRule(principal, permission, parse_operation(one), kind, name, pattern, host) for one in operations]
    except InvalidField as error:
        raise click.UsageError(error.message) from None
    for rule in rules:
        if mistake := mistake_in(rule):
            raise click.UsageError(mistake)
    return rules


def _exactly(rule: AclRule) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "permission": rule.permission.value,
        "operation": rule.operation.value,
        "kind": rule.kind.value,
        "name": rule.name,
        "pattern": rule.pattern.value,
        "host": rule.host,
    }


def _chosen(user: str | None, resource: str | None, matching: bool) -> dict[str, str]:
    chosen = {} if user is None else {"principal": USER + user.removeprefix(USER)}
    if resource is None:
        return chosen
    try:
        kind, name, pattern = parse_pattern(resource)
    except InvalidField as error:
        raise click.UsageError(error.message) from None
    chosen |= {"kind": kind.value, "name": name}
    return chosen | ({"matching": "true"} if matching else {"pattern": pattern.value})


def _row(rule: AclRule) -> tuple[str, ...]:
    named = f"{rule.kind.value}:{rule.name}" + ("*" if rule.pattern is AclPattern.PREFIXED else "")
    return rule.principal, rule.permission.value, rule.operation.value, named, rule.host

"""`goqueue user`: add, list, passwd, disable, enable, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from goqueue.api.credentials import UserOut
from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Misused
from goqueue.cli.options import CommandGroup, server_option, view_options
from goqueue.cli.show import remark, show_rows, time_text
from goqueue.client import credentials as calls

F = TypeVar("F", bound=Callable[..., Any])


def password_option(command: F) -> F:
    return click.option(
        "--password-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The password is the file's first line; `-` reads it from standard input. Without, you are asked.",
    )(command)


@click.group(cls=CommandGroup)
def user() -> None:
    """Add, list, change and delete users."""


@user.command()
@click.argument("name")
@password_option
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Into a stopped node's data directory.")
@click.option("--tenant", default="", metavar="TENANT", help="The user and its keys see this tenant alone.")
@server_option
def add(name: str, password_file: Path | None, data: Path | None, tenant: str, server: str) -> None:
    """Add a user.

    With --data no node is asked: so the first user of a node is made before it starts.
    """
    password = _password(password_file)
    if data is not None:
        if tenant:
            raise Misused("A user of a tenant is added while the node runs, without --data.")
        from goqueue.cli.offline_users import add_offline

        add_offline(data, name, password)
    else:
        with connect(server) as client:
            client.perform(calls.add_user(name, password, tenant))
    remark(f"Added user {name!r}.")


@user.command("list")
@view_options
def list_(server: str, output: str) -> None:
    """List users."""
    with connect(server) as client:
        found = client.perform(calls.users())
    show_rows(output, found, ("USER", "MECHANISMS", "STATE", "TENANT", "CREATED"), [_row(one) for one in found])


@user.command()
@click.argument("name")
@password_option
@server_option
def passwd(name: str, password_file: Path | None, server: str) -> None:
    """Change a user's password."""
    password = _password(password_file)
    with connect(server) as client:
        client.perform(calls.change_user(name, password))
    remark(f"Changed the password of {name!r}.")


@user.command()
@click.argument("name")
@server_option
def disable(name: str, server: str) -> None:
    """Shut a user out, and cut its connections."""
    with connect(server) as client:
        client.perform(calls.change_user(name, disabled=True))
    remark(f"Disabled {name!r}.")


@user.command()
@click.argument("name")
@server_option
def enable(name: str, server: str) -> None:
    """Let a disabled user in again."""
    with connect(server) as client:
        client.perform(calls.change_user(name, disabled=False))
    remark(f"Enabled {name!r}.")


@user.command()
@click.argument("name")
@yes_option
@server_option
def delete(name: str, yes: bool, server: str) -> None:
    """Delete a user and its keys, and cut its connections."""
    if not yes:
        confirm(f"Delete user {name!r} and all its keys?")
    with connect(server) as client:
        client.perform(calls.delete_user(name))
    remark(f"Deleted user {name!r}.")


def _row(one: UserOut) -> tuple[str, str, str, str, str]:
    state = "disabled" if one.disabled else "ok"
    return one.name, ", ".join(one.mechanisms), state, one.tenant or "-", time_text(one.created_ms)


def _password(file: Path | None) -> str:
    """Never from the command line, which every process of the machine can read."""
    if file is None:
        given: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return given
    text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8")
    if not (password := text.partition("\n")[0].rstrip("\r")):
        raise Misused("There is no password in what was given.")
    return password

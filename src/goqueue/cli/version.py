"""`goqueue version`."""

from __future__ import annotations

import platform

import click

from goqueue import __version__
from goqueue.cli.options import output_option, server_option
from goqueue.cli.show import print_json


@click.command()
@click.option("--broker", is_flag=True, help="Ask the broker for its version too.")
@server_option
@output_option
def version(broker: bool, server: str, output: str) -> None:
    """Show the version."""
    told: dict[str, object] = {"version": __version__, "python": platform.python_version()}
    if broker:
        from goqueue.client import Client

        with Client(server) as client:
            found = client.version()
        told["broker"] = {"url": server, "version": found.version, "python": found.python}
    if output == "json":
        print_json(told)
        return
    click.echo(f"goqueue {__version__} (Python {told['python']})")
    if broker:
        click.echo(f"broker  {found.version} (Python {found.python}) at {server}")

"""`goqueue version`."""

from __future__ import annotations

import platform

import click

from goqueue import __version__
from goqueue.cli.connecting import connect
from goqueue.cli.options import output_option, server_option
from goqueue.cli.show import render


@click.command()
@click.option("--broker", is_flag=True, help="Ask the broker for its version too.")
@server_option
@output_option
def version(broker: bool, server: str, output: str) -> None:
    """Show the version."""
    told: dict[str, object] = {"version": __version__, "python": platform.python_version()}
    if broker:
        with connect(server) as client:
            found = client.version()
        told["broker"] = {"url": server, "version": found.version, "python": found.python}
    lines = [f"goqueue {__version__} (Python {told['python']})"]
    if broker:
        lines.append(f"broker  {found.version} (Python {found.python}) at {server}")
    render(output, told, lambda: click.echo("\n".join(lines)), [__version__])

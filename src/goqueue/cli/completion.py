"""`goqueue completion`: what a shell needs to complete commands, options and live names."""

from __future__ import annotations

from typing import Final

import click

_HINTS: Final = {
    "bash": 'eval "$(goqueue completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(goqueue completion zsh)"       # in ~/.zshrc, behind compinit',
    "fish": "goqueue completion fish | source      # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HINTS.values()))
@click.argument("shell", type=click.Choice(list(_HINTS)))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and names.

    Topics, groups and subjects are asked of the broker that the line means, for a second at most. If that fails,
    nothing is offered and nothing is said.
    """
    from click.shell_completion import get_completion_class

    from goqueue.cli import app

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(app, {}, "goqueue", "_GOQUEUE_COMPLETE").source())

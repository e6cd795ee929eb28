"""Which broker a command talks to, and as whom: flags win over a named context, that over the environment, that over
the current context."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from goqueue.client import Client

DEFAULT_SERVER: Final = "http://127.0.0.1:8080"
_CONTEXT: Final = "goqueue.context"
_TARGET: Final = "goqueue.target"
_TIMEOUT_S: Final = 30.0


class BrokerTarget(NamedTuple):
    """An empty key or authority leaves it to the environment."""

    server: str
    key: str = ""
    ca_file: str = ""


def name_context(ctx: click.Context, name: str) -> None:
    """What `--context` behind a command says."""
    ctx.find_root().meta[_CONTEXT] = name


def target_of(ctx: click.Context, server: str | None) -> BrokerTarget:
    """What is meant, `server` being the flag behind the command; `connect` knows it from then on."""
    root = ctx.find_root()
    found = _found(root, server or _flag(root, "server"), root.meta.get(_CONTEXT) or _flag(root, "context"))
    root.meta[_TARGET] = found
    return found


def _found(root: click.Context, server: str | None, named: str | None) -> BrokerTarget:
    if named is not None:
        target = _of_context(named)
        return target._replace(server=server or target.server)
    if server := server or root.params.get("server"):
        return BrokerTarget(server)
    if name := root.params.get("context") or _current():
        target = _of_context(name)
        if os.environ.get("GOQUEUE_KEY") or os.environ.get("GOQUEUE_KEY_FILE"):
            target = target._replace(key="")
        return target._replace(ca_file="") if os.environ.get("GOQUEUE_CA_FILE") else target
    return BrokerTarget(DEFAULT_SERVER)


def _flag(root: click.Context, name: str) -> str | None:
    """What was typed before the command, not what the environment says."""
    typed = root.get_parameter_source(name) is ParameterSource.COMMANDLINE
    value = root.params.get(name)
    return value if typed and isinstance(value, str) else None


def _current() -> str | None:
    from goqueue.cli.contexts import contexts_file, read_contexts

    return read_contexts().current if contexts_file().exists() else None


def _of_context(name: str) -> BrokerTarget:
    from goqueue.cli.contexts import read_contexts

    found = read_contexts().get(name)
    return BrokerTarget(found.server, found.key, found.ca_file)


def connect(server: str, timeout: float = _TIMEOUT_S, *, same_cluster: bool = False) -> Client:
    """A client. The key of a context is shown to that context's broker alone, or to nodes of its cluster."""
    from goqueue.client import Client

    target = identity_for(server, same_cluster)
    return Client(server, timeout, key=target.key or None, ca_file=target.ca_file or None)


def connect_to_context(name: str) -> Client:
    """A client of a context's broker, whichever is the current one."""
    from goqueue.client import Client

    target = _of_context(name)
    return Client(target.server, _TIMEOUT_S, key=target.key or None, ca_file=target.ca_file or None)


def identity_for(server: str, same_cluster: bool = False) -> BrokerTarget:
    ctx = click.get_current_context(silent=True)
    target = None if ctx is None else ctx.find_root().meta.get(_TARGET)
    if isinstance(target, BrokerTarget) and (same_cluster or target.server == server):
        return target._replace(server=server)
    return BrokerTarget(server)

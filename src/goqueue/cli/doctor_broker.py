"""Checks of a broker that runs: is it there, ready, of this version, and do clocks agree."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from goqueue import __version__
from goqueue.api.cluster import ClusterNode
from goqueue.cli.connecting import BrokerTarget, connect
from goqueue.cli.doctor_checks import Finding
from goqueue.client import ConnectionFailed, GoQueueClientError
from goqueue.client.cluster import cluster_health, cluster_state
from goqueue.client.transport import client_options, identity_of

_ASK_S: Final = 5.0
_NODES_MAX: Final = 32
_CLOCK_S_MAX: Final = 2.0  # the header that is looked at tells whole seconds


def check_broker(target: BrokerTarget) -> Iterator[Finding]:
    with connect(target.server, _ASK_S) as client:
        try:
            told = client.version()
        except ConnectionFailed as error:
            yield Finding(
                "broker", "wrong", error.detail, "Start it, or name another with --server; --offline asks none."
            )
            return
        except GoQueueClientError as error:
            yield Finding("broker", "wrong", str(error), "Show a key: GOQUEUE_KEY_FILE, or a context with one.")
            return
        yield _version(told.version, "broker")
        ready = client.ready()
        for name, one in (ready.told.get("checks") or {}).items():
            yield Finding(f"broker: {name}", "ok" if one["ok"] else "wrong", one["detail"])
        try:
            state, health = client.perform(cluster_state()), client.perform(cluster_health())
        except GoQueueClientError as error:
            yield Finding("cluster", "skipped", str(error))
            yield from _clock(target, target.server)
            return
    verdict = {"ok": "ok", "degraded": "warning", "unavailable": "wrong"}[health.status]
    advice = "`goqueue cluster status` and `goqueue cluster shards` show more." if verdict != "ok" else ""
    detail = "; ".join(health.problems) or f"{health.nodes_alive} alive, {health.shards} shards"
    yield Finding("cluster", verdict, detail, advice)  # type: ignore[arg-type]
    for node in state.nodes[:_NODES_MAX]:
        yield from _node(target, node, alone=len(state.nodes) == 1)


def _version(found: str, what: str) -> Finding:
    if found == __version__:
        return Finding(what, "ok", f"version {found}, as this program")
    return Finding(what, "warning", f"version {found}; this program is {__version__}", "Use the same version for both.")


def _node(target: BrokerTarget, node: ClusterNode, alone: bool) -> Iterator[Finding]:
    if not alone:
        yield _version(node.version, f"node {node.id}")
    rest = target.server if alone else node.addresses.get("rest", "")
    if node.state == "alive" and rest.startswith("http"):
        yield from _clock(target, rest)


def _clock(target: BrokerTarget, rest: str) -> Iterator[Finding]:
    """The node's clock beside this one's, by what stands in an answer's head."""
    options = client_options(_ASK_S, identity_of(target.key or None, target.ca_file or None))
    try:
        with httpx.Client(**options) as client:
            before = time.time()
            head = client.get(f"{rest}/healthz").headers.get("date", "")
            after = time.time()
        told = parsedate_to_datetime(head).timestamp()
    except (httpx.HTTPError, ValueError, TypeError):
        yield Finding("clock", "skipped", f"{rest} does not tell its time")
        return
    apart = max(before - 1 - told, told - after, 0.0)
    detail = f"{rest} is within a second of this machine" if apart < 1 else f"{rest} is {apart:.0f} s apart"
    if apart > _CLOCK_S_MAX:
        yield Finding("clock", "warning", detail, "Keep both clocks right, with chrony or systemd-timesyncd.")
    else:
        yield Finding("clock", "ok", detail)

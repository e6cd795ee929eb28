"""The node's two doors that pipelines use. Who knows one is told the other."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.pipeline.link.cluster import FIRST_ANSWER_S, PATIENCE_S, cluster
from goqueue.pipeline.link.errors import BrokerRefused, PipelineError
from goqueue.pipeline.link.identity import NodeIdentity, split_identity, with_identity
from goqueue.pipeline.link.patience import Patience
from goqueue.wire.codes import CLUSTER_AUTHORIZATION_FAILED

_REST_ADDRESS: Final = "goqueue.rest.address"
_ANSWER_S: Final = 10.0


class NodeAddresses(msgspec.Struct, frozen=True):
    """`kafka` is `host:port[,host:port]`, `url` is `http://...`."""

    kafka: str
    url: str


def doors(kafka: str | None, url: str | None, patience_s: float = FIRST_ANSWER_S) -> NodeAddresses:
    """What is not given is asked of the node, once a process."""
    if kafka and url:
        return NodeAddresses(kafka, url.rstrip("/"))
    if kafka:
        return NodeAddresses(kafka, _url_behind(kafka, patience_s))
    if url:
        return NodeAddresses(_kafka_behind(url.rstrip("/"), patience_s), url.rstrip("/"))
    raise PipelineError("No address of a node was given; set kafka.bootstrap.servers (HOST:PORT) or url (http://...).")


def ask_again() -> None:
    """A node is away: in a cluster others have doors too."""
    _url_behind.cache_clear()
    _kafka_behind.cache_clear()


@lru_cache(maxsize=64)
def _url_behind(kafka: str, patience_s: float) -> str:
    known, (bare, identity) = cluster(kafka, max(patience_s, PATIENCE_S), patience_s), split_identity(kafka)
    try:
        url = known.node_config([_REST_ADDRESS]).get(_REST_ADDRESS)
    except BrokerRefused as error:
        if error.code != CLUSTER_AUTHORIZATION_FAILED:
            raise
        url = None
    if not url:
        raise PipelineError(f"The node at {bare} does not tell its REST door; set the option url to http://HOST:PORT.")
    return with_identity(url.rstrip("/"), identity)


@lru_cache(maxsize=64)
def _kafka_behind(url: str, patience_s: float) -> str:
    bare, identity = split_identity(url)
    kafka = _doors_of(bare, identity, patience_s).get("kafka")
    if not isinstance(kafka, str) or not kafka:
        raise PipelineError(f"The node at {bare} has no Kafka door open; start it with one (kafka.listen).")
    return with_identity(kafka, identity)


def _doors_of(url: str, identity: NodeIdentity, patience_s: float) -> dict[str, Any]:
    import httpx  # executors are given both doors and never need it

    if not url.startswith(("http://", "https://")):
        raise PipelineError(f"{url!r} is not the address of a REST door; write http://HOST:PORT.")
    patience, verify = Patience(url, patience_s), identity.context() or True
    while True:
        try:
            answer = httpx.get(f"{url}/doors", timeout=_ANSWER_S, verify=verify, headers=identity.headers())
        except httpx.TransportError as error:
            cut_off = httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError
            is_hung_up = url.startswith("https:") and isinstance(error, cut_off)
            patience.pause(OSError(f"{str(error).rstrip('.')}; {identity.objection()}" if is_hung_up else str(error)))
            continue
        if answer.status_code == httpx.codes.OK:
            return from_json(answer.content, dict[str, Any])
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            raise PipelineError(f"What answers at {url} is no GoQueue node ({answer.status_code}); check the address.")
        patience.pause(OSError("it is starting or stopping"))

"""Questions to the node's REST door, asked until it answers: it may just be starting again."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeVar

from goqueue.client import Client, ConnectionFailed, GoQueueClientError
from goqueue.client.calls import RestCall
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.link.cluster import PATIENCE_S
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.link.patience import Patience

_NOT_YET: Final = 503

T = TypeVar("T")


def ask(url: str, call: RestCall[T]) -> T:
    """The answer; `NodeUnreachable` if there is none for two minutes. Only for what may be asked twice."""
    patience = Patience(url, PATIENCE_S)
    while True:
        try:
            return _client(url).perform(call)
        except GoQueueClientError as error:
            if not isinstance(error, ConnectionFailed) and error.status != _NOT_YET:
                raise LakeError(f"{error.detail} ({error.code}, {url})") from error
            patience.pause(OSError(error.detail))


@lru_cache(maxsize=16)
def _client(url: str) -> Client:
    """One for each node; the driver ends with it."""
    return node_client(url)

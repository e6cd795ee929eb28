"""The node's staged sets, asked with patience: whatever is asked may be asked again without harm."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from goqueue.client import Client, ConnectionFailed, GoQueueClientError, transactions
from goqueue.client import staged as calls
from goqueue.client.retry import backoff
from goqueue.client.staged import StagedEnd, StagedWriterId
from goqueue.pipeline.link.doors import ask_again
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import node_client

PATIENCE_S: Final = 120.0  # a node is back from a restart by then
STAGED_S: Final = 3600.0  # how long a writer's rows wait for their commit
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0

T = TypeVar("T")


class SinkRefused(PipelineError):
    """The node does not take or commit the rows."""


class StagedSetClient:
    """The sets, asked for at the REST door that `find` names, or at another one if that does not answer."""

    def __init__(self, find: Callable[[], str], patience_s: float = PATIENCE_S) -> None:
        self._find = find
        self._patience_s = patience_s

    def stage(self, owner: str, batch: int, writer: int, attempt: int) -> StagedWriterId:
        """A writer of that batch; one of the same name and attempt is shut out."""
        return self._ask(lambda node: node.perform(calls.stage(owner, batch, writer, attempt, STAGED_S)))

    def commit(self, owner: str, batch: int, writers: Sequence[StagedWriterId]) -> StagedEnd:
        """Shows what these wrote, all at once, and drops the owner's other writers."""
        return self._ask(lambda node: node.perform(calls.commit(owner, batch, writers)))

    def abort(self, owner: str, batch: int) -> StagedEnd:
        """Drops what is staged for the batch; what was committed stays, and the answer says so."""
        return self._ask(lambda node: node.perform(calls.abort(owner, batch)))

    def drop(self, writer: StagedWriterId) -> None:
        """Ends one writer. It would end by itself too, but until then readers wait at what it wrote."""
        self._ask(lambda node: node.perform(transactions.abort(writer.transactional_id)))

    def _ask(self, question: Callable[[Client], T]) -> T:
        begun, attempt = time.monotonic(), 0
        while True:
            url = self._find()
            try:
                return question(_client(url))
            except GoQueueClientError as error:
                ask_again()
                attempt += 1
                pause = backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, attempt) * random.uniform(0.5, 1.0)
                if not _may_pass(error) or time.monotonic() + pause - begun > self._patience_s:
                    raise SinkRefused(f"{error.detail} ({error.code}, {url})") from error
            time.sleep(pause)


def _may_pass(why: GoQueueClientError) -> bool:
    return isinstance(why, ConnectionFailed) or why.status == 503


@lru_cache(maxsize=16)
def _client(url: str) -> Client:
    """One for each process and node: nobody tells a worker when to close it."""
    return node_client(url)

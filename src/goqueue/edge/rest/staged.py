"""Routes of staged sets: writers of a batch, its commit or abort, and what is known of its owner."""

from __future__ import annotations

from itertools import groupby

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.groups import TopicParts
from goqueue.api.staged import (
    OpenWriter,
    Staged,
    StagedCommitIn,
    StagedEnd,
    StagedOwner,
    StagedOwnerList,
    StagedWriterId,
    WriterIn,
)
from goqueue.base.commands import Caller
from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.core.txn.records import TxnState
from goqueue.core.txn.staged import BATCH_MAX, NamedWriter, writer_of
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number
from goqueue.edge.rest.translate import duration_in
from goqueue.service.front import Front, answer_of
from goqueue.service.staged import OwnerView, StagedSetEnded, StagedVerbs
from goqueue.service.transactions import TransactionVerbs


class StagedRoutes:
    def __init__(self, staged: Front[StagedVerbs], transactions: Front[TransactionVerbs], bodies: Bodies) -> None:
        self._staged = staged
        self._transactions = transactions
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, base = "staged sets", "/staged/{owner}/{batch}"
        limit = Param("limit", "At most this many, 1 to 10,000; default 100.", "integer")
        return [
            RestOperation("POST", f"{base}/writers", self.stage, "Stage a writer", tag, StagedWriterId, 200, WriterIn),
            RestOperation("POST", f"{base}/commit", self.commit, "Commit a batch", tag, StagedEnd, 200, StagedCommitIn),
            RestOperation("POST", f"{base}/abort", self.abort, "Abort a batch", tag, StagedEnd),
            RestOperation("GET", "/staged", self.list, "List owners", tag, StagedOwnerList, params=(limit,)),
            RestOperation("GET", "/staged/{owner}", self.describe, "Describe an owner", tag, Staged),
        ]

    async def stage(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, WriterIn)
        timeout_ms = duration_in(given.timeout, "timeout")
        state = await self._staged.by(caller_of(request)).stage(
            *_set_of(request), given.writer, given.attempt, timeout_ms
        )
        return json(StagedWriterId(state.transactional_id, state.producer_id, state.epoch))

    async def commit(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, StagedCommitIn)
        named = [NamedWriter(one.transactional_id, one.producer_id, one.epoch, one.messages) for one in given.writers]
        return _ended(await self._staged.by(caller_of(request)).commit(*_set_of(request), named))

    async def abort(self, request: Request) -> Response:
        return _ended(await self._staged.by(caller_of(request)).abort(*_set_of(request)))

    async def list(self, request: Request) -> Response:
        limit = Query(request, "limit").number("limit", 100, 1, MESSAGES_PER_READ_MAX)
        views = await answer_of(self._staged.by(caller_of(request)).owners(limit))
        return json(StagedOwnerList([StagedOwner(*_facts(view), len(view.open)) for view in views]))

    async def describe(self, request: Request) -> Response:
        Query(request)
        view = await answer_of(self._staged.by(caller_of(request)).owner(request.path_params["owner"]))
        return json(Staged(*_facts(view), [self._writer(caller_of(request), state) for state in view.open]))

    def _writer(self, caller: Caller, state: TxnState) -> OpenWriter:
        by_topic = groupby(state.partitions, key=lambda one: one[0])
        return OpenWriter(
            state.transactional_id,
            state.producer_id,
            state.epoch,
            *writer_of(state.transactional_id),
            state.batch,
            state.stage.name.lower(),
            state.timeout_ms,
            state.started_ms,
            self._transactions.by(caller).runs_for_ms(state),
            [TopicParts(topic, [one for _, one in found]) for topic, found in by_topic],
        )


def _set_of(request: Request) -> tuple[str, int]:
    """The owner and the batch."""
    return request.path_params["owner"], number(request.path_params["batch"], "batch", 0, BATCH_MAX)


def _facts(view: OwnerView) -> tuple[str, int | None, int | None]:
    last = view.committed
    return (view.owner, None, None) if last is None else (view.owner, last.last_batch, last.updated_ms)


def _ended(ended: StagedSetEnded) -> Response:
    return json(StagedEnd(ended.outcome, ended.dropped))

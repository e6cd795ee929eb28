"""Routes of transactions: producers, what happens inside a transaction, its end, administration."""

from __future__ import annotations

from base64 import b32encode
from itertools import groupby
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.groups import TopicParts
from goqueue.api.transactions import (
    AbortIn,
    AddPartitionIn,
    ProducerBeatIn,
    ProducerIn,
    ProducerOut,
    Transaction,
    TransactionListOut,
    TransactionOffset,
    TransactionStatsOut,
    TxnAckIn,
    TxnNackIn,
    TxnOffsetsIn,
    TxnPartIn,
    TxnPartOut,
    TxnPublishIn,
    TxnPublishOut,
    TxnRejectIn,
    WhoIn,
)
from goqueue.base.commands import Caller, PublishResult
from goqueue.base.entropy import Entropy
from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.base.settings import TransactionSettings
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn.records import TxnAnswer, TxnState
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.messages import result_out
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number
from goqueue.edge.rest.translate import duration_in, messages_in
from goqueue.service.front import Front, answer_of
from goqueue.service.leasing import LEASE_MS_MAX
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages, TransactionalPublish

_ID_MAX = 2**63 - 1
_SESSION_MS_MAX = 1_800_000

Who = tuple[str, int, int]


class TransactionRoutes:
    def __init__(
        self,
        transactions: Front[TransactionVerbs],
        publish: Front[TransactionalPublish],
        bodies: Bodies,
        settings: TransactionSettings,
        entropy: Entropy,
    ) -> None:
        self._transactions = transactions
        self._publish = publish
        self._bodies = bodies
        self._settings = settings
        self._entropy = entropy

    def operations(self) -> list[RestOperation]:
        tag, base, one = "transactions", "/transactions", Transaction
        params = (
            Param("state", "`open` (default) or `all`: also producers without an open transaction."),
            Param("transactional_id", "Only this one."),
            Param("limit", "At most this many, 1 to 10,000; default 100.", "integer"),
        )
        return [
            RestOperation(
                "POST", "/producers/init", self.init, "Begin as a producer", tag, ProducerOut, 200, ProducerIn
            ),
            RestOperation(
                "POST",
                "/producers/{producer}/heartbeat",
                self.beat,
                "Stay alive",
                tag,
                one,
                200,
                ProducerBeatIn,
            ),
            RestOperation("POST", f"{base}/begin", self.begin, "Begin a transaction", tag, one, 200, WhoIn),
            RestOperation(
                "POST", f"{base}/publish", self.publish, "Publish inside it", tag, TxnPublishOut, 200, TxnPublishIn
            ),
            RestOperation(
                "POST", f"{base}/add-partition", self.add_partition, "Add partitions", tag, one, 200, AddPartitionIn
            ),
            RestOperation("POST", f"{base}/offsets", self.offsets, "Move a group with it", tag, one, 200, TxnOffsetsIn),
            RestOperation("POST", f"{base}/ack", self.ack, "Ack messages with it", tag, one, 200, TxnAckIn),
            RestOperation("POST", f"{base}/nack", self.nack, "Nack messages with it", tag, one, 200, TxnNackIn),
            RestOperation("POST", f"{base}/reject", self.reject, "Reject messages with it", tag, one, 200, TxnRejectIn),
            RestOperation("POST", f"{base}/commit", self.commit, "Commit", tag, one, 200, WhoIn),
            RestOperation("POST", f"{base}/abort", self.abort, "Abort", tag, one, 200, AbortIn),
            RestOperation("GET", base, self.list, "List transactions", tag, TransactionListOut, params=params),
            RestOperation("GET", f"{base}/stats", self.stats, "Transactions in numbers", tag, TransactionStatsOut),
            RestOperation("GET", f"{base}/{{id}}", self.describe, "Describe a transaction", tag, one),
        ]

    # --- producers -------------------------------------------------------------------------------------------

    async def init(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body or b"{}", ProducerIn)
        name = given.transactional_id
        if name is None:
            name = "rest-" + b32encode(self._entropy.token(10)).decode().lower()
        session_ms = duration_in(given.session_timeout, "session_timeout")
        session_ms = self._settings.session_ms if session_ms is None else session_ms
        if not 0 < session_ms <= _SESSION_MS_MAX:
            raise InvalidField(f"A session is from 1 to {_SESSION_MS_MAX} ms.", field="session_timeout")
        timeout_ms = duration_in(given.timeout, "timeout")
        timeout_ms = self._settings.timeout_ms if timeout_ms is None else timeout_ms
        state = await self._transactions.by(caller_of(request)).init(name, timeout_ms, session_ms=session_ms)
        return json(ProducerOut(name, state.producer_id, state.epoch, state.timeout_ms, state.session_ms))

    async def beat(self, request: Request) -> Response:
        producer_id = number(request.path_params["producer"], "producer", 0, _ID_MAX)
        async with self._bodies.read(request) as body:
            given = decode(body or b"{}", ProducerBeatIn)
        state = await answer_of(self._transactions.by(caller_of(request)).beat(producer_id, given.epoch))
        return self._answer(caller_of(request), state)

    # --- inside a transaction --------------------------------------------------------------------------------

    async def begin(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            who = await self._who(caller_of(request), decode(body, WhoIn))
        return self._answer(caller_of(request), await self._transactions.by(caller_of(request)).begin(*who))

    async def publish(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, TxnPublishIn)
            parts = [await _part(at, one, given, request) for at, one in enumerate(_parts(given))]
            command = PublishInTransaction(
                *await self._who(caller_of(request), given), parts, given.sequence, caller_of(request)
            )
            results = await self._publish.by(caller_of(request)).publish(command)
        if given.topics is None:
            return json(TxnPublishOut([result_out(one) for one in results]))
        return json(TxnPublishOut(topics=_by_part(parts, results)))

    async def add_partition(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, AddPartitionIn)
        if (given.partition is None) == (given.partitions is None):
            raise InvalidField("Send either one partition or a list of partitions.", field="partition")
        numbers = given.partitions if given.partitions is not None else [given.partition or 0]
        places = [TopicPartition(given.topic, one) for one in numbers]
        return self._answer(
            caller_of(request),
            await self._transactions.by(caller_of(request)).add_partitions(
                *await self._who(caller_of(request), given), places, begins=False
            ),
        )

    async def offsets(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, TxnOffsetsIn)
        if (given.member_id is None) != (given.generation is None):
            raise InvalidField("Send member_id and generation together, or neither.", field="generation")
        generation = -1 if given.generation is None else given.generation
        offsets = [OffsetCommit(one.topic, one.partition, one.offset, -1, one.metadata) for one in given.offsets]
        asked = CommitRequest(given.group, given.member_id or "", generation, None, offsets)
        return self._answer(
            caller_of(request),
            await self._transactions.by(caller_of(request)).add_offsets(
                *await self._who(caller_of(request), given), asked, is_named=False
            ),
        )

    async def ack(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, TxnAckIn)
        return await self._answer_for(caller_of(request), given, "ack", None, "")

    async def nack(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, TxnNackIn)
        delay_ms = duration_in(given.delay, "delay")
        if delay_ms is not None and delay_ms > LEASE_MS_MAX:
            raise InvalidField(f"At most {LEASE_MS_MAX} ms (12 hours).", field="delay")
        return await self._answer_for(caller_of(request), given, "nack", delay_ms, given.reason)

    async def reject(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, TxnRejectIn)
        return await self._answer_for(caller_of(request), given, "reject", None, given.reason)

    async def _answer_for(
        self,
        caller: Caller,
        given: TxnAckIn | TxnNackIn | TxnRejectIn,
        kind: Literal["ack", "nack", "reject"],
        delay_ms: Millis | None,
        reason: str,
    ) -> Response:
        if (given.receipt is None) == (given.receipts is None):
            raise InvalidField("Send either one receipt or a list of receipts.", field="receipt")
        receipts = given.receipts if given.receipts is not None else [given.receipt or ""]
        answers = [TxnAnswer(receipt, kind, delay_ms, reason) for receipt in receipts]
        return self._answer(
            caller, await self._transactions.by(caller).add_answers(*await self._who(caller, given), answers)
        )

    # --- the end ---------------------------------------------------------------------------------------------

    async def commit(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            who = await self._who(caller_of(request), decode(body, WhoIn), ended=True)
        return self._answer(
            caller_of(request), await self._transactions.by(caller_of(request)).end(*who, commit=True, bump=True)
        )

    async def abort(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, AbortIn)
        if given.producer_id is not None and given.epoch is not None:
            who_in = WhoIn(producer_id=given.producer_id, epoch=given.epoch, transactional_id=given.transactional_id)
            who = await self._who(caller_of(request), who_in, ended=True)
            return self._answer(
                caller_of(request), await self._transactions.by(caller_of(request)).end(*who, commit=False, bump=True)
            )
        if given.transactional_id is None or given.producer_id is not None or given.epoch is not None:
            raise InvalidField("Send producer_id and epoch, or the transactional_id alone.", field="producer_id")
        return self._answer(
            caller_of(request), await self._transactions.by(caller_of(request)).abort_any(given.transactional_id)
        )

    # --- administration --------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        query = Query(request, "state", "transactional_id", "limit")
        wanted, limit = query.text("state", "open"), query.number("limit", 100, 1, MESSAGES_PER_READ_MAX)
        if wanted not in ("open", "all"):
            raise InvalidField("state is open or all.", field="state")
        transactions = self._transactions.by(caller_of(request))
        found = await answer_of(transactions.open() if wanted == "open" else transactions.all())
        if query.has("transactional_id"):
            name = query.text("transactional_id", "")
            found = [state for state in found if state.transactional_id == name]
        return json(TransactionListOut([self._out(caller_of(request), state) for state in found[:limit]]))

    async def describe(self, request: Request) -> Response:
        Query(request)
        state = await answer_of(self._transactions.by(caller_of(request)).describe(request.path_params["id"]))
        return self._answer(caller_of(request), state)

    async def stats(self, request: Request) -> Response:
        Query(request)
        open_ = await answer_of(self._transactions.by(caller_of(request)).open())
        known = await answer_of(self._transactions.by(caller_of(request)).all())
        tally = self._transactions.by(caller_of(request)).tally
        longest = max((self._transactions.by(caller_of(request)).runs_for_ms(state) for state in open_), default=0)
        counts = (tally.begun, tally.committed, tally.aborted, tally.timed_out)
        return json(TransactionStatsOut(len(known), len(open_), *counts, longest))

    # --- parts -----------------------------------------------------------------------------------------------

    async def _who(self, caller: Caller, given: WhoIn, ended: bool = False) -> Who:
        """The transactional id may be left out: the producer id tells it."""
        if given.transactional_id is not None:
            return given.transactional_id, given.producer_id, given.epoch
        return (
            await answer_of(self._transactions.by(caller).name_of(given.producer_id, ended)),
            given.producer_id,
            given.epoch,
        )

    def _answer(self, caller: Caller, state: TxnState) -> Response:
        return json(self._out(caller, state))

    def _out(self, caller: Caller, state: TxnState) -> Transaction:
        by_topic = groupby(state.partitions, key=lambda one: one[0])
        return Transaction(
            state.transactional_id,
            state.producer_id,
            state.epoch,
            state.stage.name.lower(),
            state.timeout_ms,
            state.session_ms,
            state.started_ms or None,
            self._transactions.by(caller).runs_for_ms(state) if state.started_ms else None,
            [TopicParts(topic, [one for _, one in found]) for topic, found in by_topic],
            [TransactionOffset(one.group, one.topic, one.partition, one.offset) for one in state.offsets],
            len(state.answers),
            state.delayed,
            state.owner,
            state.batch,
        )


def _parts(given: TxnPublishIn) -> list[TxnPartIn]:
    if given.topics is not None and given.topic is None and given.messages is None:
        return given.topics
    if given.topics is None and given.topic is not None and given.messages is not None:
        return [TxnPartIn(given.topic, given.messages)]
    raise InvalidField("Send topic and messages, or topics.", field="topic")


async def _part(at: int, given: TxnPartIn, whole: TxnPublishIn, request: Request) -> TopicMessages:
    try:
        return TopicMessages(given.topic, await messages_in(given.messages, request))
    except GoQueueError as error:
        if whole.topics is not None:
            error.field = f"topics[{at}].{error.field}"
        raise


def _by_part(parts: list[TopicMessages], results: list[PublishResult]) -> list[TxnPartOut]:
    told: list[TxnPartOut] = []
    place = 0
    for part in parts:
        count = len(part.messages)
        told.append(TxnPartOut(part.topic, [result_out(one) for one in results[place : place + count]]))
        place += count
    return told

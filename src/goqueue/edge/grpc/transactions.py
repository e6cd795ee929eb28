"""Transactions."""

from __future__ import annotations

from base64 import b32encode
from itertools import groupby
from typing import Final

from goqueue.base.entropy import Entropy
from goqueue.base.errors import InvalidField
from goqueue.base.limits import MESSAGES_PER_READ_MAX, TXN_ANSWERS_MAX
from goqueue.base.settings import TransactionSettings
from goqueue.core.txn.records import TxnAnswer, TxnState
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import made
from goqueue.edge.grpc.groups import commit_in, parts_out
from goqueue.edge.grpc.translate import messages_in, number_in, results_out
from goqueue.service.front import Front, answer_of
from goqueue.service.leasing import LEASE_MS_MAX
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages, TransactionalPublish
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Transactions"
_SESSION_MS_MAX: Final = 1_800_000
_LIMIT: Final = 100
_TEXT_MAX: Final = 1_000

Who = tuple[str, int, int]


class TransactionMethods:
    def __init__(
        self,
        transactions: Front[TransactionVerbs],
        publish: Front[TransactionalPublish],
        settings: TransactionSettings,
        entropy: Entropy,
    ) -> None:
        self._transactions = transactions
        self._publish = publish
        self._settings = settings
        self._entropy = entropy

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/InitProducer", pb.InitProducerRequest, self.init),
            GrpcMethod(f"{_SERVICE}/BeginTransaction", pb.BeginTransactionRequest, self.begin),
            GrpcMethod(f"{_SERVICE}/PublishInTransaction", pb.PublishInTransactionRequest, self.publish),
            GrpcMethod(f"{_SERVICE}/AddOffsets", pb.AddOffsetsRequest, self.add_offsets),
            GrpcMethod(f"{_SERVICE}/AddAnswers", pb.AddAnswersRequest, self.add_answers),
            GrpcMethod(f"{_SERVICE}/CommitTransaction", pb.CommitTransactionRequest, self.commit),
            GrpcMethod(f"{_SERVICE}/AbortTransaction", pb.AbortTransactionRequest, self.abort),
            GrpcMethod(f"{_SERVICE}/HeartbeatProducer", pb.HeartbeatProducerRequest, self.beat),
            GrpcMethod(f"{_SERVICE}/GetTransaction", pb.GetTransactionRequest, self.get),
            GrpcMethod(f"{_SERVICE}/ListTransactions", pb.ListTransactionsRequest, self.list),
        ]

    async def init(self, request: pb.InitProducerRequest, call: GrpcCall) -> pb.Producer:
        name = request.transactional_id
        if not request.HasField("transactional_id"):
            name = "grpc-" + b32encode(self._entropy.token(10)).decode().lower()
        session_ms, timeout_ms = self._settings.session_ms, self._settings.timeout_ms
        if request.HasField("session_timeout_ms"):
            session_ms = number_in(request.session_timeout_ms, "session_timeout_ms", 1, _SESSION_MS_MAX)
        if request.HasField("timeout_ms"):
            timeout_ms = number_in(request.timeout_ms, "timeout_ms", 1, 2**31 - 1)
        state = await self._transactions.by(call.caller).init(name, timeout_ms, session_ms=session_ms)
        return made(pb.Producer, state, session_timeout_ms=state.session_ms)

    async def beat(self, request: pb.HeartbeatProducerRequest, call: GrpcCall) -> pb.Transaction:
        _, producer_id, epoch = _numbers(request.producer)
        return _out(await answer_of(self._transactions.by(call.caller).beat(producer_id, epoch)))

    # --- inside a transaction --------------------------------------------------------------------------------

    async def begin(self, request: pb.BeginTransactionRequest, call: GrpcCall) -> pb.Transaction:
        who = await self._who(request.producer, call)
        return _out(await self._transactions.by(call.caller).begin(*who))

    async def publish(self, request: pb.PublishInTransactionRequest, call: GrpcCall) -> pb.PublishResponse:
        part = TopicMessages(request.topic, await messages_in(request.messages, call.traced()))
        sequence = number_in(request.sequence, "sequence", 0, 2**31 - 1) if request.HasField("sequence") else None
        who = await self._who(request.producer, call)
        command = PublishInTransaction(*who, [part], sequence, call.caller)
        return results_out(await self._publish.by(call.caller).publish(command))

    async def add_offsets(self, request: pb.AddOffsetsRequest, call: GrpcCall) -> pb.Transaction:
        asked, who = commit_in(request), await self._who(request.producer, call)
        return _out(await self._transactions.by(call.caller).add_offsets(*who, asked, is_named=False))

    async def add_answers(self, request: pb.AddAnswersRequest, call: GrpcCall) -> pb.Transaction:
        answers, who = _answers_in(request), await self._who(request.producer, call)
        return _out(await self._transactions.by(call.caller).add_answers(*who, answers))

    # --- the end ---------------------------------------------------------------------------------------------

    async def commit(self, request: pb.CommitTransactionRequest, call: GrpcCall) -> pb.Transaction:
        who = await self._who(request.producer, call, ended=True)
        return _out(await self._transactions.by(call.caller).end(*who, commit=True, bump=True))

    async def abort(self, request: pb.AbortTransactionRequest, call: GrpcCall) -> pb.Transaction:
        if request.HasField("producer") == bool(request.transactional_id):
            raise InvalidField("Send the producer, or the transactional_id alone.", field="producer")
        transactions = self._transactions.by(call.caller)
        if request.transactional_id:
            return _out(await transactions.abort_any(request.transactional_id))
        who = await self._who(request.producer, call, ended=True)
        return _out(await transactions.end(*who, commit=False, bump=True))

    # --- administration --------------------------------------------------------------------------------------

    async def get(self, request: pb.GetTransactionRequest, call: GrpcCall) -> pb.Transaction:
        return _out(await answer_of(self._transactions.by(call.caller).describe(request.transactional_id)))

    async def list(self, request: pb.ListTransactionsRequest, call: GrpcCall) -> pb.ListTransactionsResponse:
        limit = number_in(request.limit or _LIMIT, "limit", 1, MESSAGES_PER_READ_MAX)
        transactions = self._transactions.by(call.caller)
        found = await answer_of(transactions.all() if request.all else transactions.open())
        return pb.ListTransactionsResponse(transactions=[_out(one) for one in found[:limit]])

    async def _who(self, producer: pb.Producer, call: GrpcCall, ended: bool = False) -> Who:
        """The transactional id may be left out: the producer id tells it."""
        name, producer_id, epoch = _numbers(producer)
        if not name:
            name = await answer_of(self._transactions.by(call.caller).name_of(producer_id, ended))
        return name, producer_id, epoch


def _numbers(producer: pb.Producer) -> Who:
    producer_id = number_in(producer.producer_id, "producer.producer_id", 0, 2**63 - 1)
    return producer.transactional_id, producer_id, number_in(producer.epoch, "producer.epoch", 0, 2**15 - 1)


def _answers_in(request: pb.AddAnswersRequest) -> list[TxnAnswer]:
    count = len(request.acks) + len(request.nacks) + len(request.rejections)
    if not 0 < count <= TXN_ANSWERS_MAX:
        raise InvalidField(f"Send 1 to {TXN_ANSWERS_MAX} receipts.", field="acks")
    if len(request.reason) > _TEXT_MAX:
        raise InvalidField(f"A reason has at most {_TEXT_MAX} characters.", field="reason")
    delay_ms = number_in(request.delay_ms, "delay_ms", 0, LEASE_MS_MAX) if request.HasField("delay_ms") else None
    return [
        *(TxnAnswer(receipt, "ack", None, "") for receipt in request.acks),
        *(TxnAnswer(receipt, "nack", delay_ms, request.reason) for receipt in request.nacks),
        *(TxnAnswer(receipt, "reject", None, request.reason) for receipt in request.rejections),
    ]


def _out(state: TxnState) -> pb.Transaction:
    by_topic = groupby(state.partitions, key=lambda one: one[0])
    return made(
        pb.Transaction,
        state,
        state=state.stage.name.lower(),
        session_timeout_ms=state.session_ms,
        started_ms=state.started_ms or None,
        partitions=parts_out([(topic, [one for _, one in found]) for topic, found in by_topic]),
        offsets=[made(pb.TransactionOffset, one) for one in state.offsets],
        receipts=len(state.answers),
    )

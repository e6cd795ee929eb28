"""What is told where every receipt of one call was refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import cast

import pytest

from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, NotLeader, StaleReceipt
from goqueue.edge.rest.answers import told
from goqueue.service.front import Front
from goqueue.service.leasing import Leasing


def test_receipts_of_which_nothing_is_known_are_not_told_to_be_over() -> None:
    answer = told(["a", "b"], [StaleReceipt("It is over."), NotLeader("Nobody leads it.")])
    assert (answer.status_code, json.loads(bytes(answer.body))["code"]) == (503, "not-leader")
    over = told(["a", "b"], [StaleReceipt("It is over."), StaleReceipt("So is this.")])
    assert (over.status_code, json.loads(bytes(over.body))["detail"]) == (409, "It is over.")


class Refusing:
    """Leases of which none can be answered for."""

    def __init__(self, outcomes: Sequence[GoQueueError]) -> None:
        self._outcomes = outcomes

    def by(self, _: Caller) -> Refusing:
        return self

    async def ack(self, receipts: Sequence[str]) -> Sequence[GoQueueError]:
        return self._outcomes[: len(receipts)]


def test_a_grpc_client_is_told_the_same() -> None:
    calls = pytest.importorskip("goqueue.edge.grpc.calls")
    from goqueue.edge.grpc.answers import AnswerMethods
    from goqueue.wire import goqueue_pb2 as pb

    leasing = Refusing([StaleReceipt("It is over."), NotLeader("Nobody leads it.")])
    methods = AnswerMethods(cast(Front[Leasing], leasing))
    call = calls.GrpcCall(Caller("somebody", "grpc"))
    with pytest.raises(NotLeader):
        asyncio.run(methods.answer(pb.AckRequest(receipts=["a", "b"]), call))
    with pytest.raises(StaleReceipt):
        asyncio.run(methods.answer(pb.AckRequest(receipts=["a"]), call))

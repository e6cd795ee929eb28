"""What a worker does with receipts of which the broker could not say anything, among others that went well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from goqueue.client import AsyncClient, GoQueueClientError, PartlyAnswered
from goqueue.client.calls import RestCall
from goqueue.client.leases import Leased
from goqueue.worker.answers import OutcomeAnswers
from goqueue.worker.calls import TaskCall, encode_call
from goqueue.worker.holds import Holds
from goqueue.worker.jobs import job_of
from goqueue.worker.running import HandlerReturned
from goqueue.worker.topics import TaskTopics


def leased(receipt: str) -> Leased:
    value = encode_call(TaskCall(receipt, "task"))
    return Leased(
        topic="t",
        partition=0,
        offset=0,
        timestamp=0,
        key=None,
        value=value,
        headers=(),
        priority="normal",
        receipt=receipt,
        attempt=1,
        failures=0,
        leased_until=0,
    )


class Broker:
    """A client whose broker refuses receipts: each once for every code that is told of it."""

    def __init__(self, refusals: Mapping[str, list[str]]) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self._refusals = refusals

    def consumer(self, *_: object, **__: object) -> Broker:
        return self

    must_join = False

    async def __aenter__(self) -> Broker:
        return self

    async def poll(self, *_: object, **__: object) -> list[Leased]:
        return [leased(receipt) for receipt in self._refusals]

    def transaction(self) -> None:
        return None

    async def perform(self, call: RestCall[Any]) -> None:
        verb = call.path.rpartition("/")[2]
        if verb not in ("ack", "visibility"):
            return
        body = call.body() if callable(call.body) else call.body or b""
        receipts = json.loads(body)["receipts"]
        self.asked.append((verb, receipts))
        refused = {one: self._refusals[one].pop(0) for one in receipts if self._refusals[one]}
        if refused:
            errors = {one: GoQueueClientError(code, "It cannot be told.") for one, code in refused.items()}
            raise PartlyAnswered(errors, len(receipts))


async def held(broker: Broker) -> Holds:
    holds = Holds(cast(AsyncClient, broker), "g", ["t"], lease=0.03)
    await holds.take(10)
    return holds


def test_a_lease_of_which_nothing_is_known_is_renewed_the_next_time() -> None:
    async def scenario() -> None:
        broker = Broker({"well": [], "over": ["stale-receipt"], "moves": ["not-leader", "not-loaded"]})
        holds = await held(broker)
        renewing = asyncio.ensure_future(holds.keep_renewing())
        while len(broker.asked) < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        renewing.cancel()
        first, second, third, *_ = [sorted(receipts) for _, receipts in broker.asked]
        assert first == ["moves", "over", "well"]
        assert "moves" in second and "moves" in third
        assert len(holds) == 2, "the one that is over is somebody else's"

    asyncio.run(scenario())


@pytest.mark.parametrize("code", ["not-leader", "leader-changed", "not-loaded", "peer-lost", "replicas-timed-out"])
def test_an_ack_that_could_not_be_told_is_told_again(code: str) -> None:
    """Else the task would run twice, when its lease is over."""

    async def scenario() -> None:
        broker = Broker({"well": [], "over": ["stale-receipt"], "moves": [code, code]})
        holds = await held(broker)
        answers = OutcomeAnswers(cast(AsyncClient, broker), TaskTopics("app", 60.0), holds, 60.0)
        telling = asyncio.ensure_future(answers.run())
        done = HandlerReturned(msgspec.Raw(b"null"))
        answers.put([(job_of(leased(receipt), "q", {}), done) for receipt in ("well", "over", "moves")])
        await answers.flushed()
        telling.cancel()
        assert broker.asked == [("ack", ["well", "over", "moves"]), ("ack", ["moves"]), ("ack", ["moves"])]
        assert not len(holds)

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [1, 2])
def test_a_partition_without_a_leader_holds_up_no_acks_of_others(count: int) -> None:
    """Its node may be away for hours. The others would run a second time, and their leases be renewed until then."""

    async def scenario() -> None:
        broker = Broker({"well": [], "away": ["not-leader"] * 1_000, "next": []})
        holds = await held(broker)
        answers = OutcomeAnswers(cast(AsyncClient, broker), TaskTopics("app", 60.0), holds, 60.0)
        telling = asyncio.ensure_future(answers.run())
        done = HandlerReturned(msgspec.Raw(b"null"))
        for receipts in (["away", "well"][:count], ["next"]):
            answers.put([(job_of(leased(receipt), "q", {}), done) for receipt in receipts])
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            while ("ack", ["next"]) not in broker.asked or len(holds) > 3 - count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        flushed = asyncio.ensure_future(answers.flushed())
        await asyncio.wait([flushed], timeout=0.05)
        assert not flushed.done(), "one is not told"
        telling.cancel()
        await flushed

    asyncio.run(scenario())

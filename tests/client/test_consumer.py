"""Both consumers over a scripted connection: what goes out, what comes back, heartbeats while the caller works."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from goqueue.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncLeasedMessage,
    Client,
    Consumer,
    GoQueueClientError,
    LeasedMessage,
    PartlyAnswered,
    Rebalance,
    Retries,
    TopicParts,
)
from goqueue.client.leases import encode_leased
from tests.client.brokers import problem

PARTS = [{"topic": "jobs", "partitions": [0]}]
BEAT = {"generation": 1, "assignment": PARTS, "revoke": [], "gained": [], "heartbeat_interval_ms": 20}


def delivered(offset: int) -> dict[str, Any]:
    lease = {"receipt": f"jobs:0:{offset}:1:x", "attempt": 1, "failures": 0, "leased_until": 5}
    place = {"topic": "jobs", "partition": 0, "offset": offset, "timestamp": 1, "key": None}
    return {**place, "value": f"job {offset}", "headers": {}, "priority": "high", **lease}


class Group:
    """A broker with one group and one job after another. `script` answers the next request of a verb in its place."""

    def __init__(self, beat_ms: int = 60_000) -> None:
        self.script: dict[str, list[httpx.Response | Exception]] = {}
        self.asked: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.queries: list[dict[str, str]] = []
        self.beaten = threading.Event()
        self._beat_ms = beat_ms
        self._offset = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rpartition("/")[2]
        self.asked.append(verb)
        self.bodies[verb] = msgspec.json.decode(request.content or b"null")
        scripted = self.script.get(verb)
        answer = scripted.pop(0) if scripted else getattr(self, f"_{verb}")(request)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, httpx.Response)
        return answer

    def _join(self, request: httpx.Request) -> httpx.Response:
        times = {"heartbeat_interval_ms": self._beat_ms, "session_timeout_ms": 300_000}
        told = {"member_id": self.bodies["join"]["member_id"], "generation": 1, "assignment": PARTS, **times}
        return httpx.Response(200, json={**told, "protocol": "cooperative", "mode": "shared"})

    def _poll(self, request: httpx.Request) -> httpx.Response:
        self.queries.append(dict(request.url.params))
        first, self._offset = self._offset, self._offset + int(request.url.params["limit"])
        messages = [delivered(offset) for offset in range(first, self._offset)]
        return httpx.Response(200, json={"messages": messages, "generation": 1, "rebalance": False})

    def _heartbeat(self, request: httpx.Request) -> httpx.Response:
        self.beaten.set()
        return httpx.Response(200, json=BEAT)

    def _leave(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(204)

    def _revoke(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=BEAT | {"generation": 2})

    def _ack(self, request: httpx.Request) -> httpx.Response:
        receipts = msgspec.json.decode(request.content)["receipts"]
        return httpx.Response(200, json={"results": [{"receipt": one, "ok": True} for one in receipts]})

    _nack = _reject = _visibility = _ack

    def client(self) -> Client:
        return Client("http://broker:1", transport=httpx.MockTransport(self))

    def async_client(self) -> AsyncClient:
        return AsyncClient("http://broker:1", transport=httpx.MockTransport(self))


@pytest.mark.parametrize(
    ("sync", "asynchronous"),
    [(Consumer, AsyncConsumer), (LeasedMessage, AsyncLeasedMessage)],
    ids=["consumer", "message"],
)
def test_both_forms_have_the_same_surface(sync: type, asynchronous: type) -> None:
    def surface(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("_")}

    assert surface(sync) == surface(asynchronous)


def test_a_loop_joins_takes_acks_and_leaves() -> None:
    group, found = Group(), []
    with group.client() as client:
        consumer = client.consumer(
            "g", ["jobs"], mode="shared", visibility_timeout="30s", lanes="strict", from_="latest", client_id="me"
        )
        with consumer:
            assert consumer.assignment == [TopicParts("jobs", [0])]
            for message in consumer:
                found.append((message.text, message.attempt, message.failures, message.leased_until, message.priority))
                message.ack()
                if len(found) == 2:
                    break
    assert found == [("job 0", 1, 0, 5, "high"), ("job 1", 1, 0, 5, "high")]
    assert group.asked == ["join", "poll", "ack", "poll", "ack", "leave"]
    member_id = group.bodies["join"].pop("member_id")
    assert group.bodies["join"] == {
        "client_id": "me", "topics": ["jobs"], "mode": "shared", "visibility_timeout": "30s", "lanes": "strict",
        "from": "latest",
    }  # fmt: skip
    assert group.bodies["leave"] == {"member_id": member_id}
    assert group.queries[0] == {"member_id": member_id, "generation": "1", "limit": "1", "timeout": "10000ms"}


@pytest.mark.asyncio
async def test_an_async_loop_does_the_same() -> None:
    group, found = Group(), []
    async with group.async_client() as client, client.consumer("g", ["jobs"], prefetch=2) as consumer:
        async for message in consumer:
            found.append(message.text)
            await message.ack()
            if len(found) == 2:
                break
    assert found == ["job 0", "job 1"]
    assert group.asked == ["join", "poll", "ack", "ack", "leave"]


ANSWERS: list[tuple[Callable[[Consumer, list[LeasedMessage]], None], str, dict[str, Any]]] = [
    (lambda consumer, found: consumer.ack(*found), "ack", {}),
    (lambda consumer, found: consumer.ack(*[one.receipt for one in found]), "ack", {}),
    (lambda consumer, found: consumer.nack(*found), "nack", {}),
    (lambda consumer, found: consumer.nack(*found, delay=0, reason="why"), "nack", {"delay": 0, "reason": "why"}),
    (lambda consumer, found: consumer.reject(*found, reason="why"), "reject", {"reason": "why"}),
    (lambda consumer, found: consumer.extend(*found, timeout="1m"), "visibility", {"timeout": "1m"}),
]


@pytest.mark.parametrize(("answer", "verb", "members"), ANSWERS)
def test_many_are_answered_for_in_one_request(
    answer: Callable[[Consumer, list[LeasedMessage]], None], verb: str, members: dict[str, Any]
) -> None:
    group = Group()
    with group.client() as client, client.consumer("g", ["jobs"]) as consumer:
        found = consumer.poll(2, timeout=1.5)
        answer(consumer, found)
        consumer.ack()
    assert group.asked == ["join", "poll", verb, "leave"]
    assert group.bodies[verb] == {"receipts": ["jobs:0:0:1:x", "jobs:0:1:1:x"], **members}
    assert group.queries[0]["timeout"] == "1500ms"


@pytest.mark.asyncio
async def test_a_message_answers_for_itself() -> None:
    group = Group()
    with group.client() as client, client.consumer("g", ["jobs"]) as consumer:
        message = consumer.poll(1)[0]
        message.nack(delay="5s", reason="r")
        message.reject(reason="r")
        message.extend("1m")
    async with group.async_client() as aclient, aclient.consumer("g", ["jobs"]) as aconsumer:
        amessage = (await aconsumer.poll(1))[0]
        await amessage.nack(delay="5s", reason="r")
        await amessage.reject(reason="r")
        await amessage.extend("1m")
    assert group.asked == ["join", "poll", "nack", "reject", "visibility", "leave"] * 2
    assert group.bodies["nack"] == {"receipts": [amessage.receipt], "delay": "5s", "reason": "r"}
    assert msgspec.json.decode(encode_leased(amessage)) == delivered(1)


def test_who_failed_is_named_where_only_some_went_well() -> None:
    group = Group()
    error = {"code": "stale-receipt", "detail": "Over."}
    results = [{"receipt": "jobs:0:0:1:x", "ok": True}, {"receipt": "jobs:0:1:1:x", "ok": False, "error": error}]
    group.script["ack"] = [httpx.Response(207, json={"results": results}), problem(409, "stale-receipt")]
    with group.client() as client, client.consumer("g", ["jobs"]) as consumer:
        found = consumer.poll(2)
        with pytest.raises(PartlyAnswered, match=r"1 of 2 answers were refused, for jobs:0:1:1:x; .*Over\.") as caught:
            consumer.ack(*found)
        assert {receipt: why.code for receipt, why in caught.value.failures.items()} == {
            found[1].receipt: "stale-receipt"
        }
        with pytest.raises(GoQueueClientError, match="stale-receipt"):
            consumer.ack(*found)


def test_an_ack_that_surely_did_not_arrive_is_repeated() -> None:
    group = Group()
    group.script["ack"] = [httpx.ConnectError("refused")]
    retries = Retries(pause_first=0.001)
    with group.client() as client, client.consumer("g", ["jobs"], retries=retries) as consumer:
        next(consumer).ack()
    assert group.asked == ["join", "poll", "ack", "ack", "leave"]


def test_heartbeats_go_on_while_the_caller_works() -> None:
    group = Group(beat_ms=20)
    with group.client() as client, client.consumer("g", ["jobs"], mode="shared") as consumer:
        assert next(consumer).text == "job 0"
        assert group.beaten.wait(30)
    assert group.asked.count("heartbeat") >= 1
    assert "visibility" not in group.asked
    assert group.asked[-1] == "leave"


@pytest.mark.asyncio
async def test_a_tasks_heartbeats_go_on_too() -> None:
    group = Group(beat_ms=20)
    async with group.async_client() as client, client.consumer("g", ["jobs"], mode="shared") as consumer:
        assert (await anext(consumer)).text == "job 0"
        assert await asyncio.to_thread(group.beaten.wait, 30)
    assert group.asked[-1] == "leave"


def test_partitions_are_given_back_after_the_caller_was_told() -> None:
    group = Group()
    told: list[Rebalance] = []
    empty = {"messages": [], "generation": 1, "rebalance": True}
    group.script["poll"] = [httpx.Response(200, json=empty)]
    group.script["heartbeat"] = [httpx.Response(200, json=BEAT | {"assignment": [], "revoke": PARTS})]

    def on_rebalance(change: Rebalance) -> None:
        told.append(change)
        if change.lost:
            assert "revoke" not in group.asked
            consumer.ack("jobs:0:9:1:x")  # finishes what it has

    with group.client() as client, client.consumer("g", ["jobs"], on_rebalance=on_rebalance) as consumer:
        assert len(consumer.poll(1)) == 1
    parts = [TopicParts("jobs", [0])]
    assert told == [Rebalance([], parts), Rebalance(parts, [])]
    assert group.asked == ["join", "poll", "heartbeat", "ack", "revoke", "poll", "leave"]


@pytest.mark.asyncio
async def test_an_async_caller_is_told_and_may_take_its_time() -> None:
    group = Group(beat_ms=20)

    async def on_rebalance(change: Rebalance) -> None:
        assert await asyncio.to_thread(group.beaten.wait, 30)

    async with group.async_client() as client, client.consumer("g", ["jobs"], on_rebalance=on_rebalance) as consumer:
        assert len(await consumer.poll(1)) == 1
    assert group.asked[:2] == ["join", "heartbeat"]


@pytest.mark.asyncio
async def test_a_poll_that_was_cancelled_is_followed_by_joining_again() -> None:
    group, waiting = Group(), asyncio.Event()

    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/poll") and not waiting.is_set():
                group.asked.append("poll")
                waiting.set()
                await asyncio.Event().wait()
            return group(request)

    client = AsyncClient("http://broker:1", transport=Silent())
    async with client, client.consumer("g", ["jobs"], mode="shared") as consumer:
        polling = asyncio.create_task(consumer.poll())
        await waiting.wait()
        polling.cancel()
        await asyncio.wait({polling})
        assert len(await consumer.poll(1)) == 1
    assert group.asked == ["join", "poll", "join", "poll", "leave"]
    assert len({group.bodies["join"]["member_id"], group.bodies["leave"]["member_id"]}) == 1


def test_an_exception_leaves_the_group_too() -> None:
    group = Group()
    with group.client() as client, pytest.raises(KeyError), client.consumer("g", ["jobs"], mode="shared") as consumer:
        next(consumer)
        raise KeyError
    assert group.asked == ["join", "poll", "leave"]


def test_what_cannot_be_asked_is_told_before_anything_is_sent() -> None:
    group = Group()
    with group.client() as client:
        for make, field in (
            (lambda: client.consumer("g", "jobs"), "topics"),
            (lambda: client.consumer("g", ["jobs"], prefetch=0), "prefetch"),
            (lambda: client.consumer("g/../x", ["jobs"]).poll(), "group"),
            (lambda: client.consumer("g", ["a/b"]).poll(), "topic"),
        ):
            with pytest.raises(GoQueueClientError) as caught:
                make()
            assert caught.value.field == field
    assert group.asked == []

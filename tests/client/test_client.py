"""The two clients: one surface, the same words for the same failures, tails that reconnect."""

from __future__ import annotations

import inspect
from contextlib import aclosing, closing
from itertools import islice

import httpx
import pytest

from goqueue.client import AsyncClient, AsyncProducer, Client, ConnectionFailed, GoQueueClientError, Producer, TimedOut
from tests.client.brokers import Broker, event, events, problem

FAILURES = [
    (httpx.ConnectError("refused"), ConnectionFailed, "connection-failed", False),
    (httpx.ConnectTimeout(""), ConnectionFailed, "connection-failed", False),
    (httpx.ReadTimeout(""), TimedOut, "timed-out", True),
    (httpx.WriteTimeout(""), TimedOut, "timed-out", True),
    (httpx.ReadError("reset"), ConnectionFailed, "connection-lost", True),
    (httpx.RemoteProtocolError("closed"), ConnectionFailed, "connection-lost", True),
]


def client(broker: Broker, timeout: float = 30.0) -> Client:
    return Client("http://broker:1/", timeout, transport=broker.transport())


def async_client(broker: Broker) -> AsyncClient:
    return AsyncClient("http://broker:1/", transport=broker.transport())


@pytest.mark.parametrize(("sync", "asynchronous"), [(Client, AsyncClient), (Producer, AsyncProducer)])
def test_both_forms_have_the_same_surface(sync: type, asynchronous: type) -> None:
    def surface(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("_")}

    ours, theirs = surface(sync), surface(asynchronous)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"flush", "close"}:  # a task is bounded from outside, a thread is not
        assert ours[name] == theirs[name]


@pytest.mark.parametrize(("failure", "kind", "code", "may_have_arrived"), FAILURES)
def test_a_request_without_an_answer_says_whether_it_may_have_arrived(
    failure: Exception, kind: type[ConnectionFailed], code: str, may_have_arrived: bool
) -> None:
    with client(Broker(failure)) as one, pytest.raises(kind) as caught:
        one.publish("orders", "v")
    assert (caught.value.code, caught.value.may_have_arrived, caught.value.status) == (code, may_have_arrived, None)
    assert "http://broker:1" in caught.value.detail


@pytest.mark.asyncio
@pytest.mark.parametrize(("failure", "kind", "code", "may_have_arrived"), FAILURES)
async def test_the_async_client_says_the_same(
    failure: Exception, kind: type[ConnectionFailed], code: str, may_have_arrived: bool
) -> None:
    async with async_client(Broker(failure)) as one:
        with pytest.raises(kind) as caught:
            await one.publish("orders", "v")
    assert (caught.value.code, caught.value.may_have_arrived) == (code, may_have_arrived)


def test_the_address_may_have_a_path() -> None:
    broker = Broker(httpx.Response(200, json={"topics": []}))
    with Client("http://broker:1/queue/", transport=broker.transport()) as one:
        assert one.topics() == []
    assert broker.requests[0].url.path == "/queue/topics"


@pytest.mark.parametrize("url", ["", "broker", "broker:8080", "ftp://broker", "http://", "http://b/?q=1", "http://b:x"])
def test_what_is_no_address_is_told_at_once(url: str) -> None:
    with pytest.raises(GoQueueClientError) as caught:
        Client(url)
    assert caught.value.code == "invalid-url"


def test_a_read_that_waits_at_the_broker_may_take_that_much_longer() -> None:
    broker = Broker(httpx.Response(200, json={"messages": [], "next_offsets": {}, "next": ""}))
    with client(broker, timeout=2.0) as one:
        one.read("orders", timeout=10.0)
    assert broker.requests[0].extensions["timeout"]["read"] == 12.0
    assert broker.requests[0].extensions["timeout"]["connect"] == 2.0


def test_proxy_variables_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Client() as one:
        assert one._sender._http._mounts == {}  # type: ignore[attr-defined]


def reconnecting() -> Broker:
    return Broker(
        events(event(0), event(1)[:30], end=httpx.ReadError("reset")),
        events(b"retry: 50\n\n" + event(1)),
        httpx.ConnectError("refused"),
        problem(503, "shutting-down"),
        events(event(2), event(3)),
    )


def cursors(broker: Broker) -> list[str | None]:
    return [request.headers.get("last-event-id") for request in broker.requests]


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.client.tail.backoff", lambda first, most, attempt: 0.0)


@pytest.mark.usefixtures("no_pauses")
def test_a_tail_outlives_its_connections_and_misses_nothing() -> None:
    broker = reconnecting()
    with client(broker) as one, closing(one.tail("t", from_="earliest")) as tail:
        assert [message.text for message in islice(tail, 4)] == ["v0", "v1", "v2", "v3"]
    assert cursors(broker) == [None, "0:1", "0:2", "0:2", "0:2"]


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_pauses")
async def test_an_async_tail_outlives_its_connections_and_misses_nothing() -> None:
    broker = reconnecting()
    found: list[str | None] = []
    async with async_client(broker) as one, aclosing(one.tail("t", from_="earliest")) as tail:
        async for message in tail:
            found.append(message.text)
            if len(found) == 4:
                break
    assert found == ["v0", "v1", "v2", "v3"]
    assert cursors(broker) == [None, "0:1", "0:2", "0:2", "0:2"]


def test_a_tail_that_cannot_connect_at_first_says_so() -> None:
    with client(Broker(httpx.ConnectError("refused"))) as one, pytest.raises(ConnectionFailed):
        next(one.tail("t"))


@pytest.mark.usefixtures("no_pauses")
def test_a_tail_ends_when_the_topic_is_gone() -> None:
    broker = Broker(events(event(0)), problem(404, "unknown-topic"))
    with client(broker) as one:
        tail = one.tail("t")
        assert next(tail).text == "v0"
        with pytest.raises(GoQueueClientError) as caught:
            next(tail)
    assert caught.value.code == "unknown-topic"

"""Delays through the Python clients against a real node."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from goqueue.client import AsyncClient, Client, GoQueueClientError, NewMessage, Placed, Producer, Scheduled


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4()}"


def test_messages_wait_and_can_be_looked_at_and_cancelled(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        later = client.publish(name, b"\xff", key="k", delay=timedelta(hours=1), ttl="5m", headers={"h": b"\xfe"})
        assert isinstance(later, Scheduled)
        at = datetime(2030, 1, 1, tzinfo=UTC)
        repeat = {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}
        many = client.publish_many(name, [NewMessage("a", deliver_at=at), NewMessage("b", repeat=repeat), "now"])
        assert [type(one) for one in many] == [Scheduled, Scheduled, Placed]
        assert isinstance(many[0], Scheduled) and many[0].deliver_at == "2030-01-01T00:00:00.000Z"
        found = client.delayed(name)
        assert {one.value for one in found} == {b"\xff", b"a", b"b"}
        assert [one.repeat for one in found if one.value == b"b"] == [repeat]
        shown = client.delayed_message(name, 0, later.scheduled)
        assert (shown.key, shown.value, shown.headers) == (b"k", b"\xff", (("h", b"\xfe"),))
        client.cancel_delayed(name, 0, later.scheduled)
        assert client.delayed_message(name, 0, later.scheduled).state == "cancelled"
        assert client.delay_stats()["pending"] >= 2
        with pytest.raises(GoQueueClientError) as refused:
            client.publish(name, "x", delay="1s", deliver_at=5)
        assert (refused.value.code, refused.value.field) == ("invalid-field", "messages[0].deliverAt")
        with Producer(client) as producer:
            assert isinstance(producer.send(name, "c", delay=60_000).result(10), Scheduled)


def test_the_async_client_does_the_same(server_url: str, name: str) -> None:
    async def scenario() -> None:
        async with AsyncClient(server_url) as client:
            await client.create_topic(name, partitions=1)
            sent = await client.publish(name, "soon", delay="100ms")
            assert isinstance(sent, Scheduled)
            page = await client.read(name, timeout=10)
            assert [one.text for one in page] == ["soon"]
            with pytest.raises(GoQueueClientError) as late:
                await client.cancel_delayed(name, 0, sent.scheduled)
            assert late.value.code == "already-delivered"
            assert await client.delayed(name) == []

    asyncio.run(scenario())

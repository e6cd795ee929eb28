"""Staged sets by the clients, sync and async, against a real node."""

from __future__ import annotations

import asyncio
import pickle
import uuid

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.client import AsyncClient, Client, GoQueueClientError, StagedEnd, StagedWriterId

pytestmark = pytest.mark.usefixtures("watched")


@pytest.fixture
def owner() -> str:
    return f"query/../{uuid.uuid4()} % ü"


def write(server: NodeProcess, topic: str, who: StagedWriterId, value: str) -> None:
    command = {"transactional_id": who.transactional_id, "producer_id": who.producer_id, "epoch": who.epoch}
    messages = [{"value": value}]
    told = httpx.post(f"{server.url}/transactions/publish", json={**command, "topic": topic, "messages": messages})
    told.raise_for_status()


def test_a_batch_of_a_program_without_a_loop(server: NodeProcess, server_url: str, owner: str) -> None:
    topic = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        assert client.staged(owner).last_batch is None
        one, two = client.stage(owner, 0, 1, timeout_s=90.5), client.stage(owner, 0, "two", attempt=4)
        assert [(x.writer, x.attempt, x.timeout_ms) for x in client.staged(owner).open] == [
            ("1", 0, 90_500),
            ("two", 4, 3_600_000),
        ]
        client.create_topic(topic, partitions=1)
        write(server, topic, one, "kept")
        write(server, topic, two, "dropped")
        assert client.commit_staged(owner, 0, [one]) == StagedEnd("committed", 1)
        assert [x.value for x in client.read(topic).messages] == [b"kept"]
        assert client.commit_staged(owner, 0, [one, two]) == StagedEnd("already", 0)
        client.stage(owner, 1, 1)
        assert client.abort_staged(owner, 1) == StagedEnd("aborted", 1)
        assert client.staged(owner).last_batch == 0
        assert [x.last_batch for x in client.staged_owners(limit=10_000) if x.owner == owner] == [0]


def test_a_batch_of_a_program_with_one(server: NodeProcess, server_url: str, owner: str) -> None:
    async def story() -> None:
        async with AsyncClient(server_url) as client:
            writers = await asyncio.gather(*(client.stage(owner, 5, number) for number in range(20)))
            assert (await client.commit_staged(owner, 5, writers)).outcome == "committed"
            assert (await client.abort_staged(owner, 5)).outcome == "already committed"
            assert (await client.staged(owner)).last_batch == 5
            assert owner in [one.owner for one in await client.staged_owners(limit=10_000)]
            assert (await client.doors()).rest == server.url

    asyncio.run(story())


def test_what_is_refused_says_why(server_url: str, owner: str) -> None:
    with Client(server_url) as client:
        gone = client.stage(owner, 0, 1)
        client.abort_staged(owner, 0)
        with pytest.raises(GoQueueClientError) as why:
            client.commit_staged(owner, 0, [gone])
        assert (why.value.code, why.value.status) == ("staged-conflict", 409)
        assert why.value.extra == {"writer": gone.transactional_id}
        for bad in ("", ".", ".."):
            with pytest.raises(GoQueueClientError, match="owner"):
                client.staged(bad)
        with pytest.raises(GoQueueClientError, match="owner"):
            client.stage("x" * 201, 0, 1)


def test_a_writer_passes_between_processes() -> None:
    one = StagedWriterId("staged/o/w/0", 3, 4, messages=17)
    assert pickle.loads(pickle.dumps(one)) == one

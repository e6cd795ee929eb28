"""Consumers against a real node: nothing is lost, nothing is done that was not, and restarts are survived."""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.client import AsyncClient, Client, Consumer, GoQueueClientError, PartlyAnswered, Rebalance
from tests.client.brokers import dead_letters


@pytest.fixture
def jobs(server_url: str) -> str:
    """A topic with ten jobs in two partitions; the group has its name."""
    name = f"jobs-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=2, config={"queue.retry.ms": 1})
        for number in range(10):
            client.publish(name, f"job {number}", partition=number % 2)
    return name


def everything(consumer: Consumer, number: int) -> list[str]:
    """So many values, acked."""
    found: list[str] = []
    while len(found) < number:
        messages = consumer.poll(number - len(found), timeout=20)
        assert messages, f"only {found}"
        consumer.ack(*messages)
        found += [str(one.text) for one in messages]
    return sorted(found)


ALL = [f"job {number}" for number in range(10)]


def test_a_loop_takes_everything_once(server_url: str, jobs: str) -> None:
    found: list[str | None] = []
    with Client(server_url) as client:
        with client.consumer(jobs, [jobs], mode="shared", visibility_timeout="30s", prefetch=3) as consumer:
            for message in consumer:
                assert (message.attempt, message.failures) == (1, 0)
                message.ack()
                found.append(message.text)
                if len(found) == 10:
                    break
            assert consumer.poll(timeout=0) == []
        described = client.group(jobs)
        assert (described.members, sum(one.lag for one in described.lag)) == ([], 0)
    assert sorted(map(str, found)) == ALL


def test_what_was_not_answered_for_comes_again_and_is_no_failure(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        with client.consumer(jobs, [jobs], mode="shared") as consumer:
            assert len(consumer.poll(10)) == 10
        with client.consumer(jobs, [jobs], mode="shared") as consumer:
            messages = consumer.poll(10)
            assert {(one.attempt, one.failures) for one in messages} == {(2, 0)}
            consumer.ack(*messages)


def test_nack_reject_and_extend(server_url: str, jobs: str) -> None:
    with Client(server_url) as client, client.consumer(jobs, [jobs], mode="shared") as consumer:
        failed, rejected, kept, given_back, *rest = consumer.poll(10)
        consumer.ack(*rest)
        failed.nack(reason="cannot")
        again = consumer.poll(1, timeout=20)[0]
        assert (again.offset, again.partition, again.attempt, again.failures) == (failed.offset, failed.partition, 2, 1)
        again.ack()
        rejected.reject(reason="never")
        kept.extend("1h")
        given_back.extend(0)
        back = consumer.poll(1, timeout=20)[0]
        assert (back.text, back.failures) == (given_back.text, 0)
        consumer.ack(kept, back)
        assert [one.text for one in dead_letters(client, jobs)] == [rejected.text]
        with pytest.raises(GoQueueClientError, match="stale-receipt"):
            failed.ack()
        with pytest.raises(GoQueueClientError, match="invalid-receipt"):
            consumer.ack("nonsense")


def test_an_answer_that_went_partly_well_says_what_did_not(server_url: str, jobs: str) -> None:
    with Client(server_url) as client, client.consumer(jobs, [jobs], mode="shared") as consumer:
        first, second = consumer.poll(2)
        first.ack()
        with pytest.raises(PartlyAnswered) as caught:
            consumer.ack(first, second)
        assert list(caught.value.failures) == [first.receipt]


def test_by_partition_the_broker_acks_for_who_leaves_in_peace_and_not_for_who_fails(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        with pytest.raises(KeyError), client.consumer(jobs, [jobs]) as consumer:
            assert len(consumer.poll(10)) == 10
            raise KeyError
        with client.consumer(jobs, [jobs], prefetch=10) as consumer:
            next(consumer)  # nine were taken ahead and never seen
        with client.consumer(jobs, [jobs]) as consumer:
            assert {(one.attempt, one.failures) for one in consumer.poll(10)} == {(3, 0)}
        with client.consumer(jobs, [jobs]) as consumer:
            assert consumer.poll(10, timeout=0) == []


def test_two_members_share_partitions_and_a_leaver_gives_its_own_back(server_url: str, jobs: str) -> None:
    told: list[Rebalance] = []
    with Client(server_url) as client, client.consumer(jobs, [jobs], on_rebalance=told.append) as first:
        assert everything(first, 10) == ALL
        with client.consumer(jobs, [jobs]) as second:
            while not second.assignment:
                assert first.poll(timeout=0.1) == second.poll(timeout=0.1) == []
            assert [len(one.assignment[0].partitions) for one in (first, second)] == [1, 1]
            client.publish(jobs, "for the second", partition=second.assignment[0].partitions[0])
            assert everything(second, 1) == ["for the second"]
        while len(first.assignment[0].partitions) < 2:
            assert first.poll(timeout=0.1) == []
        client.publish_many(jobs, ["x"] * 4)
        assert everything(first, 4) == ["x"] * 4
    assert [(len(one.lost), len(one.gained)) for one in told] == [(0, 1), (1, 0), (0, 1)]


@pytest.mark.asyncio
async def test_async_consumers_share_one_partition(server_url: str, jobs: str) -> None:
    found: list[str | None] = []

    async def work(client: AsyncClient) -> None:
        async with client.consumer(jobs, [jobs], mode="shared") as consumer:
            while messages := await consumer.poll(1, timeout=0.5):
                await messages[0].ack()
                found.append(messages[0].text)

    async with AsyncClient(server_url) as client:
        await asyncio.gather(*(work(client) for _ in range(4)))
        assert (await client.group(jobs)).members == []
    assert sorted(map(str, found)) == ALL


def test_a_long_poll_is_woken_by_a_message(server_url: str) -> None:
    name = f"jobs-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        with client.consumer(name, [name], mode="shared") as consumer:
            publishing = threading.Timer(0.1, client.publish, (name, "here"))
            publishing.start()
            assert next(consumer).text == "here"
            publishing.join()  # the message may be here before its publish is answered


def test_an_unknown_topic_is_told_at_the_join(server_url: str) -> None:
    with (
        Client(server_url) as client,
        pytest.raises(GoQueueClientError, match="unknown-topic"),
        client.consumer("g", ["no-such-topic"]),
    ):
        pass


def test_a_member_that_was_silent_joins_again(tmp_path: Path) -> None:
    settings = {"GOQUEUE_GROUPS_SESSION_MS_MIN": "100"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, Client(node.url) as client:
        client.create_topic("jobs", partitions=1)
        client.publish_many("jobs", ["a", "b"])
        # Nobody beats for it: as if the process had been stopped.
        with client.consumer("g", ["jobs"], mode="shared", session_timeout="200ms") as consumer:
            consumer._membership.beat_seconds = 60.0
            consumer._closed.set()
            assert [one.text for one in consumer.poll(1)] == ["a"]
            while client.group("g").members:
                pass
            again = consumer.poll(2, timeout=20)
            assert [(one.text, one.failures) for one in again] == [("a", 1), ("b", 0)]
            consumer.ack(*again)


def test_work_that_takes_longer_than_the_session_keeps_its_place(tmp_path: Path) -> None:
    settings = {"GOQUEUE_GROUPS_SESSION_MS_MIN": "100"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, Client(node.url) as client:
        client.create_topic("jobs", partitions=1)
        client.publish("jobs", "long")
        with client.consumer("g", ["jobs"], mode="shared", session_timeout="600ms") as consumer:
            message = next(consumer)
            assert not threading.Event().wait(1.5)
            message.ack()
            generations = client.group("g").generation
            assert consumer.poll(timeout=0) == []
            assert client.group("g").generation == generations


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


@pytest.mark.parametrize(("scheme", "door"), [("http", "--rest"), ("grpc", "--grpc")])
def test_a_consumer_outlives_a_killed_node(tmp_path: Path, scheme: str, door: str) -> None:
    port = _free_port()
    node = NodeProcess(tmp_path / "data", door, f"127.0.0.1:{port}", settings={"GOQUEUE_LOG_FSYNC": "always"})
    with node, Client(f"{scheme}://127.0.0.1:{port}") as client:
        client.create_topic("jobs", partitions=1)
        client.publish_many("jobs", ["a", "b", "c"])
        with client.consumer("g", ["jobs"], mode="shared") as consumer:
            first = next(consumer)
            node.kill()
            restart = threading.Timer(0.3, node.start)
            restart.start()
            first.ack()
            restart.join()
            assert everything(consumer, 2) == ["b", "c"]
            assert consumer.poll(timeout=0.2) == []

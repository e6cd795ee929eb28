"""What both clients do beyond publishing and reading: loops with leases, transactions, requests, addresses, numbers."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass

import msgspec
import pytest

from bench.node_process import NodeProcess
from bench.peers.server import free_port
from goqueue.client import AsyncClient, Client, ConnectionFailed, GoQueueClientError, NoReply
from tests import one_node
from tests.client.brokers import dead_letters
from tests.waiting import let_pass, wait_until


@pytest.fixture
def jobs(server_url: str) -> str:
    name = f"jobs-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1, config={"queue.retry.ms": 1})
        client.publish_many(name, ["a", "b", "c"])
    return name


def test_a_loop_acks_what_went_well_and_nacks_what_raised(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        with pytest.raises(KeyError), client.consume(jobs, [jobs]) as messages:
            for message in messages:
                if message.text == "b":
                    raise KeyError("no b")
        found = []
        with client.consume(jobs, [jobs]) as messages:
            for message in messages:
                found.append((message.text, message.failures))
                if len(found) == 2:
                    break
        assert sorted(found) == [("b", 1), ("c", 0)]
        wait_until(lambda: sum(one.lag for one in client.group(jobs).lag) == 0)


def test_the_lease_of_the_message_at_hand_is_renewed(server_url: str, jobs: str) -> None:
    with Client(server_url) as client, client.consume(jobs, [jobs], lease="400ms") as messages:
        first = next(messages)
        let_pass(2.0)  # five leases
        assert [next(messages).text for _ in range(2)] == ["b", "c"], "it did not come again"
        assert (first.text, first.attempt) == ("a", 1)


@pytest.mark.asyncio
async def test_an_async_loop_does_the_same(server_url: str, jobs: str) -> None:
    async with AsyncClient(server_url) as client:
        with pytest.raises(KeyError):
            async with client.consume(jobs, [jobs], lease="400ms") as messages:
                async for message in messages:
                    raise KeyError(message.text)
        found = []
        async with client.consume(jobs, [jobs]) as messages:
            async for message in messages:
                found.append((message.text, message.failures))
                if len(found) == 3:
                    break
        assert sorted(found) == [("a", 1), ("b", 0), ("c", 0)]


def test_a_transaction_is_whole_or_nothing(server_url: str, jobs: str) -> None:
    out = f"{jobs}-out"
    with Client(server_url) as client, client.consumer(jobs, [jobs], mode="shared") as consumer:
        client.create_topic(out, partitions=1)
        transaction = client.transaction()
        with pytest.raises(KeyError), transaction:
            transaction.publish(out, "never seen")
            raise KeyError
        first, second, third = consumer.poll(3)
        with transaction:
            transaction.publish(out, "A", key="k")
            transaction.publish_many(out, ["B", "C"])
            transaction.ack(first, second)
            transaction.reject(third, reason="no c")
        with transaction:
            transaction.publish(out, "dropped")
            transaction.abort()
        assert [one.text for one in client.read(out).messages] == ["A", "B", "C"]
        assert [one.text for one in dead_letters(client, jobs)] == ["c"]
        with pytest.raises(GoQueueClientError, match="stale-receipt"), transaction:
            transaction.publish(out, "not seen either")
            transaction.ack(first)
        assert len(client.read(out).messages) == 3
        assert [one for one in client.transactions() if not one.owner] == [], "but what other tests have staged"


@pytest.mark.asyncio
async def test_an_async_transaction_moves_a_group(server_url: str, jobs: str) -> None:
    async with AsyncClient(server_url) as client:
        async with client.transaction() as transaction:
            await transaction.publish(jobs, "d")
            await transaction.move_group(f"movers-{jobs}", {(jobs, 0): 3})
        assert [one.committed for one in (await client.group(f"movers-{jobs}")).lag] == [3]
        assert (await client.read(jobs)).messages[-1].text == "d"


def test_requests_get_their_replies(server_url: str, jobs: str) -> None:
    def serve() -> None:
        with Client(server_url) as client, client.consume("servers", [jobs], from_="latest") as messages:
            ready.set()
            for message in messages:
                client.reply(message, f"{message.text}!")
                if message.text == "bye":
                    break

    ready = threading.Event()
    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(60)
    with Client(server_url) as client:
        with client.requester() as ask:
            assert ask.request(jobs, "hello", timeout=60, headers={"a": "b"}).text == "hello!"
            assert ask.request(jobs, "bye", timeout=60).text == "bye!"
            server.join()
            with pytest.raises(NoReply):
                ask.request(jobs, "nobody", timeout=0.2)
        assert not [one for one in client.topics() if one.name.startswith("replies.")]
        with pytest.raises(GoQueueClientError, match="no-reply-to"):
            client.reply(client.read(jobs).messages[0], "?")


@dataclass
class Order:
    id: int


class Item(msgspec.Struct):
    name: str


def test_dataclasses_and_structs_are_values(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        client.publish_many(jobs, [Order(7), Item("cup")])
        order, item = client.read(jobs).messages[-2:]
        assert (order.text, order.decode(Order), item.decode(Item)) == ('{"id":7}', Order(7), Item("cup"))
        with pytest.raises(GoQueueClientError, match="The value is no Item"):
            order.decode(Item)


def test_pydantic_models_are_values(server_url: str, jobs: str) -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")
    cup = pydantic.create_model("Cup", name=(str, ...), cents=(int, 0))
    with Client(server_url) as client:
        client.publish_many(jobs, [cup(name="blue", cents=250), cup(name="red")])
        first, other = client.read(jobs).messages[-2:]
        assert (first.text, other.text) == ('{"name":"blue","cents":250}', '{"name":"red","cents":0}')
        assert (first.decode(cup), other.decode(cup)) == (cup(name="blue", cents=250), cup(name="red"))
        client.publish(jobs, '{"name": 7}')
        with pytest.raises(GoQueueClientError, match="The value is no Cup"):
            client.read(jobs).messages[-1].decode(cup)


def test_administrators_have_methods(server_url: str, jobs: str) -> None:
    with Client(server_url) as client:
        with client.consumer(jobs, [jobs], mode="shared") as consumer:
            consumer.reject(*consumer.poll(3), reason="no use")
        wait_until(lambda: len(client.dead_letters(jobs, reason="REJECTED", limit=10).messages) == 3)
        letter = client.dead_letters(jobs).messages[0]
        assert client.dead_letter(jobs, letter.partition, letter.offset).error == "no use"
        client.delete_dead_letter(jobs, letter.partition, letter.offset)
        assert client.redrive_dry_run(jobs, filter={"reason": "REJECTED"}).would_move == 2
        task = client.redrive(jobs, rate=1000)
        wait_until(lambda: client.redrive_progress(jobs, task.id).state == "completed")
        assert isinstance(client.queue_stats(), dict)
        assert isinstance(client.priority_stats(), dict)
        assert isinstance(client.traces(limit=1), list)
        assert client.cluster_health() is not None
        assert len(client.cluster_state().nodes) == (one_node.NODES or 1)


@pytest.mark.asyncio
async def test_async_administrators_have_the_same_methods(server_url: str, jobs: str) -> None:
    async with AsyncClient(server_url) as client:
        assert (await client.dead_letters(jobs)).messages == []
        assert isinstance(await client.transactions(), list)  # others use the node too
        assert isinstance(await client.queue_stats(), dict)
        assert isinstance(await client.schemas(), list)
    sync = {name for name in dir(Client) if not name.startswith("_")}
    assert sync - {name for name in dir(AsyncClient) if not name.startswith("_")} == set()


def test_a_client_goes_on_at_the_next_address(server: NodeProcess) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with Client([nobody, server.url]) as client:
        assert client.version().version
        assert client.url == server.url, "it stays there"
    with Client([nobody, nobody]) as client, pytest.raises(ConnectionFailed):
        client.version()
    with pytest.raises(GoQueueClientError, match="at least one address"):
        Client([])


@pytest.mark.asyncio
async def test_an_async_client_goes_on_at_the_next_address(server: NodeProcess) -> None:
    async with AsyncClient([f"http://127.0.0.1:{free_port()}", server.url]) as client:
        assert (await client.version()).version

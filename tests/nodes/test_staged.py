"""Transactions over REST and staged sets, whose messages, leases and delayed messages are at three nodes."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage
from goqueue.base.leases import Take
from goqueue.core.txn.records import TxnAnswer, TxnState
from goqueue.core.txn.staged import NamedWriter
from goqueue.service.router import DO
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_queues import jobs
from tests.nodes.test_transactions import TOPIC, begin, is_whole, places, read


def messages_for(nodes: Nodes, value: str, delay_ms: int | None = None) -> list[InputMessage]:
    """One for a partition of each node."""
    return [InputMessage(None, value.encode(), partition=at.partition, delay_ms=delay_ms) for at in places(nodes)]


async def publish(nodes: Nodes, who: tuple[str, int, int], messages: list[InputMessage], sequence: int) -> None:
    command = PublishInTransaction(*who, [TopicMessages(TOPIC, messages)], sequence)
    await patiently(lambda: nodes.keeper_of(who[0]).txn_publish.publish(command))


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_rest(monkeypatch: pytest.MonkeyPatch, commit: bool) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        source, group, name = await jobs(nodes, 2, 2), nodes.id_at(1, "g"), nodes.id_at(0)
        keeper = nodes.brokers[0].transactions
        state = await keeper.init(name, 60_000)
        who = (name, state.producer_id, state.epoch)
        await keeper.begin(*who)
        await publish(nodes, who, messages_for(nodes, "v"), 0)
        await publish(nodes, who, messages_for(nodes, "v"), 0)  # sent again
        await publish(nodes, who, messages_for(nodes, "later", delay_ms=500), 1)
        taken = await nodes.brokers[2].leasing.take(Take(group, [source], "me", 2, 60_000))
        await keeper.add_answers(*who, [TxnAnswer(one.receipt, "ack") for one in taken])
        await keeper.end(*who, commit=commit)
        await asyncio.sleep(5)
        for at in places(nodes):
            assert await read(nodes, at) == (["v", "later"] if commit else [])
            assert is_whole(nodes, at)
        again = await nodes.brokers[2].leasing.take(Take(group, [source], "other", 2, 60_000))
        assert len(again) == (0 if commit else 2), "answered for, or given back"

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("number", [1, 3])
def test_a_publish_goes_on_while_a_leader_dies(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        written, name = places(nodes), nodes.id_at(0)
        state = await nodes.brokers[0].transactions.init(name, 60_000)
        who = (name, state.producer_id, state.epoch)
        await nodes.brokers[0].transactions.begin(*who)
        calls: list[int] = []
        dead: list[int] = []

        async def die(by: int, to: int, verb: str) -> None:
            """What was stored is stored; its answer gets nowhere."""
            if verb == DO:
                calls.append(to)
                if len(calls) == number:
                    dead.append(to)
                    nodes.kill(to)

        nodes.after_call = die
        messages = [InputMessage(None, b"v", partition=at.partition) for at in written]
        command = PublishInTransaction(*who, [TopicMessages(TOPIC, messages)])
        publishing = asyncio.ensure_future(nodes.brokers[0].txn_publish.publish(command))
        await until(lambda: bool(dead))
        await nodes.start(dead[0])
        await publishing
        await nodes.until_led()
        await patiently(lambda: nodes.keeper_of(name).transactions.end(*who, commit=True))
        for at in written:
            assert await read(nodes, at) == ["v"], "once"

    run_nodes(story, monkeypatch)


def test_a_staged_set_is_shown_whole_at_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        owner = nodes.id_at(1, "owner")
        keeper = nodes.brokers[1]
        writers: list[TxnState] = [await keeper.staged.stage(owner, 1, f"w{number}") for number in range(2)]
        for writer in writers:
            who = (writer.transactional_id, writer.producer_id, writer.epoch)
            await publish(nodes, who, messages_for(nodes, writer.transactional_id[-1]), 0)
        assert [await read(nodes, at) for at in places(nodes)] == [[]] * 3
        named = [NamedWriter(one.transactional_id, one.producer_id, one.epoch, 3) for one in writers]
        ended = await keeper.staged.commit(owner, 1, named)
        assert ended.outcome == "committed"
        for at in places(nodes):
            assert len(await read(nodes, at)) == 2
            assert is_whole(nodes, at)
        assert (await keeper.staged.commit(owner, 1, named)).outcome == "already"

    run_nodes(story, monkeypatch)

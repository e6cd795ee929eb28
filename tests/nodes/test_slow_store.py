"""Leaders that want to change who is in sync, and a store that is slow or has news that they have not heard of."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.metadata import Commit, Revision
from goqueue.core.cluster.records import SHARDS, ShardRecord
from tests.nodes.cluster import Nodes, run_nodes, until


def record_of(nodes: Nodes, node: int, shard: int) -> ShardRecord:
    return nodes.brokers[node].metadata.image.shard(shard)


async def commit_later(nodes: Nodes, node: int, key: str, delay_s: float) -> asyncio.Event:
    """Changes of this key that the node asks for take so long. Done when one is asked for."""
    client, asked = nodes._clients[node], asyncio.Event()
    commit = client.commit

    async def slowly(wanted: Commit) -> Revision:
        if key in wanted.puts:
            asked.set()
            await asyncio.sleep(delay_s)
        return await commit(wanted)

    client.commit = slowly  # type: ignore[method-assign, assignment]
    return asked


def test_a_change_that_the_store_takes_its_time_for_holds_up_no_other_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        loop = asyncio.get_running_loop()
        first, *others = nodes.led_by(1)
        asked = await commit_later(nodes, 1, f"{SHARDS}{first}", 20.0)
        nodes.kill(2)
        async with asyncio.timeout(10):
            await asked.wait()
        await until(lambda: all(2 not in record_of(nodes, 1, shard).in_sync for shard in others), 5)
        assert others and 2 in record_of(nodes, 1, first).in_sync, "which the store is still asked for"
        moved = nodes.led_by(0)[0]
        began = loop.time()
        await nodes.move(moved, 1)
        assert loop.time() - began < 5, "it leads although an answer is awaited"
        await until(lambda: 2 not in record_of(nodes, 1, first).in_sync)

    run_nodes(story, monkeypatch)


def test_who_is_behind_with_the_news_waits_for_them_before_it_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store says that the record has changed: asking for the same change again would be refused again."""

    async def story(nodes: Nodes) -> None:
        shard = nodes.led_by(1)[0]
        key, refused = f"{SHARDS}{shard}", list[float]()
        client = nodes._clients[1]
        commit = client.commit

        async def counted(wanted: Commit) -> Revision:
            if key in wanted.puts:
                refused.append(asyncio.get_running_loop().time())
            return await commit(wanted)

        client.commit = counted  # type: ignore[method-assign, assignment]
        nodes.kill(2)
        nodes.hide_changes(1, True)
        record = nodes.store.state.read().entries[key]
        nodes.store.commit(Commit({key: record.value}))  # somebody else changes it
        await asyncio.sleep(10)
        asked = len(refused)
        assert 1 <= asked <= 7, refused
        nodes.hide_changes(1, False)
        await until(lambda: 2 not in record_of(nodes, 1, shard).in_sync)

    run_nodes(story, monkeypatch)

"""Settings changed through one node hold at all of them, at once and without a restart."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker import Broker
from tests.nodes.cluster import Nodes, run_nodes

RETENTION, SEGMENT = "log.retention.ms", "log.segment.bytes"


def retention(broker: Broker) -> int:
    return int(broker.topics.describe("t").config["retention.ms"])


def test_what_is_set_for_all_nodes_holds_at_all_when_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.any.topics.create("t", 2, {})
        before = retention(nodes.any)
        await nodes.run_at(1, nodes.brokers[1].node_config.alter("cluster", {RETENTION: "123456"}, False))
        assert [retention(broker) for broker in nodes.brokers.values()] == [123_456] * 3
        assert all(broker.node_config.dynamic.cluster == {RETENTION: "123456"} for broker in nodes.brokers.values())
        await nodes.run_at(2, nodes.brokers[2].node_config.alter("cluster", {RETENTION: None}, False))
        assert [retention(broker) for broker in nodes.brokers.values()] == [before] * 3

    run_nodes(story, monkeypatch)


def test_what_is_set_for_one_node_holds_there_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.any.topics.create("t", 2, {})
        before = retention(nodes.any)
        await nodes.run_at(1, nodes.brokers[1].node_config.alter("node", {RETENTION: "123456"}, False))
        assert {node: retention(one) for node, one in nodes.brokers.items()} == {0: before, 1: 123_456, 2: before}

    run_nodes(story, monkeypatch)


def test_two_nodes_that_change_settings_at_once_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        wanted = {RETENTION: "123456", SEGMENT: "1048576", "log.roll.ms": "7200000"}
        changes = [
            nodes.run_at(node, broker.node_config.alter("cluster", {name: value}, False))
            for (node, broker), (name, value) in zip(nodes.brokers.items(), wanted.items(), strict=True)
        ]
        await asyncio.gather(*changes)
        assert all(broker.node_config.dynamic.cluster == wanted for broker in nodes.brokers.values())

    run_nodes(story, monkeypatch)

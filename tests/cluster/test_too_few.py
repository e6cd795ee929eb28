"""Writes when too few replicas are there: refused at once or after a while, never left hanging."""

from __future__ import annotations

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishMessages, PublishResult, StoredAt
from goqueue.base.errors import NotEnoughReplicas, ReplicasTimedOut
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.sim.cluster import SimCluster, SimNode
from goqueue.sim.time import VirtualLoop, run_virtually

AT = TopicPartition("t", 0)


async def publish(node: SimNode, acks: Acks = Acks.ALL) -> PublishResult:
    async def asked(broker: Broker) -> PublishResult:
        (result,) = await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"v", partition=0)], acks))
        return result

    return await node.ask(asked, within_s=60)


def test_who_publishes_while_the_others_are_gone_is_told() -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = SimCluster(loop, 1)
        await cluster.start()
        await cluster.nodes[0].ask(lambda broker: broker.topics.create("t", 1, {}))
        await cluster.until(lambda: cluster.leader_of(AT) is not None)
        leader = cluster.leader_of(AT)
        assert leader is not None
        assert isinstance(await publish(leader), StoredAt)
        others = [node for node in cluster.nodes if node is not leader]
        for node in others:
            node.kill()
        began = loop.time()
        assert isinstance(await publish(leader), ReplicasTimedOut)
        assert 29 < loop.time() - began < 35
        assert isinstance(await publish(leader), NotEnoughReplicas)
        assert isinstance(await publish(leader, Acks.LEADER), StoredAt)
        for node in others:
            node.start()
        await cluster.until(lambda: cluster.is_healed)
        assert cluster.leader_of(AT) is not None
        assert isinstance(await publish(cluster.leader_of(AT) or leader), StoredAt)

    run_virtually(main)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")

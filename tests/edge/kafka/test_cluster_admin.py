"""What administrators are told by one node of three: replicas, and what a node holds."""

from __future__ import annotations

from goqueue.wire import codes
from goqueue.wire.messages import create_partitions, create_topics, describe_log_dirs
from tests.edge.kafka.one_of_three import TOPIC, Door, Run


def created(factor: int, *nodes: int) -> create_topics.CreateTopicsRequest:
    placed = [create_topics.CreatableReplicaAssignment(0, list(nodes))] if nodes else []
    count = -1 if nodes else 1
    asked = create_topics.CreatableTopic("new", count, -1 if nodes else factor, assignments=placed)
    return create_topics.CreateTopicsRequest([asked], 1_000, validate_only=True)


def test_a_topic_may_ask_for_as_many_replicas_as_there_are_nodes(told: Run) -> None:
    async def story(door: Door) -> None:
        for factor in (-1, 1, 2, 3):
            (made,) = (await door.ask(created(factor))).topics
            assert (made.error_code, made.replication_factor) == (codes.NONE, 3 if factor == -1 else factor)
        for factor in (0, -2, 4):
            (refused,) = (await door.ask(created(factor))).topics
            assert refused.error_code == codes.INVALID_REPLICATION_FACTOR
            assert ("there are 3" if factor == 4 else "one replica or more") in refused.error_message
        (placed,) = (await door.ask(created(-1, 2, 0))).topics
        assert (placed.error_code, placed.replication_factor) == (codes.NONE, 2)
        for nodes in ((0, 0), (0, 7), (-1,)):
            (refused,) = (await door.ask(created(-1, *nodes))).topics
            assert refused.error_code == codes.INVALID_REPLICA_ASSIGNMENT
        await door.end_node(1)
        (made,) = (await door.ask(created(3))).topics
        assert made.error_code == codes.NONE, "a node that is down for a moment still counts"

    told(story)


def test_alone_there_is_one_replica(told_alone: Run) -> None:
    async def story(door: Door) -> None:
        codes_of = [(await door.ask(created(factor))).topics[0].error_code for factor in (-1, 1, 2)]
        assert codes_of == [codes.NONE, codes.NONE, codes.INVALID_REPLICATION_FACTOR]
        (placed,) = (await door.ask(created(-1, 0))).topics
        assert (placed.error_code, placed.replication_factor) == (codes.NONE, 1)
        assignment = create_partitions.CreatePartitionsAssignment([1])
        wider = create_partitions.CreatePartitionsTopic(TOPIC, 5, [assignment])
        (refused,) = (await door.ask(create_partitions.CreatePartitionsRequest([wider], 1_000))).results
        assert refused.error_code == codes.INVALID_REPLICA_ASSIGNMENT

    told_alone(story)


def test_a_node_tells_the_sizes_of_what_it_holds(told: Run) -> None:
    async def story(door: Door) -> None:
        await door.change_shard(1, replicas=(1, 2))
        (result,) = (await door.ask(describe_log_dirs.DescribeLogDirsRequest(None))).results
        (topic,) = [one for one in result.topics if one.name == TOPIC]
        assert [one.partition_index for one in topic.partitions] == [0, 2, 3]

    told(story)

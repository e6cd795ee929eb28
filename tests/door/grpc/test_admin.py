"""Topics, groups, dead letters, transactions, schemas and the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, messages, refused, unique


async def values(goqueue: Stubs, topic: str) -> list[bytes]:
    return [one.value for one in (await goqueue.subscriber.Read(pb.ReadRequest(topic=topic))).messages]


async def ended(goqueue: Stubs, topic: str, redrive: str) -> Any:
    for _ in range(1_000):
        found = await goqueue.letters.GetRedrive(pb.GetRedriveRequest(topic=topic, id=redrive))
        if found.state != "running":
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("it does not end")


@pytest.mark.asyncio
async def test_topics(goqueue: Stubs) -> None:
    name = unique("t")
    made = await goqueue.topics.CreateTopic(
        pb.CreateTopicRequest(name=name, num_partitions=2, config={"retention.ms": "7000000"})
    )
    assert (made.name, made.num_partitions, dict(made.overrides)) == (name, 2, {"retention.ms": "7000000"})
    again = goqueue.topics.CreateTopic(pb.CreateTopicRequest(name=name))
    assert (await refused(again))[:2] == ("ALREADY_EXISTS", "topic-exists")
    await goqueue.publish(name, "a", "b", "c")
    shown = await goqueue.topics.GetTopic(pb.GetTopicRequest(name=name))
    assert shown.messages == 3 and sum(one.messages for one in shown.partitions) == 3
    listed = await goqueue.topics.ListTopics(pb.ListTopicsRequest())
    assert [one.messages for one in listed.topics if one.name == name] == [3]
    changed = await goqueue.topics.UpdateTopic(
        pb.UpdateTopicRequest(name=name, unset=["retention.ms"], num_partitions=3, config={"queue.lease.ms": "9000"})
    )
    assert (changed.num_partitions, dict(changed.overrides)) == (3, {"queue.lease.ms": "9000"})
    await goqueue.topics.DeleteTopic(pb.DeleteTopicRequest(name=name))
    gone = goqueue.topics.GetTopic(pb.GetTopicRequest(name=name))
    assert (await refused(gone))[:2] == ("NOT_FOUND", "unknown-topic")
    wrong = goqueue.topics.CreateTopic(pb.CreateTopicRequest(name=unique("t"), config={"no.such": "1"}))
    assert (await refused(wrong))[1] == "invalid-config"


@pytest.mark.asyncio
async def test_offsets_are_committed_shown_and_reset(goqueue: Stubs) -> None:
    topic, group = await goqueue.topic(), unique("g")
    await goqueue.publish(topic, *"abcde")
    commit = pb.CommitOffsetsRequest(group=group, offsets=[pb.OffsetCommit(topic=topic, partition=0, offset=2)])
    assert not (await goqueue.groups.CommitOffsets(commit)).failures
    (shown,) = (await goqueue.groups.GetOffsets(pb.GetOffsetsRequest(group=group))).offsets
    assert (shown.committed, shown.end_offset, shown.lag) == (2, 5, 3)
    reset = pb.ResetOffsetsRequest(group=group, topic=topic, to="offset", offset=4, dry_run=True)
    (moved,) = (await goqueue.groups.ResetOffsets(reset)).offsets
    assert (moved.before, moved.after) == (2, 4)
    reset.dry_run = False
    await goqueue.groups.ResetOffsets(reset)
    (shown,) = (await goqueue.groups.GetOffsets(pb.GetOffsetsRequest(group=group))).offsets
    assert shown.committed == 4
    wrong = goqueue.groups.ResetOffsets(pb.ResetOffsetsRequest(group=group, topic=topic, to="offset"))
    assert (await refused(wrong))[1] == "invalid-field"
    listed = await goqueue.groups.ListGroups(pb.ListGroupsRequest())
    assert group in {one.group for one in listed.groups}
    await goqueue.groups.DeleteGroup(pb.DeleteGroupRequest(group=group))
    assert (await refused(goqueue.groups.GetGroup(pb.GetGroupRequest(group=group))))[0] == "NOT_FOUND"


@pytest.mark.asyncio
async def test_dead_letters_are_listed_looked_at_redriven_and_deleted(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, "a", "b")
    stream = await goqueue.subscribe(unique("g"), topic)
    receipts = [one.receipt for one in await stream.take(2)]
    await stream.say(reject=pb.RejectRequest(receipts=receipts, reason="broken"))
    first = await goqueue.letters.ListDeadLetters(pb.ListDeadLettersRequest(topic=topic, limit=1))
    rest = await goqueue.letters.ListDeadLetters(pb.ListDeadLettersRequest(topic=topic, cursor=first.next))
    one, two = first.letters[0], rest.letters[0]
    assert {one.value, two.value} == {b"a", b"b"}
    at = {"topic": topic, "partition": one.partition, "offset": one.offset}
    assert (await goqueue.letters.GetDeadLetter(pb.GetDeadLetterRequest(**at))).error == "broken"
    await goqueue.letters.DeleteDeadLetter(pb.DeleteDeadLetterRequest(**at))
    assert (await refused(goqueue.letters.GetDeadLetter(pb.GetDeadLetterRequest(**at))))[1] == "unknown-dead-letter"
    task = await goqueue.letters.StartRedrive(pb.StartRedriveRequest(topic=topic))
    assert (await stream.take(1))[0].value == two.value
    found = await ended(goqueue, topic, task.id)
    assert (found.state, found.moved) == ("completed", 1)
    assert [one.id for one in (await goqueue.letters.ListRedrives(pb.ListRedrivesRequest(topic=topic))).redrives] == [
        task.id
    ]
    wrong = goqueue.letters.CancelRedrive(pb.CancelRedriveRequest(topic=topic, id="none"))
    assert (await refused(wrong))[1] == "unknown-redrive"
    stream.call.cancel()


@pytest.mark.asyncio
async def test_a_transaction_publishes_acks_and_commits_or_nothing_happens(goqueue: Stubs) -> None:
    source, target, group = await goqueue.topic(), await goqueue.topic(), unique("g")
    await goqueue.publish(source, "a")
    stream = await goqueue.subscribe(group, source)
    (taken,) = await stream.take(1)
    calls = goqueue.transactions
    producer = await calls.InitProducer(pb.InitProducerRequest(transactional_id=unique("txn")))
    for end, epoch in (("abort", producer.epoch), ("commit", producer.epoch + 1)):
        producer.epoch = epoch
        begun = await calls.BeginTransaction(pb.BeginTransactionRequest(producer=producer))
        assert begun.state == "ongoing"
        answer = await calls.PublishInTransaction(
            pb.PublishInTransactionRequest(producer=producer, topic=target, messages=messages(end), sequence=0)
        )
        assert len(answer.offsets) == 1
        offsets = [pb.OffsetCommit(topic=target, partition=0, offset=1)]
        await calls.AddOffsets(pb.AddOffsetsRequest(producer=producer, group=unique("other"), offsets=offsets))
        if end == "commit":
            told = await calls.AddAnswers(pb.AddAnswersRequest(producer=producer, acks=[taken.receipt]))
            assert told.receipts == 1
        assert await values(goqueue, target) == []
        open_ = (await calls.ListTransactions(pb.ListTransactionsRequest())).transactions
        assert producer.transactional_id in {one.transactional_id for one in open_}
        await calls.HeartbeatProducer(pb.HeartbeatProducerRequest(producer=producer))
        if end == "abort":
            await calls.AbortTransaction(pb.AbortTransactionRequest(producer=producer))
        else:
            await calls.CommitTransaction(pb.CommitTransactionRequest(producer=producer))
    assert await values(goqueue, target) == [b"commit"]
    (lag,) = (await goqueue.groups.GetOffsets(pb.GetOffsetsRequest(group=group))).offsets
    assert lag.lag == 0
    shown = await calls.GetTransaction(pb.GetTransactionRequest(transactional_id=producer.transactional_id))
    assert shown.producer_id == producer.producer_id
    stale = calls.BeginTransaction(pb.BeginTransactionRequest(producer=producer))
    assert (await refused(stale))[0] == "FAILED_PRECONDITION"
    stream.call.cancel()


@pytest.mark.asyncio
async def test_schemas(goqueue: Stubs) -> None:
    subject, calls = unique("s"), goqueue.schemas
    record = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    made = await calls.RegisterSchema(pb.RegisterSchemaRequest(subject=subject, schema=pb.Schema(schema=record)))
    assert (made.subject, made.version) == (subject, 1)
    by_id = await calls.GetSchema(pb.GetSchemaRequest(id=made.id))
    latest = await calls.GetSchema(pb.GetSchemaRequest(subject=subject))
    assert by_id.schema.schema == latest.schema.schema and latest.version == 1 and by_id.guid == made.guid
    assert subject in (await calls.ListSubjects(pb.ListSubjectsRequest(prefix=subject[:3]))).subjects
    assert list((await calls.ListVersions(pb.ListVersionsRequest(subject=subject))).versions) == [1]
    other = pb.Schema(schema='{"type": "record", "name": "R", "fields": [{"name": "b", "type": "string"}]}')
    tested = await calls.TestSchema(pb.TestSchemaRequest(subject=subject, schema=other))
    assert not tested.is_compatible and tested.messages
    wrong = calls.RegisterSchema(pb.RegisterSchemaRequest(subject=subject, schema=pb.Schema(schema="{")))
    assert (await refused(wrong))[:2] == ("INVALID_ARGUMENT", "invalid-schema")
    deleted = await calls.DeleteSchema(pb.DeleteSchemaRequest(subject=subject, version=1))
    assert list(deleted.versions) == [1]
    assert (await refused(calls.GetSchema(pb.GetSchemaRequest(subject=subject))))[0] == "NOT_FOUND"
    assert (await refused(calls.GetSchema(pb.GetSchemaRequest())))[1] == "invalid-field"


@pytest.mark.asyncio
async def test_the_cluster_is_shown(goqueue: Stubs) -> None:
    topic = await goqueue.topic(partitions=2)
    state = await goqueue.cluster.GetClusterState(pb.GetClusterStateRequest())
    assert state.status == "ok" and state.nodes[0].addresses["grpc"] and state.shards
    health = await goqueue.cluster.GetClusterHealth(pb.GetClusterHealthRequest())
    assert health.status == "ok" and health.nodes_alive == len(state.nodes)
    (place,) = (await goqueue.cluster.GetClusterMetadata(pb.GetClusterMetadataRequest(topic=topic))).topics
    assert [one.partition for one in place.partitions] == [0, 1]

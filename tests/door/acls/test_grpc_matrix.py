"""Every method of gRPC's door, asked with no right, with too little and with just enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.message import Message

from goqueue.format.records import NewRecord, build
from goqueue.wire import goqueue_pb2 as pb
from goqueue.wire import goqueue_pb2_grpc as rpc
from tests.door.acls.ruled import ALL, LISTED, Ruled, ruled_node, too_little

READ, WRITE, SEE = "read topic:orders", "write topic:orders", "describe topic:orders"
READ_GROUP, SEE_GROUP = "read group:g", "describe group:g"
TXN, CLUSTER = "write transactional_id:txn", "describe cluster"
RECEIPTS = ["orders:0:7:1:nonce"]
WHO = pb.Producer(transactional_id="txn", producer_id=1, epoch=0)
AT: dict[str, Any] = {"topic": "orders", "partition": 0, "offset": 7}
OFFSETS = [pb.OffsetCommit(topic="orders", partition=0, offset=0)]
SCHEMA = pb.Schema(schema='"string"')
MESSAGES = [pb.Message(value=b"v")]
BATCH = build([NewRecord(None, b"v", (), 1_794_000_000_000)])
TO_REST = pb.CallApiRequest(
    method="POST",
    path="/topics/orders/messages",
    headers={"content-type": "application/json"},
    body=b'{"messages":[{"value":"v"}]}',
)
TAIL = pb.CallApiRequest(method="GET", path="/topics/orders/tail", headers={"accept": "text/event-stream"})


class Case(NamedTuple):
    method: str
    needed: Sequence[str]
    request: Message


CASES = [
    Case("Publisher/Publish", [WRITE], pb.PublishRequest(topic="orders", messages=MESSAGES)),
    Case("Publisher/PublishMany", [WRITE], pb.PublishRequest(topic="orders", messages=MESSAGES)),
    Case("Publisher/PublishStream", [WRITE], pb.PublishRequest(topic="orders", messages=MESSAGES)),
    Case(
        "Subscriber/Subscribe",
        [READ_GROUP, READ],
        pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["orders"])),
    ),
    Case("Subscriber/Ack", [READ], pb.AckRequest(receipts=RECEIPTS)),
    Case("Subscriber/Nack", [READ], pb.NackRequest(receipts=RECEIPTS)),
    Case("Subscriber/Reject", [READ], pb.RejectRequest(receipts=RECEIPTS)),
    Case("Subscriber/Extend", [READ], pb.ExtendRequest(receipts=RECEIPTS, lease_ms=1)),
    Case("Subscriber/Read", [READ], pb.ReadRequest(topic="orders")),
    Case("Subscriber/Poll", [READ_GROUP], pb.PollRequest(group="g", member_id="m", generation=1)),
    Case("Api/CallApi", [SEE], pb.CallApiRequest(method="GET", path="/topics/orders")),
    Case("Api/CallApi", [WRITE], TO_REST),
    Case("Api/StreamApi", [READ], pb.StreamApiRequest(request=TAIL)),
    Case("Batches/PublishBatch", [WRITE], pb.PublishBatchRequest(topic="orders", batch=BATCH)),
    Case("Batches/PublishBatchStream", [WRITE], pb.PublishBatchRequest(topic="orders", batch=BATCH)),
    Case("Batches/FetchBatches", [READ], pb.FetchBatchesRequest(topic="orders")),
    Case("Batches/FetchBatchStream", [READ], pb.FetchBatchesRequest(topic="orders")),
    Case("Topics/CreateTopic", ["create topic:orders"], pb.CreateTopicRequest(name="orders")),
    Case("Topics/ListTopics", LISTED, pb.ListTopicsRequest()),
    Case("Topics/GetTopic", [SEE], pb.GetTopicRequest(name="orders")),
    Case(
        "Topics/UpdateTopic",
        ["alter_configs topic:orders"],
        pb.UpdateTopicRequest(name="orders", config={"retention.ms": "7000000"}),
    ),
    Case("Topics/UpdateTopic", ["alter topic:orders"], pb.UpdateTopicRequest(name="orders", num_partitions=1)),
    Case("Topics/DeleteTopic", ["delete topic:gone"], pb.DeleteTopicRequest(name="gone")),
    Case("Groups/ListGroups", LISTED, pb.ListGroupsRequest()),
    Case("Groups/GetGroup", [SEE_GROUP], pb.GetGroupRequest(group="g")),
    Case("Groups/DeleteGroup", ["delete group:g"], pb.DeleteGroupRequest(group="g")),
    Case("Groups/GetOffsets", [SEE_GROUP], pb.GetOffsetsRequest(group="g")),
    Case("Groups/CommitOffsets", [READ_GROUP, READ], pb.CommitOffsetsRequest(group="g", offsets=OFFSETS)),
    Case("Groups/ResetOffsets", [READ_GROUP, READ], pb.ResetOffsetsRequest(group="g", topic="orders", to="earliest")),
    Case("DelayedMessages/ListDelayed", [READ], pb.ListDelayedRequest(topic="orders")),
    Case("DelayedMessages/GetDelayed", [READ], pb.GetDelayedRequest(**AT)),
    Case("DelayedMessages/CancelDelayed", [WRITE], pb.CancelDelayedRequest(**AT)),
    Case("DeadLetters/ListDeadLetters", [READ], pb.ListDeadLettersRequest(topic="orders")),
    Case("DeadLetters/GetDeadLetter", [READ], pb.GetDeadLetterRequest(**AT)),
    Case("DeadLetters/DeleteDeadLetter", ["delete topic:orders"], pb.DeleteDeadLetterRequest(**AT)),
    Case(
        "DeadLetters/StartRedrive",
        ["alter topic:orders.dlq", "write topic:orders"],
        pb.StartRedriveRequest(topic="orders"),
    ),
    Case("DeadLetters/ListRedrives", [SEE, "describe topic:orders.dlq"], pb.ListRedrivesRequest(topic="orders")),
    Case("Transactions/InitProducer", [TXN], pb.InitProducerRequest(transactional_id="txn")),
    Case("Transactions/BeginTransaction", [TXN], pb.BeginTransactionRequest(producer=WHO)),
    Case(
        "Transactions/PublishInTransaction",
        [TXN, WRITE],
        pb.PublishInTransactionRequest(producer=WHO, topic="orders", messages=MESSAGES),
    ),
    Case(
        "Transactions/AddOffsets",
        [TXN, READ_GROUP, READ],
        pb.AddOffsetsRequest(producer=WHO, group="g", offsets=OFFSETS),
    ),
    Case("Transactions/AddAnswers", [TXN, READ], pb.AddAnswersRequest(producer=WHO, acks=RECEIPTS)),
    Case("Transactions/CommitTransaction", [TXN], pb.CommitTransactionRequest(producer=WHO)),
    Case("Transactions/AbortTransaction", [TXN], pb.AbortTransactionRequest(producer=WHO)),
    Case("Transactions/AbortTransaction", ["alter cluster"], pb.AbortTransactionRequest(transactional_id="txn")),
    Case(
        "Transactions/GetTransaction",
        ["describe transactional_id:txn"],
        pb.GetTransactionRequest(transactional_id="txn"),
    ),
    Case("Transactions/ListTransactions", LISTED, pb.ListTransactionsRequest(all=True)),
    Case("Schemas/RegisterSchema", ["write subject:s"], pb.RegisterSchemaRequest(subject="s", schema=SCHEMA)),
    Case("Schemas/GetSchema", ["describe subject:s"], pb.GetSchemaRequest(subject="s")),
    Case("Schemas/ListSubjects", LISTED, pb.ListSubjectsRequest()),
    Case("Schemas/ListVersions", ["describe subject:s"], pb.ListVersionsRequest(subject="s")),
    Case("Schemas/TestSchema", ["describe subject:s"], pb.TestSchemaRequest(subject="s", schema=SCHEMA)),
    Case("Schemas/DeleteSchema", ["delete subject:s"], pb.DeleteSchemaRequest(subject="s", version=1)),
    Case("Cluster/GetClusterState", [CLUSTER], pb.GetClusterStateRequest()),
    Case("Cluster/GetClusterHealth", [CLUSTER], pb.GetClusterHealthRequest()),
    Case("Cluster/GetClusterMetadata", [CLUSTER], pb.GetClusterMetadataRequest()),
]
# An id is looked up first: there is none, for everybody.
WITHOUT_THING = {"DeadLetters/GetRedrive", "DeadLetters/CancelRedrive", "Transactions/HeartbeatProducer"}
REFUSED = ("PERMISSION_DENIED", "authorization-failed", "status: 403")
METHODS = {
    f"{service.name}/{method.name}": method
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


async def ask(channel: grpc.aio.Channel, case: Case) -> str:
    """What comes back, as text."""
    service, _, name = case.method.partition("/")
    method, call_of = METHODS[case.method], getattr(getattr(rpc, f"{service}Stub")(channel), name)

    async def once():  # type: ignore[no-untyped-def]
        yield case.request

    call = call_of(once() if method.client_streaming else case.request, timeout=20)
    try:
        if not method.server_streaming:
            return str(await call)
        return str(await call.read())
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {error.trailing_metadata()}"
    finally:
        call.cancel()


async def mistakes_in(channel: grpc.aio.Channel, access: Ruled, case: Case) -> list[str]:
    async def answer(rights: Sequence[str]) -> str:
        access.set(rights)
        return await ask(channel, case)

    if case.needed == LISTED:
        found = await answer([])
        return [f"{case.method} shows {found}"] if any(name in found for name in ("orders", '"txn"', '"s"')) else []
    mistakes: list[str] = []
    for rights in [[], *too_little(case.needed)]:
        found = await answer(rights)
        if not any(word in found for word in (*REFUSED, "NOT_FOUND")):
            mistakes.append(f"{case.method} with {rights} is not refused: {found[:200]}")
    found = await answer(case.needed)
    if any(word in found for word in REFUSED):
        mistakes.append(f"{case.method} with {case.needed} is refused: {found[:300]}")
    return mistakes


@pytest.mark.asyncio
async def test_every_method_is_refused_without_its_right_and_answered_with_it(tmp_path: Path) -> None:
    assert set(METHODS) == {case.method for case in CASES} | WITHOUT_THING, "a method without a rule"
    async with (
        ruled_node(tmp_path) as (access, started),
        grpc.aio.insecure_channel(started.addresses["gRPC"]) as channel,
    ):
        access.set(ALL)
        await prepare(channel)
        found = [mistake for case in CASES for mistake in await mistakes_in(channel, access, case)]
        assert found == [], "\n".join(found)


async def prepare(channel: grpc.aio.Channel) -> None:
    """What the requests are about."""
    topics: Any = rpc.TopicsStub(channel)
    for name in ("orders", "orders.dlq", "gone"):
        await topics.CreateTopic(pb.CreateTopicRequest(name=name))
    await rpc.SchemasStub(channel).RegisterSchema(pb.RegisterSchemaRequest(subject="s", schema=SCHEMA))
    await rpc.GroupsStub(channel).CommitOffsets(pb.CommitOffsetsRequest(group="g", offsets=OFFSETS))
    made = await rpc.TransactionsStub(channel).InitProducer(pb.InitProducerRequest(transactional_id="txn"))
    WHO.CopyFrom(made)

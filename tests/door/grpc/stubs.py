"""A channel to a node and the generated stubs, and what tests do with them again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from goqueue.wire import goqueue_pb2 as pb
from goqueue.wire import goqueue_pb2_grpc as rpc


class Stubs:
    """One channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.publisher = rpc.PublisherStub(channel)
        self.subscriber = rpc.SubscriberStub(channel)
        self.batches = rpc.BatchesStub(channel)
        self.api: Any = rpc.ApiStub(channel)
        self.topics = rpc.TopicsStub(channel)
        self.groups = rpc.GroupsStub(channel)
        self.delayed = rpc.DelayedMessagesStub(channel)
        self.letters = rpc.DeadLettersStub(channel)
        self.transactions = rpc.TransactionsStub(channel)
        self.schemas = rpc.SchemasStub(channel)
        self.cluster = rpc.ClusterStub(channel)

    async def topic(self, partitions: int = 1, **config: str) -> str:
        name = unique("t")
        settings = {key.replace("_", "."): value for key, value in config.items()}
        await self.topics.CreateTopic(pb.CreateTopicRequest(name=name, num_partitions=partitions, config=settings))
        return name

    async def publish(self, topic: str, *values: str) -> Any:
        return await self.publisher.Publish(pb.PublishRequest(topic=topic, messages=messages(*values)))

    async def subscribe(self, group: str, topic: str, credit: int = 100, **more: Any) -> Subscriber:
        call = self.subscriber.Subscribe()
        wanted = pb.Subscription(group=group, topics=[topic], credit=credit, **more)
        await call.write(pb.SubscribeRequest(subscription=wanted))
        found = Subscriber(call)
        await found.next("joined")
        return found


class Subscriber:
    """A stream under way."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self._id = 0
        self._kept: list[Any] = []

    async def next(self, kind: str) -> Any:
        """The next of a kind; others are kept for who asks for them, as answers and deliveries come in any order."""
        for place, found in enumerate(self._kept):
            if found.WhichOneof("event") == kind:
                return getattr(self._kept.pop(place), kind)
        while True:
            found = await self.call.read()
            assert found is not grpc.aio.EOF, await self.call.code()
            if found.WhichOneof("event") == kind:
                return getattr(found, kind)
            self._kept.append(found)

    async def take(self, count: int) -> list[pb.LeasedMessage]:
        taken: list[pb.LeasedMessage] = []
        while len(taken) < count:
            for delivery in (await self.next("deliveries")).deliveries:
                taken += delivery.messages
        return taken

    async def say(self, **action: Any) -> Any:
        """Says it, and returns the answer."""
        self._id += 1
        await self.call.write(pb.SubscribeRequest(id=self._id, **action))
        answer = await self.next("answer")
        assert answer.id == self._id
        return answer

    async def ack(self, taken: Sequence[pb.LeasedMessage]) -> Any:
        return await self.say(ack=pb.AckRequest(receipts=[one.receipt for one in taken]))


def messages(*values: str) -> list[pb.Message]:
    return [pb.Message(value=value.encode()) for value in values]


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid4().hex[:10]}"


@asynccontextmanager
async def stubs(address: str) -> AsyncIterator[Stubs]:
    async with grpc.aio.insecure_channel(address) as channel:
        yield Stubs(channel)


async def refused(call: Any) -> tuple[str, str, status_pb2.Status]:
    """The status, GoQueue's word and the whole of it."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return told(caught.value)


def told(error: grpc.aio.AioRpcError) -> tuple[str, str, status_pb2.Status]:
    data = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    status = status_pb2.Status.FromString(data)
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        detail.Unpack(info)
    return error.code().name, info.reason, status

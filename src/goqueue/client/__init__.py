"""What Python users import: typed clients, sync and async, and producers that send in batches."""

from goqueue.client.accumulator import Batching
from goqueue.client.async_client import AsyncClient
from goqueue.client.async_producer import AsyncProducer
from goqueue.client.client import Client
from goqueue.client.errors import (
    BufferFull,
    ConnectionFailed,
    GoQueueClientError,
    PartlyStored,
    ProducerClosed,
    TimedOut,
)
from goqueue.client.messages import Message, NewMessage, Placed
from goqueue.client.producer import Producer
from goqueue.client.replies import (
    Group,
    GroupLag,
    GroupMember,
    GroupSummary,
    OffsetMove,
    Page,
    Partition,
    Readiness,
    Topic,
    TopicParts,
    TopicSummary,
    Version,
)
from goqueue.client.retry import Retries

__all__ = [
    "AsyncClient",
    "AsyncProducer",
    "Batching",
    "BufferFull",
    "Client",
    "ConnectionFailed",
    "GoQueueClientError",
    "Group",
    "GroupLag",
    "GroupMember",
    "GroupSummary",
    "Message",
    "NewMessage",
    "OffsetMove",
    "Page",
    "Partition",
    "PartlyStored",
    "Placed",
    "Producer",
    "ProducerClosed",
    "Readiness",
    "Retries",
    "TimedOut",
    "Topic",
    "TopicParts",
    "TopicSummary",
    "Version",
]

"""What Python users import: typed clients, sync and async, producers that send in batches, and consumers."""

from goqueue.client.accumulator import Batching
from goqueue.client.async_client import AsyncClient
from goqueue.client.async_consumer import AsyncConsumer
from goqueue.client.async_consumption import AsyncConsumption
from goqueue.client.async_producer import AsyncProducer
from goqueue.client.async_transaction import AsyncClientTransaction
from goqueue.client.client import Client
from goqueue.client.consumer import Consumer
from goqueue.client.consumer_options import ConsumerOptions, ConsumerSettings
from goqueue.client.consumption import Consumption
from goqueue.client.delayed import Delayed
from goqueue.client.errors import (
    BufferFull,
    ConnectionFailed,
    ConsumerClosed,
    GoQueueClientError,
    MustJoinAgain,
    NotStored,
    PartlyAnswered,
    PartlyStored,
    ProducerClosed,
    TimedOut,
    WrongType,
)
from goqueue.client.leases import AsyncLeasedMessage, Leased, LeasedMessage
from goqueue.client.messages import Message, NewMessage, Placed, Scheduled
from goqueue.client.producer import Producer
from goqueue.client.replies import (
    BrokerVersion as Version,
)
from goqueue.client.replies import (
    Doors,
    Group,
    GroupLag,
    GroupMember,
    GroupSummary,
    OffsetMove,
    Page,
    Readiness,
    TopicParts,
    TopicSummary,
)
from goqueue.client.replies import (
    PartitionInfo as Partition,
)
from goqueue.client.replies import (
    SkippedOffsets as Skipped,
)
from goqueue.client.replies import (
    TopicInfo as Topic,
)
from goqueue.client.requests import AsyncRequester, NoReply, Requester
from goqueue.client.retry import Retries
from goqueue.client.staged import OpenWriter, Staged, StagedEnd, StagedOwner, StagedWriterId
from goqueue.client.steps import Rebalance
from goqueue.client.transaction import ClientTransaction

__all__ = [
    "AsyncClient",
    "AsyncClientTransaction",
    "AsyncConsumer",
    "AsyncConsumption",
    "AsyncLeasedMessage",
    "AsyncProducer",
    "AsyncRequester",
    "Batching",
    "BufferFull",
    "Client",
    "ClientTransaction",
    "ConnectionFailed",
    "Consumer",
    "ConsumerClosed",
    "ConsumerOptions",
    "ConsumerSettings",
    "Consumption",
    "Delayed",
    "Doors",
    "GoQueueClientError",
    "Group",
    "GroupLag",
    "GroupMember",
    "GroupSummary",
    "Leased",
    "LeasedMessage",
    "Message",
    "MustJoinAgain",
    "NewMessage",
    "NoReply",
    "NotStored",
    "OffsetMove",
    "OpenWriter",
    "Page",
    "Partition",
    "PartlyAnswered",
    "PartlyStored",
    "Placed",
    "Producer",
    "ProducerClosed",
    "Readiness",
    "Rebalance",
    "Requester",
    "Retries",
    "Scheduled",
    "Skipped",
    "Staged",
    "StagedEnd",
    "StagedOwner",
    "StagedWriterId",
    "TimedOut",
    "Topic",
    "TopicParts",
    "TopicSummary",
    "Version",
    "WrongType",
]

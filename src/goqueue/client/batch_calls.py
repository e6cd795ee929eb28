"""Record batches as bytes, in and out. Over gRPC alone."""

from __future__ import annotations

from typing import Any, TypeVar

from goqueue.client import checks
from goqueue.client.calls import RestCall, check_topic
from goqueue.client.errors import GoQueueClientError
from goqueue.client.messages import Placed
from goqueue.client.native_calls import NativeFetchBatches, NativePublishBatch

T = TypeVar("T")


def publish_batch(name: str, partition: int, batch: bytes) -> RestCall[Placed]:
    checks.whole_number(partition, "partition")
    native = NativePublishBatch(check_topic(name), partition, bytes(batch))
    return RestCall("", "", _needs_grpc, native=native)


def fetch_batches(
    name: str, partition: int, offset: int, bytes_max: int, wait_seconds: float
) -> RestCall[tuple[bytes, int]]:
    for value, field in ((partition, "partition"), (offset, "offset"), (bytes_max, "bytes_max")):
        checks.whole_number(value, field)
    checks.seconds(wait_seconds, "wait")
    native = NativeFetchBatches(check_topic(name), partition, offset, bytes_max, round(wait_seconds * 1000))
    return RestCall("", "", _needs_grpc, wait_seconds=wait_seconds, native=native)


def _needs_grpc(status: int, body: bytes) -> Any:
    raise needs_grpc()


def needs_grpc() -> GoQueueClientError:
    return GoQueueClientError("needs-grpc", "Batches as bytes go over gRPC; use an address like grpc://127.0.0.1:9000.")


class RawBatches:
    """A part of `Client`."""

    def perform(self, call: RestCall[T]) -> T:
        raise NotImplementedError

    def publish_batch(self, topic: str, partition: int, batch: bytes) -> Placed:
        """Stores one record batch, in Kafka's format, as it is; says where its first message went. Over gRPC alone."""
        return self.perform(publish_batch(topic, partition, batch))

    def fetch_batches(
        self, topic: str, partition: int, offset: int, *, bytes_max: int = 1 << 20, wait: float = 0.0
    ) -> tuple[bytes, int]:
        """Whole record batches from an offset on, and where to go on. Waits up to `wait` seconds for the first. Over
        gRPC alone."""
        return self.perform(fetch_batches(topic, partition, offset, bytes_max, wait))


class AsyncRawBatches:
    """A part of `AsyncClient`."""

    async def perform(self, call: RestCall[T]) -> T:
        raise NotImplementedError

    async def publish_batch(self, topic: str, partition: int, batch: bytes) -> Placed:
        """Stores one record batch, in Kafka's format, as it is; says where its first message went. Over gRPC alone."""
        return await self.perform(publish_batch(topic, partition, batch))

    async def fetch_batches(
        self, topic: str, partition: int, offset: int, *, bytes_max: int = 1 << 20, wait: float = 0.0
    ) -> tuple[bytes, int]:
        """Whole record batches from an offset on, and where to go on. Waits up to `wait` seconds for the first. Over
        gRPC alone."""
        return await self.perform(fetch_batches(topic, partition, offset, bytes_max, wait))

"""A request as a call of one of gRPC's methods, and what its answer means. Without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from goqueue.base.limits import MESSAGES_PER_PUBLISH_MAX
from goqueue.base.priority import NAMES, priority_of
from goqueue.client.calls import RestCall, Result, body_of, finish
from goqueue.client.errors import GoQueueClientError, PartlyAnswered
from goqueue.client.leases import Leased
from goqueue.client.member_calls import Polled
from goqueue.client.messages import Headers, NewMessage, Placed, header_pairs, to_content
from goqueue.client.native_calls import (
    NativeAck,
    NativeFetchBatches,
    NativePoll,
    NativePublish,
    NativePublishBatch,
)
from goqueue.wire import goqueue_pb2 as pb

T = TypeVar("T")
_SERVICES: Final = "/goqueue.v1."
_ACKS: Final = {"none": pb.ACKS_NONE, "leader": pb.ACKS_LEADER, "all": pb.ACKS_ALL}
STREAM: Final = f"{_SERVICES}Api/StreamApi"


class GrpcRequest(msgspec.Struct, Generic[T], frozen=True):
    """The method's path, the request's bytes, and how to read the answer's."""

    method: str
    data: bytes
    read: Callable[[bytes], T]


def grpc_request(call: RestCall[T], host: str) -> GrpcRequest[T]:
    """By a method of its own where there is one, else as a request of the REST API. `host` is who is asked."""
    made = _NATIVE[type(call.native)](call.native) if call.native is not None else None
    return made or _api_request(call, host)


def _api_request(call: RestCall[T], host: str) -> GrpcRequest[T]:
    def read(data: bytes) -> T:
        answer = pb.CallApiResponse.FromString(data)
        return finish(call, answer.status, answer.body)

    return GrpcRequest(f"{_SERVICES}Api/CallApi", _api(call, host).SerializeToString(), read)


def stream_request(call: RestCall[Any], host: str) -> bytes:
    """For an answer that goes on."""
    data: bytes = pb.StreamApiRequest(request=_api(call, host)).SerializeToString()
    return data


def stream_part(data: bytes) -> tuple[int, bytes]:
    """Its status, and some of its bytes."""
    part = pb.StreamApiResponse.FromString(data)
    return part.status, part.body


def _api(call: RestCall[Any], host: str) -> pb.CallApiRequest:
    body, headers = body_of(call), {**call.headers, "reached": host}
    if body is not None:
        headers["content-type"] = "application/json"
    return pb.CallApiRequest(
        method=call.method, path=call.path, query=urlencode(call.query), headers=headers, body=body or b""
    )


# --- messages in ----------------------------------------------------------------------------------------


def _publish(asked: NativePublish) -> GrpcRequest[Any] | None:
    """None if a message has more than a value, a key and headers, or there are too many: then the broker reads what the
    caller wrote."""
    if not 0 < len(asked.messages) <= MESSAGES_PER_PUBLISH_MAX:
        return None
    request = pb.PublishRequest(topic=asked.topic, acks=_ACKS[asked.acks])
    if set(map(type, asked.messages)) == {bytes}:
        request.values.extend(asked.messages)
    else:
        for one in asked.messages:
            message = one if isinstance(one, NewMessage) else NewMessage(one)
            if any(getattr(message, name) is not None for name in _RARE):
                return None
            _add(request, message)
    count = len(asked.messages)
    return GrpcRequest(
        f"{_SERVICES}Publisher/Publish",
        request.SerializeToString(),
        lambda data: asked.finish(_results(pb.PublishResponse.FromString(data), count)),
    )


_RARE: Final = ("partition", "priority", "timestamp", "delay", "deliver_at", "ttl", "repeat")


def _add(request: pb.PublishRequest, message: NewMessage) -> None:
    made = request.messages.add(value=to_content(message.value, "value"), key=to_content(message.key, "key"))
    if message.headers:
        pairs = header_pairs(message.headers)
        made.headers.extend([pb.Header(name=name, value=to_content(one, f"headers.{name}")) for name, one in pairs])


def _results(answer: pb.PublishResponse, count: int) -> list[Result]:
    results: list[Result] = list(map(Placed, answer.partitions, answer.offsets))
    if len(results) != count or answer.scheduled:
        raise ValueError(f"{len(results)} results for {count} messages")
    for failure in answer.failures:
        results[failure.index] = _error(failure.error)
    return results


def _error(told: pb.Error) -> GoQueueClientError:
    return GoQueueClientError(told.code, told.message, told.field or None)


# --- messages out ---------------------------------------------------------------------------------------


def _poll(asked: NativePoll) -> GrpcRequest[Polled]:
    request = pb.PollRequest(
        group=asked.group,
        member_id=asked.member_id,
        generation=asked.generation,
        limit=asked.limit,
        wait_ms=asked.wait_ms,
    )
    return GrpcRequest(f"{_SERVICES}Subscriber/Poll", request.SerializeToString(), _polled)


def _polled(data: bytes) -> Polled:
    answer = pb.PollResponse.FromString(data)
    messages = [message for run in answer.runs for message in _messages(run)]
    return Polled(messages, answer.generation, answer.rebalance)


def _messages(run: pb.LeasedRun) -> Iterable[Leased]:
    """All at once: most of what a message has is the same for all."""
    offsets, values = list(run.offsets), _column(run.values, run.null_values)
    keys: Iterable[bytes | None] = _column(run.keys, run.null_keys) if run.keys else repeat(None)
    times: Iterable[int] = list(run.timestamps_ms) if len(run.timestamps_ms) > 1 else repeat(run.timestamps_ms[0])
    head, tail, topic, partition = run.receipt_head, run.receipt_tail, run.topic, run.partition
    attempt, failures, until = run.attempt, run.failures, run.leased_until_ms
    headers: Iterable[tuple[Headers, str]] = map(_headers, run.headers) if run.headers else repeat(((), "normal"))
    return [
        Leased(
            topic,
            partition,
            offset,
            time_ms,
            key,
            value,
            pairs,
            priority,
            receipt=f"{head}{offset}{tail}",
            attempt=attempt,
            failures=failures,
            leased_until=until,
        )
        for offset, time_ms, key, value, (pairs, priority) in zip(offsets, times, keys, values, headers, strict=False)
    ]


def _column(found: Sequence[bytes], without: Sequence[int]) -> list[bytes | None]:
    column: list[bytes | None] = list(found)
    for place in without:
        column[place] = None
    return column


def _headers(told: pb.Headers) -> tuple[Headers, str]:
    """And the priority, which is one of them."""
    pairs = tuple((one.name, one.value if one.HasField("value") else None) for one in told.headers)
    return tuple(pair for pair in pairs if pair[0] != "goqueue-priority"), NAMES[priority_of(pairs)]


def _ack(asked: NativeAck) -> GrpcRequest[None]:
    def read(data: bytes) -> None:
        failures = pb.AnswerResponse.FromString(data).failures
        if failures:
            raise PartlyAnswered({one.receipt: _error(one.error) for one in failures}, len(asked.receipts))

    request = pb.AckRequest(receipts=asked.receipts)
    return GrpcRequest(f"{_SERVICES}Subscriber/Ack", request.SerializeToString(), read)


# --- batches --------------------------------------------------------------------------------------------


def _publish_batch(asked: NativePublishBatch) -> GrpcRequest[Placed]:
    request = pb.PublishBatchRequest(topic=asked.topic, partition=asked.partition, batch=asked.batch)
    return GrpcRequest(
        f"{_SERVICES}Batches/PublishBatch",
        request.SerializeToString(),
        lambda data: Placed(asked.partition, pb.PublishBatchResponse.FromString(data).base_offset),
    )


def _fetch_batches(asked: NativeFetchBatches) -> GrpcRequest[tuple[bytes, int]]:
    request = pb.FetchBatchesRequest(
        topic=asked.topic,
        partition=asked.partition,
        offset=asked.offset,
        bytes_max=asked.bytes_max,
        wait_ms=asked.wait_ms,
    )

    def read(data: bytes) -> tuple[bytes, int]:
        answer = pb.FetchBatchesResponse.FromString(data)
        return answer.batches, answer.next_offset

    return GrpcRequest(f"{_SERVICES}Batches/FetchBatches", request.SerializeToString(), read)


_NATIVE: Final[dict[type, Callable[[Any], GrpcRequest[Any] | None]]] = {
    NativePublish: _publish,
    NativePoll: _poll,
    NativeAck: _ack,
    NativePublishBatch: _publish_batch,
    NativeFetchBatches: _fetch_batches,
}

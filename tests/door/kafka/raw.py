"""Kafka's protocol spoken by hand: one socket, one request at a time or many, nothing that helps behind one's back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import time
import uuid
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import msgspec

from goqueue.format.batch import HEADER_BYTES, assemble, read_header
from goqueue.format.records import NewRecord, build
from goqueue.wire.api import RequestHeader
from goqueue.wire.messages import (
    consumer_group_heartbeat as beats,
)
from goqueue.wire.messages import (
    create_topics,
    fetch,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
)
from goqueue.wire.shape import ClientApi
from tests.door.kafka.leaders import BY_PARTITION, place_of
from tests.one_node import NODES
from tests.wire.client import APIS, encode_request_frame

API_VERSIONS = 18
APIS_BY_NAME: Mapping[str, ClientApi] = {api.name: api for api in APIS.values()}
WAIT_S = 20


def api_of(request: object) -> ClientApi:
    return APIS_BY_NAME[type(request).__name__.removesuffix("Request")]


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def free_port() -> int:
    """A port nobody listens at, for a node that has to come back at the same place."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def request_bytes(request: object, version: int, correlation_id: int, client_id: str | None = "raw") -> bytes:
    api = api_of(request)
    header = RequestHeader(api.key, version, correlation_id, client_id)
    return b"".join(encode_request_frame(api, header, request))


def response_of(api: ClientApi, version: int, frame: bytes) -> tuple[int, Any]:
    """The correlation id and the body."""
    (correlation_id,) = struct.unpack_from(">i", frame)
    at = 5 if version >= api.flexible_from and api.key != API_VERSIONS else 4
    return correlation_id, api.decode_response(version, memoryview(frame), at)


class Line:
    """One connection. In a run against a cluster a request goes to the node that it is for, over one more."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.create_connection(host_and_port(address), timeout=WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = itertools.count(1)
        self._sent: dict[int, tuple[ClientApi, int]] = {}
        self._others: dict[str, Line] = {}
        self._order: deque[Line] = deque()  # who answers next
        self._last: dict[str, str] = {}  # where requests of a session go that name nothing

    def ask(self, request: object, version: int | None = None) -> Any:
        """Sends and waits for the answer."""
        number = self.send(request, version)
        told, response = self.receive()
        assert told == number
        return response

    def send(self, request: object, version: int | None = None) -> int:
        line = self._toward(request) if NODES else self
        if not (isinstance(request, produce.ProduceRequest) and request.acks == 0):
            self._order.append(line)
        return line._send(request, version, next(self._numbers))

    def receive(self) -> tuple[int, Any]:
        """The next answer, whosever it is."""
        return self._order.popleft()._receive()

    def _toward(self, request: object) -> Line:
        name = api_of(request).name
        kind = name.removesuffix("Acknowledge").removesuffix("Fetch")
        address = place_of(name, request, self._ask_here) or self._last.get(kind, self.address)
        if name in BY_PARTITION:
            self._last[kind] = address
        if address == self.address:
            return self
        if address not in self._others:
            self._others[address] = Line(address)
        return self._others[address]

    def _ask_here(self, request: object, version: int | None = None) -> Any:
        """For who leads: of a line of its own, since answers may be due on this one."""
        with Line(self.address) as line:
            line._send(request, version, 1)
            return line._receive()[1]

    def _send(self, request: object, version: int | None, number: int) -> int:
        api = api_of(request)
        version = api.max_version if version is None else version
        self._sent[number] = (api, version)
        self.socket.sendall(request_bytes(request, version, number))
        return number

    def _receive(self) -> tuple[int, Any]:
        frame = self.receive_frame()
        (number,) = struct.unpack_from(">i", frame)
        return response_of(*self._sent.pop(number), frame)

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            data = self.socket.recv(count - len(found))
            if not data:
                raise ConnectionError("closed by the node")
            found += data
        return found

    def is_closed_by_the_node(self) -> bool:
        """Waits for the end of the stream; false if bytes come instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()
        for other in self._others.values():
            other.close()

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncLine:
    """One connection among many."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count(1)

    @classmethod
    async def open(cls, address: str) -> AsyncLine:
        return cls(*await asyncio.open_connection(*host_and_port(address)))

    async def ask(self, request: object, version: int | None = None) -> Any:
        api = api_of(request)
        version = api.max_version if version is None else version
        self._writer.write(request_bytes(request, version, next(self._numbers)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return response_of(api, version, await self._reader.readexactly(size))[1]

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


# --- requests ------------------------------------------------------------------------------------------------


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    codec: int = 0,
    timestamp_ms: int | None = None,
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """One encoded batch; `producer` is an id, an epoch and the first sequence."""
    now = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    made = build([NewRecord(key, value, (), now) for value in values], codec)
    if producer is None:
        return made
    producer_id, epoch, sequence = producer
    header = msgspec.structs.replace(
        read_header(made), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    return assemble(header, memoryview(made)[HEADER_BYTES:])


def produce_to(topic: str, partition: int, records: bytes | None, acks: int = -1) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(partition, records)
    return produce.ProduceRequest(None, acks, 5000, [produce.TopicProduceData(name=topic, partition_data=[data])])


def fetch_from(
    topic: str, partition: int, offset: int, epoch: int = -1, topic_id: bytes = bytes(16), max_wait_ms: int = 0
) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition, epoch, offset, partition_max_bytes=1 << 20)
    wanted = fetch.FetchTopic(topic, topic_id, [part])
    return fetch.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[wanted])


def offsets_of(topic: str, partition: int, timestamp: int, epoch: int = -1) -> list_offsets.ListOffsetsRequest:
    part = list_offsets.ListOffsetsPartition(partition, epoch, timestamp)
    return list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, [part])])


def new_topic(
    name: str, partitions: int = 1, replicas: int = 1, config: Mapping[str, str | None] | None = None
) -> create_topics.CreateTopicsRequest:
    configs = [create_topics.CreatableTopicConfig(key, value) for key, value in (config or {}).items()]
    return create_topics.CreateTopicsRequest([create_topics.CreatableTopic(name, partitions, replicas, (), configs)])


def metadata_of(*names: str, create: bool = False) -> metadata.MetadataRequest:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in names], create)


def join(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: Mapping[str, bytes] | None = None,
    protocol_type: str = "consumer",
    session_ms: int = 30_000,
) -> join_group.JoinGroupRequest:
    spoken = {"range": b"\0"} if protocols is None else protocols
    return join_group.JoinGroupRequest(
        group,
        session_ms,
        60_000,
        member_id,
        instance_id,
        protocol_type,
        [join_group.JoinGroupRequestProtocol(name, data) for name, data in spoken.items()],
    )


def sync(
    group: str, generation: int, member_id: str, given: Mapping[str, bytes] | None = None, protocol: str = "range"
) -> sync_group.SyncGroupRequest:
    assigned = [sync_group.SyncGroupRequestAssignment(name, data) for name, data in (given or {}).items()]
    return sync_group.SyncGroupRequest(group, generation, member_id, None, "consumer", protocol, assigned)


def leave(group: str, *member_ids: str) -> leave_group.LeaveGroupRequest:
    return leave_group.LeaveGroupRequest(group, members=[leave_group.MemberIdentity(one) for one in member_ids])


def commit(
    group: str, topic: str, partition: int, offset: int, member_id: str = "", generation: int = -1
) -> offset_commit.OffsetCommitRequest:
    """For versions below 10, which name topics."""
    part = offset_commit.OffsetCommitRequestPartition(partition, offset)
    wanted = offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[part])
    return offset_commit.OffsetCommitRequest(group, generation, member_id, None, -1, [wanted])


def committed(group: str, topic: str, partition: int) -> offset_fetch.OffsetFetchRequest:
    """For version 9."""
    wanted = offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group, topics=[wanted])])


def beat(
    group: str,
    member_id: str,
    epoch: int,
    topics: list[str] | None = None,
    owned: Mapping[bytes, list[int]] | None = None,
    **more: Any,
) -> beats.ConsumerGroupHeartbeatRequest:
    parts = None if owned is None else [beats.TopicPartitions(one, numbers) for one, numbers in owned.items()]
    return beats.ConsumerGroupHeartbeatRequest(
        group,
        member_id,
        epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=topics,
        topic_partitions=parts,
        **more,
    )

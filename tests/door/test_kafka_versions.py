"""Every advertised version of every API is really answered, so that old and new clients find what was promised."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.format.records import NewRecord, build, decode
from goqueue.wire.api import RequestHeader
from goqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from goqueue.wire.messages.metadata import MetadataRequest
from goqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from goqueue.wire.shape import ClientApi
from tests.one_of_cluster import a_node
from tests.wire.client import APIS, encode_request_frame
from tools.kafka_codec.model import snake

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("versions") / "data") as running:
        httpx.post(f"{running.url}/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        yield running


class Line:
    """A connection that asks and waits for the answer."""

    def __init__(self, node: NodeProcess) -> None:
        host, _, port = node.kafka.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._answers = self._socket.makefile("rb")

    def ask(self, api: ClientApi, version: int, request: Any) -> Any:
        self._socket.sendall(b"".join(encode_request_frame(api, RequestHeader(api.key, version, 7, "old"), request)))
        size = self._answers.read(4)
        assert len(size) == 4, f"{api.name} version {version}: the connection was closed"
        body = self._answers.read(int.from_bytes(size, "big"))
        assert body[:4] == (7).to_bytes(4, "big")
        flexible = version >= api.flexible_from and api.key != API_VERSIONS
        return api.decode_response(version, memoryview(body), 5 if flexible else 4)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


@pytest.fixture
def line(node: NodeProcess) -> Iterator[Line]:
    made = Line(node)
    yield made
    made.close()


def advertised(line: Line) -> dict[int, range]:
    found = line.ask(APIS[API_VERSIONS], 0, _empty(APIS[API_VERSIONS]))
    return {
        one.api_key: range(max(one.min_version, APIS[one.api_key].min_version), one.max_version + 1)
        for one in found.api_keys
    }


def _empty(api: ClientApi) -> Any:
    module = import_module(f"goqueue.wire.messages.{snake(api.name)}")
    return getattr(module, f"{api.name}Request")()


def test_every_advertised_version_of_every_api_is_answered(line: Line) -> None:
    asked = 0
    for key, versions in advertised(line).items():
        for version in versions:
            request = ProduceRequest(acks=-1) if key == PRODUCE else _empty(APIS[key])
            line.ask(APIS[key], version, request)
            asked += 1
    assert asked > 130


def test_a_message_goes_through_every_version_of_produce_and_fetch(line: Line) -> None:
    topics = line.ask(APIS[METADATA], 12, MetadataRequest(topics=None)).topics
    (topic,) = [one for one in topics if one.name == "t"]
    versions = advertised(line)
    offset = 0
    for version in versions[PRODUCE]:
        batch = build([NewRecord(b"k", f"v{version}".encode(), (("h", b"1"),), 1_000)])
        data = TopicProduceData(
            name="t", topic_id=topic.topic_id, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        answer = line.ask(APIS[PRODUCE], version, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))
        (stored,) = answer.responses[0].partition_responses
        assert (stored.error_code, stored.base_offset) == (0, offset)
        offset += 1
    for version in versions[FETCH]:
        part = FetchPartition(partition=0, fetch_offset=offset - 1, partition_max_bytes=100_000)
        asked = FetchTopic(topic="t", topic_id=topic.topic_id, partitions=[part])
        answer = line.ask(APIS[FETCH], version, FetchRequest(max_wait_ms=100, min_bytes=1, topics=[asked]))
        (found_part,) = answer.responses[0].partitions
        assert (found_part.error_code, found_part.high_watermark) == (0, offset)
        (record,) = decode(bytes(found_part.records))
        assert (record.offset, record.value) == (offset - 1, f"v{max(versions[PRODUCE])}".encode())

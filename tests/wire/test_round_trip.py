"""What we encode we decode again, for every API and version, and nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.wire.errors import WireError
from tests.wire.client import APIS
from tests.wire.samples import CASES, DEFINITIONS, encoded, functions, sample, versions
from tools.kafka_codec.model import snake

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize(("key", "kind"), CASES)
@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_a_message_comes_back_as_it_was(key: int, kind: str, seed: int) -> None:
    api = APIS[key]
    for version in versions(api):
        message = sample(api, kind, version, seed)
        data = b"in front" + encoded(api, kind, version, message)
        assert functions(api, kind)[1](version, memoryview(data), 8) == message


@pytest.mark.parametrize(("key", "kind"), CASES)
def test_a_message_of_defaults_can_be_built_and_sent_in_every_version(key: int, kind: str) -> None:
    api = APIS[key]
    empty = getattr(import_module(f"goqueue.wire.messages.{snake(api.name)}"), api.name + kind)()
    for version in versions(api):
        assert functions(api, kind)[1](version, memoryview(encoded(api, kind, version, empty)), 0) is not None


@pytest.mark.parametrize(("key", "kind"), CASES)
def test_every_shorter_message_is_refused_and_every_longer_response(key: int, kind: str) -> None:
    api = APIS[key]
    for version in versions(api):
        data = encoded(api, kind, version, sample(api, kind, version, 2))
        decode = functions(api, kind)[1]
        for cut in {*range(min(len(data), 40)), *range(0, len(data), max(1, len(data) // 20))}:
            with pytest.raises(WireError):
                decode(version, memoryview(data)[:cut], 0)
        if kind == "Response":
            with pytest.raises(WireError, match="1 bytes are left"):
                decode(version, memoryview(data + b"\0"), 0)


@pytest.mark.parametrize(("key", "kind"), CASES)
def test_versions_outside_the_range_are_refused(key: int, kind: str) -> None:
    api = APIS[key]
    encode, decode = functions(api, kind)
    empty = getattr(import_module(f"goqueue.wire.messages.{snake(api.name)}"), api.name + kind)()
    for version in (-1, api.min_version - 1, api.max_version + 1):
        with pytest.raises(WireError, match="has no version"):
            decode(version, memoryview(b""), 0)
        with pytest.raises(WireError, match="has no version"):
            encode(version, empty)


def test_records_are_neither_copied_in_nor_out() -> None:
    from goqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    records = b"r" * 1000
    request = ProduceRequest(topic_data=(TopicProduceData("t", partition_data=(PartitionProduceData(0, records),)),))
    for version in versions(APIS[0]):
        buffers = APIS[0].encode_request(version, request)
        assert any(each is records for each in buffers)
        frame = b"".join(buffers)
        view = APIS[0].decode_request(version, memoryview(frame), 0).topic_data[0].partition_data[0].records
        assert isinstance(view, memoryview)
        assert view.obj is frame
        assert view == records


def test_null_where_a_version_has_none_is_refused_on_both_sides() -> None:
    from goqueue.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

    nameless = MetadataResponse(topics=[MetadataResponseTopic(name=None)])
    assert APIS[3].encode_response(12, nameless)
    with pytest.raises(WireError, match="name may not be null"):
        APIS[3].encode_response(11, nameless)
    with pytest.raises(WireError, match="an array may not be null"):
        APIS[3].decode_request(0, memoryview(b"\xff\xff\xff\xff"), 0)
    assert APIS[3].decode_request(1, memoryview(b"\xff\xff\xff\xff"), 0).topics is None


def test_unknown_tags_are_skipped_and_known_ones_must_have_their_size() -> None:
    decode = APIS[18].decode_request
    body = b"\x03go\x021"
    assert decode(3, memoryview(body + b"\x00"), 0) == decode(3, memoryview(body + b"\x02\x05\x01x\xc8\x01\x02yz"), 0)
    fetched = b"".join(APIS[18].encode_response(3, _api_versions(finalized_features_epoch=9)))
    assert APIS[18].decode_response(3, memoryview(fetched), 0).finalized_features_epoch == 9
    assert fetched.endswith(b"\x01\x01\x08" + (9).to_bytes(8, "big"))
    short = fetched.replace(b"\x01\x01\x08", b"\x01\x01\x07")
    with pytest.raises(WireError):
        APIS[18].decode_response(3, memoryview(short), 0)


def _api_versions(**fields: Any) -> msgspec.Struct:
    from goqueue.wire.messages.api_versions import ApiVersionsResponse

    return ApiVersionsResponse(**fields)


def test_every_needed_api_is_there() -> None:
    admin = [32, 33, 35, 36, 37, *range(42, 52), 60, 61, 65, 66]
    wanted = [*range(4), *range(8, 32), *admin, 68, 69, *range(74, 80), 90, 91, 92]
    assert sorted(APIS) == wanted
    for (key, kind), definition in DEFINITIONS.items():
        assert definition.name == APIS[key].name + kind

"""Headers and frames as clients write and read them."""

from __future__ import annotations

import pytest

from goqueue.wire.api import RequestHeader, decode_header
from goqueue.wire.errors import WireError
from goqueue.wire.frames import encode_response_frame
from goqueue.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from goqueue.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.wire.client import APIS, encode_request_frame
from tests.wire.kafka_python import MESSAGES as KAFKA_PYTHON
from tests.wire.samples import sample, versions


@pytest.mark.parametrize("key", sorted(APIS))
@pytest.mark.parametrize("client_id", [None, "", "grüße"])
def test_a_request_frame_is_read_back(key: int, client_id: str | None) -> None:
    api = APIS[key]
    for version in versions(api):
        header = RequestHeader(key, version, -5, client_id)
        request = sample(api, "Request", version, 3)
        frame = b"".join(encode_request_frame(api, header, request))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        found, at = decode_header(memoryview(frame)[4:])
        assert found == header
        assert api.decode_request(version, memoryview(frame)[4:], at) == request


@pytest.mark.parametrize("version", range(5))
def test_another_client_s_api_versions_request_is_read(version: int) -> None:
    request = KAFKA_PYTHON["ApiVersionsRequest"](
        version=version, client_software_name="other", client_software_version="1"
    )
    request.with_header(correlation_id=9, client_id="them")
    frame = memoryview(request.encode(header=True))
    header, at = decode_header(frame)
    assert header == RequestHeader(18, version, 9, "them")
    expected = ApiVersionsRequest("other", "1") if version >= 3 else ApiVersionsRequest()
    assert APIS[18].decode_request(version, frame, at) == expected


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_has_the_old_header(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(0, 3, 13)])
    frame = b"".join(encode_response_frame(APIS[18], version, 77, response))
    assert frame[:8] == (len(frame) - 4).to_bytes(4, "big") + (77).to_bytes(4, "big")
    assert APIS[18].decode_response(version, memoryview(frame), 8) == response


def test_other_answers_have_an_empty_list_of_tags_when_flexible() -> None:
    response = MetadataResponse(brokers=[], topics=[])
    old, new = (b"".join(encode_response_frame(APIS[3], version, 1, response)) for version in (8, 9))
    assert APIS[3].decode_response(8, memoryview(old), 8) == response
    assert new[8] == 0
    assert APIS[3].decode_response(9, memoryview(new), 9) == response


def test_a_version_we_do_not_know_still_has_a_header() -> None:
    frame = b"\0\x12\0\x63\0\0\0\x07\0\x01c\0whatever"
    assert decode_header(memoryview(frame)) == (RequestHeader(18, 99, 7, "c"), 12)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(WireError, match="key 999"):
        decode_header(memoryview(b"\x03\xe7\0\0\0\0\0\x01\xff\xff"))


def test_a_client_id_past_the_end_is_refused() -> None:
    with pytest.raises(WireError, match="ends inside"):
        decode_header(memoryview(b"\0\x03\0\0\0\0\0\x01\0\x09abc"))


def test_a_header_s_tags_are_skipped() -> None:
    head = b"\0\x03\0\x0c\0\0\0\x01\xff\xff" + b"\x01\x00\x03abc"
    body = b"".join(APIS[3].encode_request(12, MetadataRequest()))
    header, at = decode_header(memoryview(head + body))
    assert (header.client_id, at) == (None, len(head))

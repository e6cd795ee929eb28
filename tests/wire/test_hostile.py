"""Bytes that lie: every decoder answers with `WireError`, soon, and without reserving what they claim."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.wire.api import RequestHeader, decode_header
from goqueue.wire.errors import WireError
from tests.wire.client import APIS, encode_request_frame
from tests.wire.samples import CASES, encoded, functions, sample, versions


@pytest.mark.parametrize(("key", "kind"), CASES)
@settings(max_examples=10, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(key: int, kind: str, data: bytes) -> None:
    api = APIS[key]
    for version in versions(api):
        _decode(key, kind, version, data)


@pytest.mark.parametrize(("key", "kind"), CASES)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_messages(key: int, kind: str, seed: int) -> None:
    api = APIS[key]
    random = Random(seed)
    for version in versions(api):
        data = bytearray(encoded(api, kind, version, sample(api, kind, version, seed)))
        for _ in range(random.randint(1, 4)):
            _damage(data, random)
        _decode(key, kind, version, bytes(data))


def _damage(data: bytearray, random: Random) -> None:
    at = random.randint(0, min(len(data), 400))
    match random.randrange(4):
        case 0:
            data[at : at + 1] = bytes((random.randrange(256),))
        case 1:
            data[at : at + 4] = random.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"))
        case 2:
            data[at:at] = random.choice((b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x80" * 9))
        case _:
            del data[at : at + random.randint(1, 9)]


def _decode(key: int, kind: str, version: int, data: bytes) -> None:
    with suppress(WireError):
        functions(APIS[key], kind)[1](version, memoryview(data), 0)


@pytest.mark.parametrize(("key", "kind"), CASES)
def test_a_huge_count_reserves_nothing(key: int, kind: str) -> None:
    api = APIS[key]
    for version in versions(api):
        data = encoded(api, kind, version, sample(api, kind, version, 7))[:300]
        for at in range(0, len(data), 3):
            for lie in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f"):
                _decode(key, kind, version, data[:at] + lie + data[at + 4 :])


def test_memory_stays_within_a_few_times_the_frame() -> None:
    lie = b"\xff" * 12 + b"\x7f\xff\xff\xff" + bytes(10_000)
    tracemalloc.start()
    try:
        for key, kind in CASES:
            for version in versions(APIS[key]):
                for start in range(16):
                    _decode(key, kind, version, lie[start:])
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=60))
@example(b"")
@example(b"\0\x12\0\x03\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff")
@settings(max_examples=300, deadline=None)
def test_random_headers(data: bytes) -> None:
    try:
        header, at = decode_header(memoryview(data))
    except WireError:
        return
    assert header.api_key in APIS
    assert at <= len(data)


@given(st.integers(0, 2**32), st.binary(min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_junk_behind_a_whole_request_changes_nothing(seed: int, junk: bytes) -> None:
    api = Random(seed).choice(list(APIS.values()))
    header = RequestHeader(api.key, api.max_version, 1, "c")
    request = sample(api, "Request", api.max_version, seed)
    frame = memoryview(b"".join(encode_request_frame(api, header, request)) + junk)[4:]
    _, at = decode_header(frame)
    assert api.decode_request(api.max_version, frame, at) == api.decode_request(
        api.max_version, frame[: -len(junk)], at
    )

"""Very many damaged requests through framer, header and decoder; GOQUEUE_FUZZ_CASES=1000000 says how many."""

from __future__ import annotations

import os
import tracemalloc
from random import Random

import pytest

from goqueue.wire.api import RequestHeader, decode_header
from goqueue.wire.errors import WireError
from goqueue.wire.framer import Framer
from tests.long import LONG
from tests.wire.client import APIS, encode_request_frame
from tests.wire.samples import sample, versions
from tests.wire.test_hostile import _damage

CASES = int(os.environ.get("GOQUEUE_FUZZ_CASES", "100000" if LONG else "30000"))
SEEDS_PER_VERSION = 3
FRAME_BYTES_MAX = 1 << 20


def whole_requests() -> list[bytes]:
    """A few requests of every version of every API, as a client sends them."""
    found: list[bytes] = []
    for api in APIS.values():
        for version in versions(api):
            for seed in range(SEEDS_PER_VERSION):
                header = RequestHeader(api.key, version, seed, "fuzz")
                found.append(b"".join(encode_request_frame(api, header, sample(api, "Request", version, seed))))
    return found


def serve(data: bytes, chance: Random) -> int:
    """Feeds bytes as a connection would, in pieces; the only error there may be is the known one."""
    framer = Framer(FRAME_BYTES_MAX)
    at = decoded = 0
    try:
        while at < len(data):
            step = chance.randint(1, len(data))
            for frame in framer.feed(data[at : at + step]):
                header, start = decode_header(frame)
                APIS[header.api_key].decode_request(header.api_version, frame, start)
                decoded += 1
            at += step
    except WireError:
        pass
    assert framer.buffered <= FRAME_BYTES_MAX
    return decoded


@pytest.mark.slow
def test_damaged_requests_end_in_the_known_error_and_bounded_memory() -> None:
    chance = Random(20260101)
    requests = whole_requests()
    assert sum(serve(request, chance) for request in requests) == len(requests)
    tracemalloc.start()
    for number in range(CASES):
        data = bytearray(requests[number % len(requests)])
        if number % 5 == 0:
            data[4:] = chance.randbytes(chance.randint(0, 80))
        for _ in range(chance.randint(1, 4)):
            _damage(data, chance)
        serve(bytes(data), chance)
        if number == 1000:
            tracemalloc.reset_peak()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * FRAME_BYTES_MAX

"""Heads of requests: bounded in bytes, number and time, and never read in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.http.raw import Line, counted, refused
from tests.waiting import wait_until

SETTINGS = {
    "REQUEST_LINE_BYTES_MAX": "8KiB",
    "HEAD_BYTES_MAX": "16KiB",
    "HEADERS_MAX": "20",
    "HEAD_MS": "300ms",
    "IDLE_MS": "400ms",
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    settings = {f"GOQUEUE_{door}_{name}": value for door in ("REST", "SQS") for name, value in SETTINGS.items()}
    with NodeProcess(tmp_path_factory.mktemp("strict") / "data", settings=settings) as running:
        yield running


@pytest.fixture(params=["rest", "sqs"])
def door(request: pytest.FixtureRequest, strict: NodeProcess) -> tuple[str, str]:
    return request.param, strict.url if request.param == "rest" else strict.sqs


TOO_LARGE = {"rest": "head-too-large", "sqs": "RequestEntityTooLargeException"}


def test_an_endless_header_is_refused_while_it_comes(strict: NodeProcess, door: tuple[str, str]) -> None:
    before = refused(strict, door[0], "head-bytes")
    with Line(door[1]) as line:
        line.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 200_000)
        status, code = line.problem()
        assert (status, code) == (431 if door[0] == "rest" else 413, TOO_LARGE[door[0]])
        assert line.read_to_end() == b""
    counted(strict, door[0], "head-bytes", before + 1)


def test_many_headers_are_refused(strict: NodeProcess, door: tuple[str, str]) -> None:
    with Line(door[1]) as line:
        line.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"A: b\r\n" * 30, b"\r\n")
        assert line.problem()[1] == TOO_LARGE[door[0]]
    counted(strict, door[0], "headers")


def test_a_head_that_fits_is_served(strict: NodeProcess) -> None:
    with Line(strict.url) as line:
        line.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"A: %s\r\n" % (b"b" * 700) * 18, b"\r\n")
        assert line.answer()[0] == 200


@pytest.mark.parametrize("query", [b"x" * 9_000, b"&".join(b"a%d=1" % number for number in range(100_000))])
def test_a_long_request_line_is_refused(strict: NodeProcess, query: bytes) -> None:
    with Line(strict.url) as line:
        line.send(b"GET /topics?" + query + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.problem() == (414, "uri-too-long")
    counted(strict, "rest", "request-line-bytes")


def test_empty_lines_before_a_request_count_as_its_head(strict: NodeProcess) -> None:
    with Line(strict.url) as line:
        line.send(b"\r\n" * 20_000)
        assert line.problem() == (431, "head-too-large")


def test_a_head_that_does_not_end_is_timed_out(strict: NodeProcess, door: tuple[str, str]) -> None:
    before = refused(strict, door[0], "head-time")
    with Line(door[1]) as line:
        line.send(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert line.problem()[0] == (408 if door[0] == "rest" else 503)
        assert line.read_to_end() == b""
    counted(strict, door[0], "head-time", before + 1)


def test_a_head_that_comes_byte_by_byte_has_no_longer(strict: NodeProcess) -> None:
    with Line(strict.url) as line:
        line.send(b"GET /healthz HTTP/1.1\r\n")
        drip = cycle([b"X", b":", b"y", b"\r", b"\n"])
        wait_until(lambda: bool(line.send(next(drip))) and refused(strict, "rest", "head-time") >= 1)
        assert b" 408 " in line.read_to_end()


def test_a_connection_without_a_request_is_closed(strict: NodeProcess, door: tuple[str, str]) -> None:
    with Line(door[1]) as line:
        assert line.read_to_end() == b""
    counted(strict, door[0], "idle-time")


def test_a_connection_that_had_its_request_is_closed_when_it_idles(strict: NodeProcess) -> None:
    with Line(strict.url) as line:
        line.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer()[0] == 200
        assert line.read_to_end() == b""


def test_a_long_poll_is_not_idle(strict: NodeProcess) -> None:
    httpx.post(f"{strict.url}/topics", json={"name": "quiet"}).raise_for_status()
    answer = httpx.get(f"{strict.url}/topics/quiet/messages", params={"timeout": "1500ms"}, timeout=30)
    assert answer.status_code == 200


AMBIGUOUS = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "two equal lengths": b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": b"Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": b"Content-Length: +5\r\n\r\nhello",
    "a huge length": b"Content-Length: 99999999999999999999999\r\n\r\nhello",
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks that are not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Content-Length : 5\r\n\r\nhello",
    "a folded header": b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a bare line feed": b"X: a\nContent-Length: 0\r\n\r\n",
    "a null byte": b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "a bad chunk size": b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    "a chunk size that overflows": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello",
    "a chunk longer than it says": b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused(strict: NodeProcess, door: tuple[str, str], what: str) -> None:
    """Else what one reader takes for a body another takes for a request."""
    with Line(door[1]) as line:
        smuggled = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
        line.send(b"POST /topics HTTP/1.1\r\nHost: localhost\r\n" + AMBIGUOUS[what] + smuggled)
        status, _, body = line.answer()
        assert status == 400, body
        assert line.read_to_end() == b"", "and nothing behind it is answered"


def test_websockets_and_tunnels_are_refused(strict: NodeProcess, door: tuple[str, str]) -> None:
    websocket = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13"
    for head in (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % websocket,
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    ):
        with Line(door[1]) as line:
            line.send(head, b"\x81\x05hello")
            assert line.answer()[0] == 400
            assert line.read_to_end() == b""


def test_an_offer_of_http2_is_passed_over_and_the_body_is_read(strict: NodeProcess) -> None:
    """Java's HttpClient makes it with every first request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    body = b'{"name":"offered","num_partitions":1}'
    head = b"POST /topics HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (offer, len(body))
    with Line(strict.url) as line:
        line.send(head + body[:10])
        line.send(body[10:])
        assert line.answer()[0] == 201
        line.send(b"GET /topics/offered HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % offer)
        assert line.answer()[0] == 200
        line.send(b"GET /topics/offered HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer()[0] == 200

"""Who may ask: requests to a known host, from programs and from this node's own page."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.http.raw import Line, counted

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
REBOUND = ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "2130706433", "x"]
OWN = ["localhost", "LOCALHOST:1", "localhost.", "api.localhost:80", "127.0.0.1", "10.1.2.3:8080", "[::1]:8080"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("gate") / "data") as node:
        httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
        yield node


@pytest.mark.parametrize("host", REBOUND)
def test_a_name_that_is_not_ours_is_refused_whatever_is_asked(running: NodeProcess, host: str) -> None:
    origin = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    for method, path in [("GET", "/topics"), ("POST", "/topics/t/messages"), ("DELETE", "/topics/t"), ("GET", "/")]:
        for headers in ({"Host": host}, origin):
            answer = httpx.request(method, running.url + path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (421, "unknown-host")
            assert "rest.allowed_hosts" in answer.json()["detail"]
    answer = httpx.get(running.sqs, params={"Action": "ListQueues"}, headers={"Host": host})
    assert answer.status_code == 403 and "sqs.allowed_hosts" in answer.text
    counted(running, "rest", "unknown-host")
    counted(running, "sqs", "unknown-host")


@pytest.mark.parametrize("host", [*OWN, socket.gethostname()])
def test_addresses_and_names_of_this_machine_are_served(running: NodeProcess, host: str) -> None:
    assert httpx.get(f"{running.url}/topics", headers={"Host": host}).status_code == 200
    assert httpx.get(running.sqs, params={"Action": "ListQueues"}, headers={"Host": host}).status_code == 200


def test_other_names_are_allowed_by_the_setting(tmp_path: Path) -> None:
    names = {f"GOQUEUE_{door}_ALLOWED_HOSTS": "goqueue, *.example.org" for door in ("REST", "SQS")}
    with NodeProcess(tmp_path / "data", settings=names) as node:
        for host, status in {
            "goqueue:8080": 200,
            "mq.example.org": 200,
            "a.b.example.org": 200,
            "example.org": 421,
        }.items():
            assert httpx.get(f"{node.url}/topics", headers={"Host": host}).status_code == status
        answer = httpx.get(node.sqs, params={"Action": "ListQueues"}, headers={"Host": "goqueue:9324"})
        assert answer.status_code == 200
        proxied = {"Host": "10.0.0.1", "Origin": "https://goqueue"}
        assert httpx.post(f"{node.url}/topics", json={"name": "t"}, headers=proxied).status_code == 201


@pytest.mark.parametrize("host", [b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: a b\r\n", b"Host: x@y\r\n"])
def test_a_request_has_exactly_one_host(running: NodeProcess, host: bytes) -> None:
    for url in (running.url, running.sqs):
        with Line(url) as line:
            line.send(b"GET /topics HTTP/1.1\r\n" + host + b"\r\n")
            assert line.answer()[0] == 400


def test_a_host_in_the_request_line_is_the_one_of_the_header(running: NodeProcess) -> None:
    with Line(running.url) as line:
        line.send(b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer()[0] == 200
        line.send(b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.problem() == (400, "malformed-request")


def test_an_old_client_without_a_host_is_served(running: NodeProcess) -> None:
    with Line(running.url) as line:
        line.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert line.answer()[0] == 200


FOREIGN: list[dict[str, str]] = [
    {"Origin": "https://elsewhere.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", ""])
def test_a_page_of_another_site_may_not_write(running: NodeProcess, headers: dict[str, str], kind: str) -> None:
    sent = {**headers, "Content-Type": kind}
    body = b'{"messages":[{"value":"v"}]}'
    answer = httpx.post(f"{running.url}/topics/t/messages", content=body, headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign-origin")
    answer = httpx.post(running.sqs, content=b"Action=CreateQueue&QueueName=q", headers=sent)
    assert answer.status_code == 403


def poll(node: NodeProcess, headers: dict[str, str]) -> tuple[int, Any]:
    url = f"{node.url}/groups/g/poll"
    answer = httpx.get(url, params={"member_id": "m", "generation": 1}, headers=headers)
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize(
    "headers", [*FOREIGN, {"User-Agent": BROWSER}, {"User-Agent": BROWSER, "Referer": "http://a/"}]
)
def test_a_page_of_another_site_may_not_consume(running: NodeProcess, headers: dict[str, str]) -> None:
    assert poll(running, headers) == (403, "foreign-origin")
    answer = httpx.get(running.sqs, params={"Action": "ListQueues"}, headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "headers", [{}, {"User-Agent": "curl/8"}, {"User-Agent": BROWSER, "Sec-Fetch-Site": "same-origin"}]
)
def test_programs_and_our_own_page_may(running: NodeProcess, headers: dict[str, str]) -> None:
    assert poll(running, headers) == (404, "unknown-group")
    assert httpx.get(running.sqs, params={"Action": "ListQueues"}, headers=headers).status_code == 200


def test_a_link_from_another_site_leads_to_the_page(running: NodeProcess) -> None:
    followed = {"User-Agent": BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert httpx.get(f"{running.url}/docs", headers=followed).status_code == 200
    embedded = {"User-Agent": BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert httpx.get(f"{running.url}/topics/t/tail", headers=embedded).status_code == 403

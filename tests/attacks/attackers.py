"""`python -m tests.attacks.attackers REST KAFKA SQS SECONDS [NAME ...]`: all attackers at once, or some.

Each is a thread, and ends in time. One line of JSON on stdout: how often each struck. One that is cut off comes again.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

from tests.attacks import bombs

PAUSE_S = 0.05  # between two strikes of one attacker
HELD_MAX = 40  # connections that one attacker holds open


class Target:
    """The node's doors, and the time at which the attack ends."""

    def __init__(self, rest: str, kafka: str, sqs: str, seconds: float) -> None:
        self.rest, self.sqs = _address(rest), _address(sqs)
        host, _, port = kafka.rpartition(":")
        self.kafka = (host, int(port))
        self._until = time.monotonic() + seconds
        self._over = threading.Event()

    def seconds_left(self) -> float:
        return self._until - time.monotonic()

    def pause(self) -> None:
        self._over.wait(min(PAUSE_S, max(0.0, self.seconds_left())))

    def hold(self, seconds: float) -> None:
        self._over.wait(min(seconds, max(0.0, self.seconds_left())))


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=5)


def ask(address: tuple[str, int], method: str, path: str, body: str | bytes = b"", timeout: float = 10) -> bytes:
    line = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        line.request(method, path, body or None, {"Content-Type": "application/json"})
        return line.getresponse().read()
    finally:
        line.close()


# --- Kafka's door --------------------------------------------------------------------------------------------


def send_and_wait(target: Target, frame: bytes) -> None:
    """Until an answer begins or the node closes."""
    with connect(target.kafka) as line:
        line.sendall(frame)
        line.settimeout(3)
        line.recv(4)


def names(target: Target) -> None:
    send_and_wait(target, bombs.many_names(2_000_000))


def empty_partitions(target: Target) -> None:
    send_and_wait(target, bombs.many_empty_partitions(2_000_000))


def fetched_partitions(target: Target) -> None:
    send_and_wait(target, bombs.many_fetched_partitions(500_000))


def frames_behind_a_poll(target: Target) -> None:
    frame = bombs.many_names(300_000)
    with connect(target.kafka) as line:
        line.sendall(bombs.fetch("empty", 20_000, 1 << 30, 1 << 20))
        line.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(60):
                line.sendall(frame)
        target.hold(1)


def unread_fetches(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            line = stack.enter_context(connect(target.kafka))
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(20):
                line.sendall(bombs.fetch("big", 0, 0, 50 << 20))
        target.hold(1)


def poison(target: Target) -> None:
    """Batches that readers stumble over; whether or not they are taken, the readers below come by."""
    for batch in (
        bombs.record_bomb(3_000_000),
        bombs.inflating_bomb(200),
        bombs.malformed_batch(),
        bombs.header_bombs(),
    ):
        for topic in ("bomb", "compacted"):
            send_and_wait(target, bombs.produce(topic, batch))


# --- REST and SQS --------------------------------------------------------------------------------------------


def read_poison(target: Target) -> None:
    ask(target.rest, "GET", "/topics/bomb/messages?from=earliest&limit=1")
    ask(target.rest, "GET", "/topics/compacted/messages?from=earliest&limit=1000")


def take_poison(target: Target) -> None:
    told = json.loads(ask(target.rest, "POST", "/groups/bombed/join", '{"client_id": "a", "topics": ["bomb"]}'))
    query = f"member_id={told['member_id']}&generation={told['generation']}&timeout=100&limit=10"
    ask(target.rest, "GET", f"/groups/bombed/poll?{query}")


def schemas(target: Target) -> None:
    body = json.dumps({"schemaType": "JSON", "schema": bombs.schema_bomb(26)})
    ask(target.rest, "POST", "/subjects/checked-value/versions", body)
    ask(target.rest, "POST", "/topics/checked/messages", '{"messages": [{"value": "1"}]}')


def deep_json(target: Target) -> None:
    ask(target.rest, "POST", "/topics/bomb/messages", '{"messages": ' + "[" * 500_000)
    ask(target.rest, "POST", "/topics/bomb/messages", '{"messages": [' + "{}," * 1_000_000 + "{}]}")
    ask(target.sqs, "POST", "/", "Action=ListQueues&" + "a=b&" * 500_000)


def held(target: Target, address: tuple[str, int], opening: bytes) -> None:
    """Connections that begin and never go on."""
    with contextlib.ExitStack() as stack:
        for _ in range(HELD_MAX):
            line = stack.enter_context(connect(address))
            line.sendall(opening)
        target.hold(2)


def announced_bodies(target: Target) -> None:
    head = b"POST /topics/bomb/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n{"
    held(target, target.rest, head)
    held(target, target.sqs, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\nA")


def half_open(target: Target) -> None:
    held(target, target.rest, b"GET / HT")
    held(target, target.sqs, b"")
    held(target, target.kafka, b"\x00\x00")


def endless_heads(target: Target) -> None:
    for address in (target.rest, target.sqs):
        with connect(address) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            for number in range(2_000):
                line.sendall(b"X-%d: " % number + b"a" * 8_000 + b"\r\n")


def unread_answers(target: Target) -> None:
    request = b"GET /topics/big/messages?from=earliest&limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            line = stack.enter_context(connect(target.rest))
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(request * 5)
        target.hold(1)


ATTACKERS: tuple[Callable[[Target], None], ...] = (
    names,
    empty_partitions,
    fetched_partitions,
    frames_behind_a_poll,
    unread_fetches,
    poison,
    read_poison,
    take_poison,
    schemas,
    deep_json,
    announced_bodies,
    half_open,
    endless_heads,
    unread_answers,
)


def run(attack: Callable[[Target], None], target: Target, struck: Counter[str]) -> None:
    for _ in itertools.takewhile(lambda _: target.seconds_left() > 0, itertools.count()):
        # Being refused, cut off or kept waiting is what an attacker has to expect.
        with contextlib.suppress(OSError, http.client.HTTPException, KeyError, ValueError):
            attack(target)
        struck[attack.__name__] += 1
        target.pause()


def main(arguments: list[str]) -> None:
    rest, kafka, sqs, seconds, *chosen = arguments
    os.nice(10)  # the node and its ordinary clients have the machine; the attackers what is left
    target = Target(rest, kafka, sqs, float(seconds))
    struck: Counter[str] = Counter()
    attackers = [one for one in ATTACKERS if not chosen or one.__name__ in chosen]
    threads = [threading.Thread(target=run, args=(one, target, struck), daemon=True) for one in attackers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, target.seconds_left()) + 15)
    print(json.dumps(struck))


if __name__ == "__main__":
    main(sys.argv[1:])

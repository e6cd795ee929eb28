"""Headers of ours with any bytes in them, through every door: a message with a strange header is still a message."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.commands import Headers
from goqueue.base.delays import DELAY_HEADER, DELIVER_AT_HEADER, EXPIRES_HEADER, SCHEDULED_HEADER
from goqueue.base.priority import HEADER as PRIORITY
from goqueue.core.dead_letter import PREFIX, REDRIVEN_FROM_HEADER, REDRIVES_HEADER
from goqueue.core.schemas.framing import HEADERS as SCHEMA_HEADERS
from goqueue.format.records import NewRecord, build
from tests.door.kafka.raw import Line, produce_to, unique
from tests.door.sqs.clients import client
from tests.door.test_rest_dead_letters import Queue
from tests.one_of_cluster import a_node

INVALID_RECORD = 87
DELAYS = (DELAY_HEADER, DELIVER_AT_HEADER)
DEATHS = ("topic", "partition", "offset", "group", "reason", "error", "attempts", "failures", "timestamp")
OURS = (
    PRIORITY,
    EXPIRES_HEADER,
    SCHEDULED_HEADER,
    REDRIVES_HEADER,
    REDRIVEN_FROM_HEADER,
    "goqueue-sqs",
    "goqueue-encoding",
    "goqueue-",
    "traceparent",
    "tracestate",
    "AWSTraceHeader",
    *SCHEMA_HEADERS.values(),
    "__value_schema_id",
    *(f"{PREFIX}{name}" for name in (*DEATHS, "died-at", "first-delivered-at", "expires-at", "")),
)
MANY_DIGITS = b"9" * 5_000
VALUES: tuple[bytes | None, ...] = (
    None,
    b"",
    b"\0",
    b"\xff\xfe",
    MANY_DIGITS,
    b"9" * 19,
    b"9" * 4_300,
    b"-" + MANY_DIGITS,
    b"-1",
    b"1e999",
    "\u0661\u0662\u00b2".encode(),
    b" 7 ",
    b"nan",
    b"9" * 400 + b"d",
    b"PT" + MANY_DIGITS + b"S",
    b"x" * 100_000,
    b"topic:" + MANY_DIGITS + b":" + MANY_DIGITS,
    b"::",
    b"{}",
    b'{"id": "\\u0000", "types": {"a": "Nonsense", "goqueue-sqs": "String"}}',
    b'{"sent_ms": 99999999999999999999999999, "sequence": -5}',
    b'{"sent_ms": ' + MANY_DIGITS + b"}",
    b"[" * 100_000,
    b'{"x": ' * 50_000,
    b'{"types": {"traceparent": "Number", "b": "Binary"}, "id": "\\ud800"}',
    b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",
    b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-0",
    b"ff-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01-\xff",
    b"../../etc",
    b"\r\n\r\n: x\n\ndata: y",
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("headers") / "data") as running:
        yield running


@pytest.fixture(scope="module", params=["json", "query"])
def sqs(request: pytest.FixtureRequest, node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with client(node.sqs, request.param, tmp_path_factory.mktemp("model")) as made:
        yield made


def value_of(chance: random.Random) -> bytes | None:
    return chance.choice([*VALUES, chance.randbytes(chance.randrange(40)), b"%d" % chance.randrange(10**6)])


def headers_of(chance: random.Random) -> Headers:
    names = chance.choices(OURS, k=chance.randrange(1, 5))
    return tuple((name, value_of(chance)) for name in names)


def each_with_each() -> list[Headers]:
    return [((name, value),) for name in OURS for value in VALUES]


def produce(node: NodeProcess, topic: str, all_headers: list[Headers]) -> None:
    """Every message in a batch of its own; the value is its place."""
    with Line(node.kafka) as line:
        for place, headers in enumerate(all_headers):
            batch = build([NewRecord(b"\x01k", b"%d\x02" % place, headers, int(time.time() * 1000))])
            (told,) = line.ask(produce_to(topic, 0, batch), version=9).responses[0].partition_responses
            assert told.error_code == 0, told.error_message


def read_all(url: str, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = "earliest"
    while True:
        page = httpx.get(f"{url}/topics/{topic}/messages", params={"from": cursor, "limit": 500}, timeout=30)
        assert page.status_code == 200, page.text
        if not page.json()["messages"]:
            return found
        found += page.json()["messages"]
        cursor = page.json()["next"]


def tail_all(url: str, topic: str, count: int) -> int:
    with httpx.stream("GET", f"{url}/topics/{topic}/tail", params={"from": "earliest"}, timeout=30) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("event:"))
        kinds = [next(lines) for _ in range(count)]
    return kinds.count("event: message")


def is_old(message: dict[str, Any]) -> bool:
    """What the fuzz may make expire: a number that was."""
    return any(value is not None and value.isdigit() for value in _texts(message["headers"].get(EXPIRES_HEADER)))


def _texts(value: Any) -> list[str | None]:
    return [one if isinstance(one, str) else None for one in (value if isinstance(value, list) else [value])]


def through_all_doors(node: NodeProcess, sqs: Any, all_headers: list[Headers]) -> None:
    queue = Queue(node.url, unique("headers"))
    topic = {"name": queue.topic, "num_partitions": 1, "config": {"trace": "on", "queue.max.redrives": 0}}
    queue.post("/topics", topic)
    produce(node, queue.topic, all_headers)
    count = len(all_headers)
    messages = read_all(node.url, queue.topic)
    assert [one["offset"] for one in messages] == list(range(count))
    assert tail_all(node.url, queue.topic, count) == count
    live = sum(not is_old(one) for one in messages)
    assert receive_all(sqs, queue.topic, live) >= live
    assert queue.reject(least=live) >= live
    assert len(queue.letters(live, limit=10_000)) >= live
    assert queue.get(f"{queue.dlq}/stats")["total"] >= live
    told = queue.over(queue.redrive())
    assert told["state"] == "completed", told
    assert len(read_all(node.url, queue.topic)) >= count + live
    assert queue.reject(least=live) >= live
    assert queue.get("/traces", limit=100)


def receive_all(sqs: Any, topic: str, least: int = 0) -> int:
    """Waits until so many were there. boto compares the body's digest by itself."""
    url = sqs.get_queue_url(QueueName=topic)["QueueUrl"]
    seen = 0
    asked = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    while found := sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0 if seen >= least else 20, **asked).get(
        "Messages"
    ):
        seen += len(found)
    return seen


def test_every_header_of_ours_takes_every_strange_value(node: NodeProcess, sqs: Any) -> None:
    through_all_doors(node, sqs, each_with_each())


@pytest.mark.parametrize("seed", range(3))
def test_headers_of_ours_in_any_mixture_stop_no_door(node: NodeProcess, sqs: Any, seed: int) -> None:
    chance = random.Random(seed)
    through_all_doors(node, sqs, [headers_of(chance) for _ in range(150)])


def test_a_delay_that_cannot_be_read_is_refused_in_few_words(node: NodeProcess) -> None:
    topic = unique("delays")
    httpx.post(f"{node.url}/topics", json={"name": topic, "num_partitions": 1}).raise_for_status()
    with Line(node.kafka) as line:
        for name in DELAYS:
            for value in (one for one in VALUES if one not in (b" 7 ",)):
                batch = build([NewRecord(None, b"v", ((name, value),), 0)])
                (told,) = line.ask(produce_to(topic, 0, batch), version=9).responses[0].partition_responses
                assert told.error_code == INVALID_RECORD, (name, value)
                assert len(told.error_message) < 1_000


def test_a_header_of_5000_digits_does_not_stop_a_queue_that_comes_back(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        queue = Queue(node.url)
        produce(node, queue.topic, [((EXPIRES_HEADER, MANY_DIGITS),), ()])
        node.kill()
        node.start()
        assert Queue(node.url, queue.topic).reject() == 2


def test_dead_letters_that_lie_about_their_origin_are_shown_and_redriven(node: NodeProcess, sqs: Any) -> None:
    queue = Queue(node.url)
    home = f"{queue.topic}.dlq"
    queue.post("/topics", {"name": home, "num_partitions": 1})
    lies = [((f"{PREFIX}{name}", value),) for name in DEATHS for value in VALUES]
    whole = [tuple((f"{PREFIX}{name}", value) for name in DEATHS) for value in VALUES]
    produce(node, home, [*lies, *whole])
    count = len(lies) + len(whole)
    assert receive_all(sqs, home) == count
    assert queue.get(f"{queue.dlq}/stats")["total"] <= count
    letters = queue.letters(1, limit=10_000)
    for letter in letters[:: max(1, len(letters) // 20)]:
        assert queue.get(f"{queue.dlq}/{letter['partition']}/{letter['offset']}") == letter

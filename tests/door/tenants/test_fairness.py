"""A tenant that floods the node gets its part of it and no more, without any quota."""

from __future__ import annotations

import time

import pytest

from bench.fairness import CONNECTIONS, ApiKey, Flood
from bench.flood import TOPIC
from tests.door.tenants.conftest import Tenants
from tests.waiting import let_pass

SECONDS = 2.0


@pytest.fixture(scope="module")
def keys(tenants: Tenants) -> list[ApiKey]:
    found = []
    for who in ("anna", "bert"):
        with tenants.rest(who) as rest:
            assert rest.post("/topics", json={"name": TOPIC, "num_partitions": 1}).status_code == 201
        key = tenants.secure.key(who)
        found.append(ApiKey(key["id"], key["secret"], key["token"]))
    return found


def waits(tenants: Tenants, door: str) -> float:
    page = tenants.secure.admin.get("/metrics").text
    name = f'goqueue_turn_waits_total{{door="{door}"}} '
    return sum(float(line.removeprefix(name)) for line in page.splitlines() if line.startswith(name))


def test_ten_times_as_many_connections_get_no_more(tenants: Tenants, keys: list[ApiKey]) -> None:
    anna, bert = keys
    node = tenants.secure.node
    many = Flood(node, "kafka", anna, CONNECTIONS, SECONDS)
    few = Flood(node, "kafka", bert, CONNECTIONS // 10, SECONDS)
    for one in (many, few):
        one.begin()
    of_few, of_many = few.answered(), many.answered()
    assert of_few > 0.25 * (of_few + of_many), f"{of_few} beside {of_many}; by connections it would be a tenth"
    assert waits(tenants, "kafka") > 0


def test_one_request_does_not_wait_behind_a_flood(tenants: Tenants, keys: list[ApiKey]) -> None:
    anna = keys[0]
    with tenants.rest("bert") as rest:
        flood, took = Flood(tenants.secure.node, "rest", anna, CONNECTIONS, SECONDS), []
        flood.begin()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            began = time.monotonic()
            assert rest.post(f"/topics/{TOPIC}/messages", json={"messages": [{"value": "v"}]}).status_code == 200
            took.append(time.monotonic() - began)
            let_pass(0.01)
        floods_s = CONNECTIONS * SECONDS / flood.answered()  # how long its own requests took
    assert sorted(took)[len(took) // 2] < floods_s / 2
    assert waits(tenants, "rest") > 0

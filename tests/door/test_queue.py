"""The queue through REST on a real node: leases, answers, bad input, kills, crowds."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.members import Join, members, wait_durable
from tests.door.test_rest import problem
from tests.long import LONG
from tests.waiting import let_pass, wait_until, wait_until_async


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=40) as client:
        yield client


@pytest.fixture
def join(server_url: str) -> Iterator[Join]:
    with members(server_url) as made:
        yield made


@pytest.fixture
def topic(http: httpx.Client) -> str:
    """Names may hold dots, dashes and underscores; receipts carry them."""
    return make(http, f"queue.of-{uuid.uuid4()}_x", 3)


def make(http: httpx.Client, name: str, partitions: int, **config: str) -> str:
    config = {key.replace("_", "."): value for key, value in config.items()}
    told = http.post("/topics", json={"name": name, "num_partitions": partitions, "config": config})
    assert told.status_code == 201, told.text
    return name


def put(http: httpx.Client, topic: str, *values: str, **more: Any) -> None:
    messages = [{"value": value, **more} for value in values]
    assert http.post(f"/topics/{topic}/messages", json={"messages": messages}).status_code == 200


def say(http: httpx.Client, verb: str, **body: Any) -> httpx.Response:
    return http.post(f"/messages/{verb}", json=body)


def polled(member: Any, timeout: str = "0", **query: Any) -> list[dict[str, Any]]:
    told = member.ask_poll(timeout, **query)
    assert told.status_code == 200, told.text
    member.generation = told.json()["generation"]
    if told.json()["rebalance"]:
        member.beat()
    found: list[dict[str, Any]] = told.json()["messages"]
    return found


def dead(http: httpx.Client, topic: str) -> list[str]:
    """Values of the dead letters, once they are there."""

    def values() -> list[str]:
        found = http.get(f"/topics/{topic}.dlq/messages", params={"from": "earliest", "limit": 1_000})
        return [one["value"] for one in found.json().get("messages", [])] if found.status_code == 200 else []

    return wait_until(values)


# --- answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["shared", "partition"])
def test_each_answer_does_what_it_says(http: httpx.Client, topic: str, join: Join, mode: str) -> None:
    member = join(topic, topic, mode=mode, auto_commit=False)
    put(http, topic, "done", "again", "bad", "longer", "back", partition=1)
    found = {one["value"]: one for one in polled(member, "5s")}
    assert set(found) == {"done", "again", "bad", "longer", "back"}
    assert all(one["attempt"] == 1 and one["failures"] == 0 for one in found.values())
    assert all(one["leased_until"] > time.time() * 1000 + 20_000 for one in found.values())
    receipts = {value: one["receipt"] for value, one in found.items()}
    assert all(one.startswith(f"{topic}:1:") for one in receipts.values())
    told = say(http, "ack", receipt=receipts["done"])
    assert told.status_code == 200
    assert told.json() == {"results": [{"receipt": receipts["done"], "ok": True}]}
    assert say(http, "nack", receipt=receipts["again"], delay="50ms", reason="later").status_code == 200
    assert say(http, "reject", receipts=[receipts["bad"]], reason="never").status_code == 200
    assert say(http, "visibility", receipt=receipts["longer"], timeout="10m").status_code == 200
    assert say(http, "visibility", receipt=receipts["back"], timeout=0).status_code == 200
    got: dict[str, dict[str, Any]] = {}
    while len(got) < 2:
        got |= {one["value"]: one for one in polled(member, "5s")}
    assert (got["again"]["attempt"], got["again"]["failures"]) == (2, 1)
    assert (got["back"]["attempt"], got["back"]["failures"]) == (2, 0)
    assert dead(http, topic) == ["bad"]
    again = [got["again"]["receipt"], got["back"]["receipt"], receipts["longer"]]
    assert say(http, "ack", receipts=again).status_code == 200
    assert polled(member) == []
    lag = {one["partition"]: one["lag"] for one in http.get(f"/groups/{topic}/offsets").json()["offsets"]}
    assert lag[1] == 0


def test_mixed_outcomes_are_207_and_in_order(http: httpx.Client, topic: str, join: Join) -> None:
    member = join(topic, topic, mode="shared")
    put(http, topic, "a", "b", "c", partition=0)
    found = [one["receipt"] for one in polled(member, "5s")]
    assert say(http, "ack", receipt=found[0]).status_code == 200
    told = say(http, "ack", receipts=[found[1], found[0], "nonsense", found[2], found[2]])
    assert told.status_code == 207
    results = told.json()["results"]
    assert [one["ok"] for one in results] == [True, False, False, True, False]
    codes = [one.get("error", {}).get("code") for one in results]
    assert codes == [None, "stale-receipt", "invalid-receipt", None, "stale-receipt"]
    assert [one["receipt"] for one in results] == [found[1], found[0], "nonsense", found[2], found[2]]
    for verb, more in (("ack", {}), ("nack", {}), ("reject", {}), ("visibility", {"timeout": 1_000})):
        problem(say(http, verb, receipts=found, **more), 409, "stale-receipt")
        problem(say(http, verb, receipt=found[0], **more), 409, "stale-receipt")


BAD = [
    ("ack", {}, "receipt"),
    ("ack", {"receipt": "t:0:0:1:n", "receipts": ["t:0:0:1:n"]}, "receipt"),
    ("ack", {"receipts": []}, "receipts"),
    ("ack", {"receipts": ["t:0:0:1:n"] * 10_001}, "receipts"),
    ("ack", {"receipt": 5}, "receipt"),
    ("ack", {"receipts": ["t:0:0:1:n", 5]}, "receipts[1]"),
    ("ack", {"receipts": "t:0:0:1:n"}, "receipts"),
    ("ack", {"receipt": "t:0:0:1:n", "delay": 5}, "delay"),
    ("ack", {"receipt": "t:0:0:1:n", "extra": 5}, "extra"),
    ("nack", {"receipt": "t:0:0:1:n", "delay": -1}, "delay"),
    ("nack", {"receipt": "t:0:0:1:n", "delay": "soon"}, "delay"),
    ("nack", {"receipt": "t:0:0:1:n", "delay": "13h"}, "delay"),
    ("nack", {"receipt": "t:0:0:1:n", "delay": 1.5}, "delay"),
    ("nack", {"receipt": "t:0:0:1:n", "delay": True}, "delay"),
    ("nack", {"receipt": "t:0:0:1:n", "reason": "x" * 1_001}, "reason"),
    ("nack", {"receipt": "t:0:0:1:n", "reason": None}, "reason"),
    ("reject", {"receipt": "t:0:0:1:n", "reason": 5}, "reason"),
    ("reject", {"receipt": "t:0:0:1:n", "timeout": 5}, "timeout"),
    ("visibility", {"receipt": "t:0:0:1:n"}, "timeout"),
    ("visibility", {"receipt": "t:0:0:1:n", "timeout": None}, "timeout"),
    ("visibility", {"receipt": "t:0:0:1:n", "timeout": -5}, "timeout"),
    ("visibility", {"receipt": "t:0:0:1:n", "timeout": "12h1ms"}, "timeout"),
    ("visibility", {"receipt": "t:0:0:1:n", "timeout": 10**30}, "timeout"),
    ("visibility", {"timeout": 5}, "receipt"),
]


@pytest.mark.parametrize(("verb", "body", "field"), BAD, ids=lambda one: str(one)[:40])
def test_bad_input_is_refused_and_says_where(http: httpx.Client, verb: str, body: dict[str, Any], field: str) -> None:
    told = say(http, verb, **body)
    assert told.status_code == 400, told.text
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["field"] == field, told.text


@pytest.mark.parametrize(
    "text",
    ["", "x", ":::::", "t:0:0:1", "t:a:0:1:n", "t:0:-1:1:n", "t:0:0:1.5:n", ":0:0:1:n", "t:0:0:1:" + "n" * 400,
     "t:\u0663:\u00b2:1:n", "\x00", "t" * 5_000],
)  # fmt: skip
def test_what_is_no_receipt_is_told_so(http: httpx.Client, text: str) -> None:
    for verb, more in (("ack", {}), ("nack", {}), ("reject", {}), ("visibility", {"timeout": 0})):
        problem(say(http, verb, receipt=text, **more), 400, "invalid-receipt", "receipt")


def test_receipts_that_could_be_but_are_not(http: httpx.Client, topic: str, join: Join) -> None:
    member = join(topic, topic, mode="shared")
    put(http, topic, "a", partition=0)
    (one,) = polled(member, "5s")
    _, partition, offset, attempt, nonce = one["receipt"].rsplit(":", 4)
    for forged in (
        f"{topic}:{partition}:{offset}:{attempt}:{'0' * len(nonce)}",
        f"{topic}:{partition}:{offset}:{int(attempt) + 1}:{nonce}",
        f"{topic}:{partition}:{int(offset) + 1}:{attempt}:{nonce}",
        f"{topic}:{int(partition) + 1}:{offset}:{attempt}:{nonce}",
        f"{topic}:{'9' * 100}:{offset}:{attempt}:{nonce}",
        f"{topic}.other:{partition}:{offset}:{attempt}:{nonce}",
        f"__goqueue_deliveries:{partition}:{offset}:{attempt}:{nonce}",
        f"a:b:{topic}:{partition}:{offset}:{attempt}:{nonce}",
    ):
        problem(say(http, "ack", receipt=forged), 409, "stale-receipt")
    assert say(http, "ack", receipt=one["receipt"]).status_code == 200


def test_a_topic_that_is_gone_takes_its_receipts_along(http: httpx.Client, topic: str, join: Join) -> None:
    member = join(topic, topic, mode="shared")
    put(http, topic, "a", partition=0)
    (one,) = polled(member, "5s")
    assert http.delete(f"/topics/{topic}").status_code == 204
    problem(say(http, "ack", receipt=one["receipt"]), 409, "stale-receipt")
    make(http, topic, 3)
    put(http, topic, "b", partition=0)
    problem(say(http, "ack", receipt=one["receipt"]), 409, "stale-receipt")
    deadline = time.monotonic() + 20
    found: list[dict[str, Any]] = []
    while not found and time.monotonic() < deadline:
        found = polled(member, "2s")
    assert [one["value"] for one in found] == ["b"]


def test_a_huge_list_is_answered_whole(http: httpx.Client, topic: str, join: Join) -> None:
    member = join(topic, topic, mode="shared")
    put(http, topic, *(str(n) for n in range(900)), partition=0)
    found = [one["receipt"] for one in polled(member, "5s", limit=1_000)]
    assert len(found) == 900
    made_up = [f"{topic}:0:{n}:1:{'ab' * 8}" for n in range(10_000 - len(found))]
    told = say(http, "ack", receipts=[*made_up, *found])
    assert told.status_code == 207
    assert [one["ok"] for one in told.json()["results"]] == [False] * len(made_up) + [True] * len(found)


# --- modes and consumers that do not answer ----------------------------------------------------------------


def test_shared_members_share_every_partition_and_groups_are_apart(http: httpx.Client, topic: str, join: Join) -> None:
    group = [join(topic, topic, mode="shared") for _ in range(5)]
    wait_durable(*group)
    assert all(one.partitions == [0, 1, 2] for one in group)
    apart = join(f"{topic}-2", topic, mode="shared")
    for partition in range(3):
        put(http, topic, *(f"{partition}-{n}" for n in range(10)), partition=partition)
    got: Counter[str] = Counter()
    for _ in range(6):
        for member in group:
            found = polled(member, limit=1)
            got.update(one["value"] for one in found)
            if found:
                assert say(http, "ack", receipts=[one["receipt"] for one in found]).status_code == 200
    assert len(got) == 30 and set(got.values()) == {1}
    assert sorted(one["value"] for one in polled(apart, "5s")) == sorted(got)


def test_one_that_never_answers_holds_only_so_much_and_not_for_ever(http: httpx.Client, join: Join) -> None:
    topic = make(http, f"hoard-{uuid.uuid4()}", 1)
    put(http, topic, *(str(n) for n in range(1_500)))
    hoarder = join(topic, topic, mode="shared", visibility_timeout="3s")
    held = 0
    for _ in range(4):
        held += len(polled(hoarder, limit=10_000))
    assert held == 1_000, "queue.in_flight_max"
    other = join(topic, topic, mode="shared")
    found = polled(other, "5s", limit=10_000)
    assert len(found) == 500
    assert say(http, "ack", receipts=[one["receipt"] for one in found]).status_code == 200
    began, got = time.monotonic(), set[str]()
    while len(got) < 1_000 and time.monotonic() < began + 30:
        found = polled(other, "2s", limit=1_000)
        got.update(one["value"] for one in found)
        if found:
            assert all(one["attempt"] == 2 and one["failures"] == 1 for one in found)
            say(http, "ack", receipts=[one["receipt"] for one in found])
    assert len(got) == 1_000


def test_one_that_crashes_loses_what_it_held_to_others(http: httpx.Client, topic: str, join: Join) -> None:
    crashed = join(topic, topic, mode="shared", session_timeout="6s", visibility_timeout="10m")
    slow = join(topic, topic, mode="shared", visibility_timeout="2s")
    put(http, topic, "a", "b", "c", partition=2)
    assert len(polled(crashed, "5s", limit=2)) == 2
    (mine,) = polled(slow, "5s")
    for _ in range(3):  # slow, and says so
        let_pass(1)
        assert say(http, "visibility", receipt=mine["receipt"], timeout="2s").status_code == 200
    assert say(http, "ack", receipt=mine["receipt"]).status_code == 200
    got, deadline = list[str](), time.monotonic() + 30
    while len(got) < 2 and time.monotonic() < deadline:
        got += [one["value"] for one in polled(slow, "2s")]
    assert sorted([*got, mine["value"]]) == ["a", "b", "c"]


def test_a_poll_whose_caller_went_away_keeps_nothing(http: httpx.Client, topic: str, join: Join) -> None:
    gone = join(topic, topic, mode="shared")
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=str(http.base_url), timeout=0.5) as hasty:
        hasty.get(f"/groups/{topic}/poll", params={**gone.who, "timeout": "20s"})
    let_pass(0.2)  # the node notices at its own pace, and must not lose the message if it has not yet
    put(http, topic, "a", partition=0)
    other = join(topic, topic, mode="shared")
    assert [one["value"] for one in polled(other, "5s")] == ["a"]


# --- kills -------------------------------------------------------------------------------------------------


def test_a_kill_keeps_leases_attempts_and_acks(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data").start()
    try:
        with httpx.Client(timeout=40) as http:
            http.base_url = httpx.URL(node.url)
            make(http, "t", 1)
            put(http, "t", "acked", "held", "failed", "dead")
            with members(node.url) as join:
                member = join("g", "t", "m", mode="shared", visibility_timeout="10m")
                found = {one["value"]: one["receipt"] for one in polled(member, "5s")}
                assert say(http, "ack", receipt=found["acked"]).status_code == 200
                assert say(http, "nack", receipt=found["failed"], delay="10ms").status_code == 200
                assert say(http, "reject", receipt=found["dead"]).status_code == 200
                (again,) = polled(member, "5s")
                assert (again["value"], again["attempt"], again["failures"]) == ("failed", 2, 1)
            node.kill()
            node.start()
            http.base_url = httpx.URL(node.url)
            with members(node.url) as join:
                other = join("g", "t", "other", mode="shared")
                assert polled(other, "200ms") == [], "all are with their consumer, or done"
                problem(say(http, "ack", receipt=found["acked"]), 409, "stale-receipt")
                problem(say(http, "ack", receipt=found["failed"]), 409, "stale-receipt")
                assert say(http, "ack", receipt=found["held"]).status_code == 200, "a receipt outlives the node"
                assert say(http, "nack", receipt=again["receipt"], delay=0).status_code == 200
                (third,) = polled(other, "5s")
                assert (third["value"], third["attempt"], third["failures"]) == ("failed", 3, 2)
                assert say(http, "nack", receipt=third["receipt"], delay=0).status_code == 200
                deadline = time.monotonic() + 10
                letters: list[str] = []
                while len(letters) < 2 and time.monotonic() < deadline:
                    letters = dead(http, "t")
                assert sorted(letters) == ["dead", "failed"]
    finally:
        node.stop()


class Ledger:
    """What was sent, handed out and acked, over all kills."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.got: Counter[str] = Counter()
        self.acked: set[str] = set()
        self.unsure: set[str] = set()

    async def publish(self, http: httpx.AsyncClient, name: str) -> None:
        number = 0
        while True:
            values = [f"{name}-{number}-{n}" for n in range(5)]
            number += 1
            told = await http.post("/topics/t/messages", json={"messages": [{"value": value} for value in values]})
            if told.status_code == 200:
                self.sent.update(values)
            await asyncio.sleep(0.005)

    async def consume(self, http: httpx.AsyncClient, name: str, is_last: bool = False) -> None:
        body = {"client_id": "c", "topics": ["t"], "member_id": name, "mode": "shared", "visibility_timeout": "2s"}
        joined = (await http.post("/groups/g/join", json=body)).json()
        who = {"member_id": name, "generation": joined["generation"]}
        empty = 0
        while not (is_last and empty >= 3):
            told = await http.get("/groups/g/poll", params={**who, "timeout": "1s", "limit": 20})
            if told.status_code != 200:
                return
            found = told.json()["messages"]
            who["generation"] = told.json()["generation"]
            if told.json()["rebalance"]:
                await http.post("/groups/g/heartbeat", json=who)
            empty = 0 if found else empty + 1
            if found:
                await self.answer(http, found)

    async def answer(self, http: httpx.AsyncClient, found: list[dict[str, Any]]) -> None:
        twice = {one["value"] for one in found} & self.acked
        assert not twice, f"handed out after its ack was answered: {twice}"
        self.unsure.update(one["value"] for one in found)
        told = await http.post("/messages/ack", json={"receipts": [one["receipt"] for one in found]})
        if told.status_code in (200, 207):
            for one, result in zip(found, told.json()["results"], strict=True):
                if result["ok"]:
                    self.acked.add(one["value"])


async def load_and_kill(node: NodeProcess, ledger: Ledger, round_: int, after_s: float) -> None:
    async with httpx.AsyncClient(base_url=node.url, timeout=10) as http:
        work = [ledger.publish(http, f"{round_}-{n}") for n in range(2)]
        work += [ledger.consume(http, f"c{round_}-{n}") for n in range(4)]
        before = len(ledger.sent)
        tasks = [asyncio.ensure_future(one) for one in work]
        await wait_until_async(lambda: len(ledger.sent) > before + 25)
        await asyncio.sleep(after_s)
        await asyncio.to_thread(node.kill)
        for one in await asyncio.gather(*tasks, return_exceptions=True):
            assert one is None or isinstance(one, httpx.HTTPError), repr(one)


def test_kills_under_load_lose_nothing_and_hand_out_nothing_that_is_done(tmp_path: Path) -> None:
    chance, ledger = random.Random(7), Ledger()
    node = NodeProcess(tmp_path / "data", "--fsync", "always").start()
    try:
        with httpx.Client(base_url=node.url) as http:
            make(http, "t", 3, queue_max_failures="0")
        for round_ in range(20 if LONG else 2):
            asyncio.run(load_and_kill(node, ledger, round_, chance.uniform(0.4, 1.0)))
            node.start()

        async def drain() -> None:
            async with httpx.AsyncClient(base_url=node.url, timeout=10) as http:
                await asyncio.gather(*(ledger.consume(http, f"last{n}", is_last=True) for n in range(3)))

        asyncio.run(drain())
    finally:
        node.stop()
    assert len(ledger.sent) > 50, "there was load"
    assert ledger.sent <= ledger.acked | ledger.unsure, "lost"
    assert len(ledger.sent & ledger.acked) > len(ledger.sent) * 0.8


# --- a crowd -----------------------------------------------------------------------------------------------


async def crowd(url: str, topic: str, size: int, rounds: int) -> Counter[str]:
    """Everybody waits; messages come one at a time for each; all have to be served alike."""
    got: Counter[str] = Counter()
    limits = httpx.Limits(max_connections=size + 10)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
        doors = asyncio.Semaphore(50)

        async def come(name: str) -> dict[str, Any]:
            body = {"client_id": "c", "topics": [topic], "member_id": name, "mode": "shared", "session_timeout": "60s"}
            async with doors:
                told = await http.post(f"/groups/{topic}/join", json=body)
            assert told.status_code == 200, told.text
            return {"member_id": name, "generation": told.json()["generation"]}

        members_ = await asyncio.gather(*(come(f"m{n}") for n in range(size)))

        async def consume(who: dict[str, Any]) -> None:
            while sum(got.values()) < size * rounds:
                told = await http.get(f"/groups/{topic}/poll", params={**who, "timeout": "2s", "limit": 1})
                assert told.status_code == 200, told.text
                who["generation"] = told.json()["generation"]
                if told.json()["rebalance"]:
                    told_ = await http.post(f"/groups/{topic}/heartbeat", json=who)
                    who["generation"] = told_.json()["generation"]
                for one in told.json()["messages"]:
                    got[who["member_id"]] += 1
                    answer = await http.post("/messages/ack", json={"receipt": one["receipt"]})
                    assert answer.status_code == 200

        consumers = [asyncio.ensure_future(consume(who)) for who in members_]
        for _ in range(rounds * 10):
            messages = [{"value": "x"} for _ in range(size // 10)]
            await http.post(f"/topics/{topic}/messages", json={"messages": messages})
            await asyncio.sleep(0.05)
        await asyncio.gather(*consumers)
    return got


def test_many_consumers_on_three_partitions_and_nobody_starves(http: httpx.Client, topic: str) -> None:
    """A thousand are in the tests in virtual time; here the client is slower than the node."""
    size, rounds = (200, 3) if LONG else (40, 2)
    got = asyncio.run(crowd(str(http.base_url), topic, size, rounds))
    assert got.total() >= size * rounds
    assert len(got) >= size * 0.8, f"{size - len(got)} got nothing"

"""`kill -9` under load through REST: what was answered under fsync=always is there, offsets have no gap, no double."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import httpx
import pytest

from bench.http_load import connect, post
from bench.node_process import NodeProcess
from tests.long import LONG

ROUNDS = 30 if LONG else 8
WRITERS = 6


class Ledger:
    """What was sent and what was answered, over all rounds."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.acked: dict[tuple[int, int], str] = {}

    async def write(self, url: str, writer: int, round_: int) -> None:
        (line,) = await connect(url, 1)
        number = 0
        try:
            while True:
                values = [f"{round_}-{writer}-{number}-{n}" for n in range(1 + number % 7)]
                number += 1
                self.sent.update(values)
                padded = [{"key": value, "value": value + "." * (number * 37 % 900)} for value in values]
                body = json.dumps({"messages": padded}).encode()
                answer = json.loads(await line.send(post(f"{url}/topics/t/messages", body)))
                for value, placed in zip(values, answer["results"], strict=True):
                    place = (placed["partition"], placed["offset"])
                    assert place not in self.acked, "one offset was given twice"
                    self.acked[place] = value
        except ConnectionError:
            return  # the node is dead, as it should be
        finally:
            line.close()


async def load_and_kill(node: NodeProcess, ledger: Ledger, round_: int, after_s: float) -> None:
    writers = [asyncio.create_task(ledger.write(node.url, number, round_)) for number in range(WRITERS)]
    await asyncio.sleep(after_s)
    await asyncio.to_thread(node.kill)
    await asyncio.gather(*writers)


def read_everything(url: str) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    with httpx.Client(base_url=url) as client:
        for view in client.get("/topics/t/partitions").json()["partitions"]:
            partition, offset = view["partition"], view["start_offset"]
            assert view["start_offset"] == 0 and view["damaged"] == []
            while offset < view["high_watermark"]:
                path = f"/topics/t/partitions/{partition}/messages"
                page = client.get(path, params={"offset": offset, "limit": 5000}).json()
                for message in page["messages"]:
                    assert message["offset"] == offset, "offsets have a gap"
                    assert message["value"].rstrip(".") == message["key"], "a message is damaged"
                    found[(partition, offset)] = message["key"]
                    offset += 1
    return found


@pytest.mark.slow
def test_nothing_answered_under_fsync_always_is_lost_in_many_kills(tmp_path: Path) -> None:
    chance = random.Random(20260101)
    ledger = Ledger()
    settings = {"GOQUEUE_TOPICS_SEGMENT_BYTES": "64KiB"}
    node = NodeProcess(tmp_path / "data", "--fsync", "always", settings=settings).start()
    httpx.post(f"{node.url}/topics", json={"name": "t", "num_partitions": 3}).raise_for_status()
    for round_ in range(ROUNDS):
        asyncio.run(load_and_kill(node, ledger, round_, chance.uniform(0.05, 0.4)))
        node.start()
    found = read_everything(node.url)
    node.stop()
    assert len(ledger.acked) > 30 * ROUNDS, "there was load"
    lost = {place: value for place, value in ledger.acked.items() if found.get(place) != value}
    assert lost == {}
    assert len(set(found.values())) == len(found), "a message is there twice"
    assert set(found.values()) <= ledger.sent

"""A node with room for few and small groups: what every door says, and that those there are go on."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.kafka import raw
from tests.door.kafka.raw import Line
from tests.door.test_rest import problem

FULL = 81  # GROUP_MAX_SIZE_REACHED
SETTINGS = {"GOQUEUE_GROUPS_GROUPS_MAX": "2", "GOQUEUE_GROUPS_GROUP_BYTES_MAX": "20KiB"}


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("room") / "data", settings=SETTINGS) as running:
        yield running


def test_a_group_too_many_is_refused_at_every_door_and_a_deleted_one_makes_room(small: NodeProcess) -> None:
    joins = {"client_id": "c", "topics": ["t"]}
    with httpx.Client(base_url=small.url, timeout=40) as http, Line(small.kafka) as line:
        assert line.ask(raw.new_topic("t")).topics[0].error_code == 0
        for name in ("one", "two"):
            assert line.ask(raw.commit(name, "t", 0, 1), 9).topics[0].partitions[0].error_code == 0
        assert line.ask(raw.commit("three", "t", 0, 1), 9).topics[0].partitions[0].error_code == FULL
        assert line.ask(raw.join("three"), 3).error_code == FULL
        assert line.ask(raw.beat("three", "m", 0, ["t"], {}), 1).error_code == FULL
        problem(http.post("/groups/three/join", json=joins), 503, "too-many-groups", "group")
        moved = {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]}
        problem(http.post("/groups/three/offsets", json=moved), 503, "too-many-groups", "group")
        assert "goqueue_groups 2.0" in http.get("/metrics").text
        assert http.post("/groups/one/join", json=joins).status_code == 200
        assert http.delete("/groups/two").status_code == 204
        assert http.post("/groups/three/join", json=joins).status_code == 200


def test_a_group_whose_members_take_too_much_is_full(small: NodeProcess) -> None:
    large = {"range": bytes(15_000)}
    with Line(small.kafka) as line, Line(small.kafka) as other:
        leader = line.ask(raw.join("g", protocols=large), 3)
        assert leader.error_code == 0
        assert other.ask(raw.join("g", protocols=large), 3).error_code == FULL
        given = {leader.member_id: bytes(15_000)}
        assert line.ask(raw.sync("g", leader.generation_id, leader.member_id, given)).error_code == FULL
        given = {leader.member_id: b"mine"}
        assert line.ask(raw.sync("g", leader.generation_id, leader.member_id, given)).assignment == b"mine"

"""`goqueue group` against a real node."""

from __future__ import annotations

import json
import re
import uuid

import httpx
import pytest

from goqueue.client import AsyncClient, Client, GoQueueClientError, OffsetMove
from tests.cli.running import goqueue
from tests.door.members import members


@pytest.fixture
def topic(server_url: str) -> str:
    """A topic with three messages in each of two partitions, and a group of its name that read one."""
    name = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=2)
        for number in range(6):
            client.publish(name, "v", partition=number % 2, timestamp=1000 * number)
    commit = {"offsets": [{"topic": name, "partition": 0, "offset": 1}]}
    httpx.post(f"{server_url}/groups/{name}/offsets", json=commit).raise_for_status()
    return name


def test_groups_are_listed(server_url: str, topic: str) -> None:
    done = goqueue("group", "list", server=server_url)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].split() == ["GROUP", "KIND", "STATE", "MEMBERS"]
    assert re.search(rf"^{topic} +classic +Empty +0$", done.stdout, re.MULTILINE)
    found = json.loads(goqueue("group", "list", "--output", "json", server=server_url).stdout)
    assert {"group": topic, "kind": "classic", "state": "Empty", "members": 0, "protocol_type": ""} in found


def test_a_group_is_described_with_its_members_and_the_lag_of_the_other_surfaces(server_url: str, topic: str) -> None:
    with members(server_url) as join:
        member = join(topic, topic, "m1")
        done = goqueue("group", "describe", topic, server=server_url)
        found = json.loads(goqueue("group", "describe", topic, "--output", "json", server=server_url).stdout)
        offsets = httpx.get(f"{server_url}/groups/{topic}/offsets").json()["offsets"]
        member.leave()
    assert re.search(r"^lag +5$", done.stdout, re.MULTILINE)
    assert re.search(rf"^m1 +test +127\.0\.0\.1 +rest +{topic}:0,1$", done.stdout, re.MULTILINE)
    assert re.search(rf"^{topic} +0 +1 +3 +2$", done.stdout, re.MULTILINE)
    assert re.search(rf"^{topic} +1 +- +3 +3$", done.stdout, re.MULTILINE)
    assert found["lag"] == offsets
    assert [one["member_id"] for one in found["members"]] == ["m1"]


def test_a_dry_run_shows_and_a_reset_moves(server_url: str, topic: str) -> None:
    reset = ["group", "reset-offsets", topic, "--topic", topic]
    dry = goqueue(*reset, "--to", "latest", "--dry-run", server=server_url)
    assert dry.exit_code == 0 and "Nothing was changed" in dry.stderr
    assert [line.split()[1:] for line in dry.stdout.splitlines()[1:]] == [["0", "1", "3"], ["1", "-", "3"]]
    moved = goqueue(*reset, "--to", "offset:2", "--partition", "1", "--output", "json", server=server_url)
    assert json.loads(moved.stdout) == [{"topic": topic, "partition": 1, "from": None, "to": 2}]
    goqueue(*reset, "--to", "1970-01-01T00:00:02Z", "--partition", "0", server=server_url)
    with Client(server_url) as client:
        assert [(one.committed, one.lag) for one in client.group(topic).lag] == [(1, 2), (2, 1)]
        assert client.reset_offsets(topic, topic, to="earliest", partition=0) == [OffsetMove(topic, 0, 1, 0)]


@pytest.mark.parametrize("place", ["offset", "offset:", "offset:x", "offset:-1"])
def test_what_is_no_offset_is_wrong_usage(place: str) -> None:
    done = goqueue("group", "reset-offsets", "g", "--topic", "t", "--to", place)
    assert done.exit_code == 2 and "offset:17" in done.stderr


def test_what_the_broker_refuses_is_exit_code_1(server_url: str, topic: str) -> None:
    reset = ["group", "reset-offsets", topic, "--topic", topic]
    assert "(unknown-group)" in goqueue("group", "describe", "no-such", server=server_url).stderr
    assert "(invalid-field)" in goqueue(*reset, "--to", "soon", server=server_url).stderr
    assert "(offset-out-of-range)" in goqueue(*reset, "--to", "offset:4", server=server_url).stderr
    with members(server_url) as join:
        member = join(topic, topic)
        for arguments in ([*reset, "--to", "latest"], ["group", "delete", topic, "--yes"]):
            done = goqueue(*arguments, server=server_url)
            assert done.exit_code == 1 and "(group-not-empty)" in done.stderr
        member.leave()
    assert goqueue("group", "list").exit_code == 3


def test_deleting_asks_first(server_url: str, topic: str) -> None:
    asked = goqueue("group", "delete", topic, server=server_url, answers="n\n")
    assert asked.exit_code == 1 and "its 1 committed offset for ever" in asked.stderr
    assert goqueue("group", "delete", topic, "--yes", server=server_url).stderr == f"Deleted group {topic!r}.\n"
    assert topic not in goqueue("group", "list", server=server_url).stdout


@pytest.mark.asyncio
async def test_the_async_client_does_the_same(server_url: str, topic: str) -> None:
    async with AsyncClient(server_url) as client:
        assert topic in [one.group for one in await client.groups()]
        assert (await client.group(topic)).lag[0].committed == 1
        moves = await client.reset_offsets(topic, topic, offset=3, dry_run=True)
        assert [(one.before, one.after) for one in moves] == [(1, 3), (None, 3)]
        for wrong in ({}, {"to": "latest", "offset": 1}):
            with pytest.raises(GoQueueClientError, match="either to, or an offset"):
                await client.reset_offsets(topic, topic, **wrong)  # type: ignore[arg-type]
        with pytest.raises(GoQueueClientError, match="invalid-name"):
            await client.group("a/b")
        await client.delete_group(topic)
        with pytest.raises(GoQueueClientError, match="unknown-group"):
            await client.group(topic)

"""Share groups (KIP-932) by the protocol itself: sessions, acquired records, every kind of answer, and their ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.delete_groups import DeleteGroupsRequest
from goqueue.wire.messages.list_groups import ListGroupsRequest
from goqueue.wire.messages.share_fetch import ShareFetchRequest
from goqueue.wire.messages.share_group_describe import ShareGroupDescribeRequest
from goqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, new_topic, unique
from tests.door.kafka.share import (
    ACCEPT,
    CLOSING,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    all_starts,
    configure,
    produce,
    start_of,
)
from tests.waiting import wait_until

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REQUEST, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND = 42, 25, 69
FENCED_MEMBER_EPOCH, INCONSISTENT_GROUP_PROTOCOL = 110, 23
INVALID_RECORD_STATE, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH = 121, 122, 123

Join = Callable[[], ShareMember]


@pytest.fixture
def topic(lone: str) -> str:
    return lone


# --- members -------------------------------------------------------------------------------------------------


def test_share_groups_are_advertised(line: Line) -> None:
    told = line.ask(ApiVersionsRequest("raw", "1"))
    versions = {one.api_key: (one.min_version, one.max_version) for one in told.api_keys}
    assert versions[76] == versions[77] == (1, 1)
    assert versions[78] == versions[79] == (1, 2)
    assert versions[90] == (0, 1) and versions[91] == versions[92] == (0, 0)
    assert {one.name: one.max_version_level for one in told.finalized_features}["share.version"] == 1


def test_every_member_is_assigned_every_partition(line: Line, topic: str, group: str, join: Join) -> None:
    one, other = join(), join()
    assert list(one.assigned.partitions) == list(other.assigned.partitions) == [0]
    told = one.beat()
    assert (told.error_code, told.assignment) == (0, None)
    (found,) = line.ask(ShareGroupDescribeRequest([group])).groups
    assert (found.error_code, found.group_state, found.assignor_name) == (0, "Stable", "simple")
    assert {member.member_id for member in found.members} == {one.member_id, other.member_id}
    (listed,) = [each for each in line.ask(ListGroupsRequest((), ["share"])).groups if each.group_id == group]
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("share", "share", "Stable")
    assert group not in [each.group_id for each in line.ask(ListGroupsRequest((), ["consumer"])).groups]


def test_a_member_leaves_and_is_unknown_then(line: Line, group: str, join: Join) -> None:
    one = join()
    assert one.beat(7).error_code == FENCED_MEMBER_EPOCH
    left = one.beat(-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert one.beat().error_code == UNKNOWN_MEMBER_ID
    (found,) = line.ask(ShareGroupDescribeRequest([group])).groups
    assert found.group_state == "Empty"
    assert line.ask(DeleteGroupsRequest([group])).results[0].error_code == 0
    (found,) = line.ask(ShareGroupDescribeRequest([group])).groups
    assert (found.group_state, found.error_code) == ("", GROUP_ID_NOT_FOUND)


def test_a_group_is_shared_or_dealt_out_and_never_both(line: Line, topic: str, join: Join) -> None:
    one = join()
    assert line.ask(raw.beat(one.group, "c", 0, [topic], {})).error_code == INCONSISTENT_GROUP_PROTOCOL
    other = unique("g")
    assert line.ask(raw.beat(other, "c", 0, [topic], {})).error_code == 0
    told = line.ask(ShareGroupHeartbeatRequest(other, "s", 0, None, [topic]))
    assert told.error_code == INCONSISTENT_GROUP_PROTOCOL


# --- sessions ------------------------------------------------------------------------------------------------


def test_a_session_counts_its_requests(line: Line, topic: str, join: Join) -> None:
    one = join()
    assert one.ask_fetch(epoch=3).error_code == SHARE_SESSION_NOT_FOUND
    assert one.answer({}, epoch=0).error_code == INVALID_SHARE_SESSION_EPOCH
    assert one.ask_fetch({0: [(0, 0, ACCEPT)]}).error_code == INVALID_REQUEST, "nothing to answer for yet"
    assert one.ask_fetch().error_code == 0
    assert one.ask_fetch(epoch=5).error_code == INVALID_SHARE_SESSION_EPOCH
    assert one.ask_fetch().error_code == one.answer({}).error_code == 0
    assert one.ask_fetch(epoch=CLOSING).error_code == 0
    assert one.ask_fetch(epoch=4).error_code == SHARE_SESSION_NOT_FOUND


def test_who_did_not_join_gets_no_session_and_leaves_nothing_behind(
    line: Line, topic: str, group: str, join: Join
) -> None:
    produce(line, topic, b"a")
    one = join()
    member_id, nowhere = one.member_id, unique("g")
    one.member_id = unique("stranger")
    assert one.ask_fetch().error_code == UNKNOWN_MEMBER_ID
    assert one.ask_fetch(epoch=1).error_code == SHARE_SESSION_NOT_FOUND
    assert start_of(line, group, topic) == (-1, -1), "its fetch began the group's queue"
    one.member_id, one.group = member_id, nowhere
    assert one.ask_fetch().error_code == UNKNOWN_MEMBER_ID, "a member of another group"
    assert line.ask(ShareGroupDescribeRequest([nowhere])).groups[0].error_code == GROUP_ID_NOT_FOUND
    assert all_starts(line, nowhere) == {}
    one.group = group
    assert one.fetch() == {(0, 0): (b"a", 1)}


def test_a_closed_session_gives_its_records_to_others(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a", b"b", b"c")
    one, other = join(), join()
    assert len(one.fetch()) == 3 and not other.fetch()
    assert one.answer({0: [(1, 1, ACCEPT)]}, epoch=CLOSING).error_code == 0
    assert other.fetch(wait_ms=5_000) == {(0, 0): (b"a", 2), (0, 2): (b"c", 2)}


def test_a_session_ends_with_its_connection(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a")
    one, other = join(), join()
    assert one.fetch()
    one.close()
    assert other.fetch(wait_ms=10_000) == {(0, 0): (b"a", 2)}
    one.line = Line(other.address)
    assert one.ask_fetch().error_code == SHARE_SESSION_NOT_FOUND
    one.close()


def test_a_session_that_goes_on_elsewhere_outlives_its_first_connection(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a")
    one, other = join(), join()
    first = one.line
    assert one.ask_fetch(max_records=0).error_code == 0
    one.line, one.epoch = Line(one.address), 0
    assert one.fetch()
    first.close()
    assert not other.fetch(wait_ms=500)
    assert one.outcome({0: [(0, 0, ACCEPT)]}) == 0


def test_a_member_that_leaves_gives_its_records_to_others(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a")
    one, other = join(), join()
    assert one.fetch() and not other.fetch()
    one.beat(-1)
    assert other.fetch(wait_ms=5_000) == {(0, 0): (b"a", 2)}


# --- records -------------------------------------------------------------------------------------------------


def test_a_record_is_with_one_member_until_it_is_answered_for(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a", b"b", b"c", b"d")
    one, other = join(), join()
    assert one.fetch(max_records=2) == {(0, 0): (b"a", 1), (0, 1): (b"b", 1)}
    assert other.fetch() == {(0, 2): (b"c", 1), (0, 3): (b"d", 1)}
    assert one.outcome({0: [(0, 0, ACCEPT), (1, 1, RELEASE)]}) == 0
    assert other.fetch({0: [(2, 3, ACCEPT)]}) == {(0, 1): (b"b", 2)}
    assert other.fetch({0: [(1, 1, ACCEPT)]}) == one.fetch() == {}


def test_a_batch_goes_out_as_it_is_stored(line: Line, topic: str, join: Join) -> None:
    batch = raw.batch(b"a" * 1_000, b"b" * 1_000, codec=1)
    line.ask(raw.produce_to(topic, 0, batch), 9)
    told = join().ask_fetch(max_records=1)
    (part,) = told.responses[0].partitions
    assert bytes(part.records)[21:] == batch[21:], "compressed, from the attributes on"
    assert [(one.first_offset, one.last_offset) for one in part.acquired_records] == [(0, 0)]
    assert told.acquisition_lock_timeout_ms == 30_000


def test_one_type_for_each_record_of_a_range(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a", b"b", b"c")
    one = join()
    one.fetch()
    batch = acking.AcknowledgementBatch(0, 2, [ACCEPT, RELEASE, ACCEPT])
    part = acking.AcknowledgePartition(0, [batch])
    told = one.line.ask(
        acking.ShareAcknowledgeRequest(
            one.group, one.member_id, one.epoch, False, [acking.AcknowledgeTopic(one.topic_id, [part])]
        )
    )
    one.epoch += 1
    assert told.responses[0].partitions[0].error_code == 0
    assert one.fetch() == {(0, 1): (b"b", 2)}


def test_answers_for_a_partition_hold_all_or_not_at_all(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a", b"b")
    one, other = join(), join()
    assert one.fetch(max_records=1) and other.fetch(max_records=1)
    assert one.outcome({0: [(0, 1, ACCEPT)]}) == INVALID_RECORD_STATE, "the second is another's"
    assert one.outcome({0: [(0, 0, ACCEPT)]}) == 0
    assert one.outcome({0: [(1, 1, ACCEPT)]}) == INVALID_RECORD_STATE
    assert one.outcome({0: [(0, 1 << 60, ACCEPT)]}) == INVALID_RECORD_STATE
    assert other.outcome({0: [(1, 0, ACCEPT)]}) == INVALID_REQUEST
    assert other.outcome({0: [(1, 1, RENEW)]}) == INVALID_REQUEST, "not said to renew"
    assert other.outcome({0: [(1, 1, ACCEPT)]}) == 0


def test_what_everybody_is_done_with_can_be_answered_for_again(line: Line, topic: str, join: Join) -> None:
    """As with Kafka: an answer that was sent twice does no harm once the group is past it."""
    produce(line, topic, b"a", b"b", b"c")
    one = join()
    one.fetch()
    assert one.outcome({0: [(0, 1, ACCEPT)]}) == 0
    assert one.outcome({0: [(0, 0, ACCEPT)]}) == 0
    assert one.outcome({0: [(0, 2, RELEASE)]}) == 0
    assert one.fetch() == {(0, 2): (b"c", 2)}


def test_answers_that_cannot_be_meant(line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a", b"b", b"c", b"d")
    one = join()
    one.fetch()
    assert one.outcome({0: [(0, 1, ACCEPT), (1, 2, ACCEPT)]}) == INVALID_RECORD_STATE
    assert one.outcome({0: [(2, 3, ACCEPT), (1, 1, ACCEPT)]}) == INVALID_REQUEST
    assert one.outcome({0: [(1, 0, ACCEPT)]}) == INVALID_REQUEST
    assert one.outcome({0: [(0, 0, 7)]}) == INVALID_REQUEST
    assert one.outcome({0: [(0, 0, RENEW)]}) == INVALID_REQUEST, "only where the request says that it renews"
    assert one.outcome({7: [(0, 0, ACCEPT)]}) == UNKNOWN_TOPIC_OR_PARTITION
    assert one.outcome({0: [(0, 3, ACCEPT)]}) == 0


def test_a_fetch_waits_for_records(line: Line, topic: str, join: Join) -> None:
    one = join()
    one.fetch()
    asked = one.line
    asked.send(ShareFetchRequest(one.group, one.member_id, one.epoch, 20_000, 1, max_records=10))
    produce(line, topic, b"late")
    _, told = asked.receive()
    assert [part.partition_index for part in told.responses[0].partitions] == [0]


def test_a_new_group_begins_at_the_end(kafka: str, line: Line, topic: str) -> None:
    produce(line, topic, b"before")
    one = ShareMember(kafka, unique("g"), topic)
    assert one.fetch() == {}
    produce(line, topic, b"after")
    assert one.fetch(wait_ms=5_000) == {(0, 1): (b"after", 1)}
    one.close()


# --- the end of a lock, and of patience ------------------------------------------------------------------------


def test_a_lock_ends_and_the_record_goes_to_another(line: Line, topic: str, group: str, join: Join) -> None:
    configure(line, group, share_record_lock_duration_ms="1000")
    produce(line, topic, b"a")
    one, other = join(), join()
    assert one.fetch() and other.fetch(wait_ms=10_000) == {(0, 0): (b"a", 2)}
    assert one.outcome({0: [(0, 0, ACCEPT)]}) == INVALID_RECORD_STATE


def test_a_lock_is_renewed(line: Line, topic: str, group: str, join: Join) -> None:
    configure(line, group, share_record_lock_duration_ms="1000")
    produce(line, topic, b"a")
    one, other = join(), join()
    assert one.fetch()
    configure(line, group, share_record_lock_duration_ms="60000")
    told = one.answer({0: [(0, 0, RENEW)]}, is_renew=True)
    assert (told.error_code, told.acquisition_lock_timeout_ms) == (0, 60_000)
    assert not other.fetch(wait_ms=1_500), "the first lock would be over"
    assert one.outcome({0: [(0, 0, ACCEPT)]}) == 0


def letters(node: NodeProcess, topic: str) -> int:
    found = httpx.get(f"{node.url}/topics/{topic}/dlq")
    return len(found.json()["messages"]) if found.status_code == 200 else 0


def test_a_record_that_is_rejected_is_a_dead_letter(
    shared_node: NodeProcess, line: Line, topic: str, join: Join
) -> None:
    produce(line, topic, b"a", b"b")
    one = join()
    one.fetch()
    assert one.outcome({0: [(0, 0, REJECT), (1, 1, ACCEPT)]}) == 0
    assert one.fetch() == {}
    wait_until(lambda: letters(shared_node, topic) == 1, "the letter did not come")


def test_a_record_is_delivered_five_times_at_most(shared_node: NodeProcess, line: Line, topic: str, join: Join) -> None:
    produce(line, topic, b"a")
    one = join()
    for count in range(1, 6):
        assert one.fetch() == {(0, 0): (b"a", count)}
        assert one.outcome({0: [(0, 0, RELEASE)]}) == 0
    assert one.fetch() == {}
    wait_until(lambda: letters(shared_node, topic) == 1, "the letter did not come")


# --- other doors, and crashes --------------------------------------------------------------------------------------


def test_rest_and_share_consumers_of_a_group_take_from_one_queue(
    shared_node: NodeProcess, line: Line, topic: str, group: str, join: Join
) -> None:
    produce(line, topic, b"a", b"b", b"c")
    one = join()
    assert set(one.fetch(max_records=1)) == {(0, 0)}
    with httpx.Client(base_url=shared_node.url) as client:
        wanted = {"client_id": "c", "topics": [topic], "mode": "shared"}
        joined = client.post(f"/groups/{group}/join", json=wanted).json()
        place = f"/groups/{group}"
        asked = {"member_id": joined["member_id"], "generation": joined["generation"], "limit": 1, "timeout": "0s"}
        (message,) = client.get(f"{place}/poll", params=asked).json()["messages"]
        assert message["offset"] == 1
        assert one.outcome({0: [(1, 1, ACCEPT)]}) == INVALID_RECORD_STATE
        assert set(one.fetch()) == {(0, 2)}
        assert not client.get(f"{place}/poll", params=asked).json()["messages"]
        assert one.outcome({0: [(0, 0, RELEASE)]}) == 0
        (message,) = client.get(f"{place}/poll", params=asked).json()["messages"]
        assert (message["offset"], message["attempt"]) == (0, 2)


def test_locks_and_answers_outlive_a_kill(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", "--kafka", f"127.0.0.1:{raw.free_port()}", "--fsync", "always") as node:
        with Line(node.kafka) as line:
            line.ask(new_topic("t", 1))
            configure(line, "g", share_auto_offset_reset="earliest")
            produce(line, "t", b"a", b"b", b"c")
        one = ShareMember(node.kafka, "g", "t")
        assert len(one.fetch(max_records=2)) == 2
        assert one.outcome({0: [(0, 0, ACCEPT)]}) == 0
        node.kill()
        one.close()
        node.start()
        other = ShareMember(node.kafka, "g", "t")
        assert other.fetch() == {(0, 2): (b"c", 1)}, "the first is done, the second is still locked"
        one.line, one.epoch = Line(node.kafka), 0
        assert one.beat().error_code == 0
        assert one.fetch() == {}
        assert one.outcome({0: [(1, 1, ACCEPT)]}) == 0, "the lock outlived the node"
        one.close()
        other.close()


def test_as_many_records_are_acquired_as_the_tenant_may_have_in_flight(
    shared_node: NodeProcess, kafka: str, line: Line
) -> None:
    topic, group = f"acme~{unique('t')}", f"acme~{unique('g')}"
    assert httpx.post(f"{shared_node.url}/admin/tenants", json={"name": "acme"}).status_code == 201
    assert line.ask(raw.new_topic(topic, 1)).topics[0].error_code == 0
    configure(line, group, share_auto_offset_reset="earliest")
    produce(line, topic, *[b"%d" % number for number in range(10)])
    quotas, limits = f"{shared_node.url}/admin/quotas", {"in_flight": 4}
    assert httpx.post(quotas, json={"tenant": "acme", "limits": limits}).status_code == 200
    member = ShareMember(kafka, group, topic)
    try:
        found: dict[tuple[int, int], tuple[bytes, int]] = {}
        wait_until(lambda: found.update(member.fetch(wait_ms=500)) or len(found) >= 4)
        assert sorted(found) == [(0, offset) for offset in range(4)]
        assert member.fetch(wait_ms=100) == {}, "nothing, and no error"
        assert sorted(member.fetch({0: [(0, 1, ACCEPT)]}, wait_ms=500)) == [(0, 4), (0, 5)]
    finally:
        member.close()
        assert httpx.delete(quotas, params={"tenant": "acme"}).status_code == 204

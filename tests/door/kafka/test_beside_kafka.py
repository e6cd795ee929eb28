"""The same requests to this node and to Apache Kafka, one by one: what tools and clients decide by is the same.

Skipped where Kafka cannot be had; `apache.py` says how it is found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.node_process import NodeProcess
from goqueue.core.groups.consumer_protocol import encode_assignment
from goqueue.wire.messages import (
    alter_configs,
    consumer_group_describe,
    delete_groups,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    heartbeat,
    init_producer_id,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    write_txn_markers,
)
from goqueue.wire.messages import incremental_alter_configs as incremental
from goqueue.wire.messages import list_config_resources as listing
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.core.groups.test_migration import subscription
from tests.door.kafka import raw
from tests.door.kafka.apache import ApacheKafka, find_jars
from tests.door.kafka.raw import Line, new_topic
from tests.waiting import wait_until

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
_numbers = itertools.count()

Case = Callable[[Line, str], Any]


@pytest.fixture(scope="module")
def kafka_beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    scratch = tmp_path_factory.mktemp("apache")
    jars = find_jars(scratch)
    if jars is None:
        pytest.skip("Apache Kafka's jars or Java are not here")
    with ApacheKafka(jars, scratch) as running:
        with Line(running.address) as line:  # the first request of these makes Kafka's own topics
            for kind in (0, 1):
                line.ask(FindCoordinatorRequest("warm-up", kind, ["warm-up"]))
            wait_until(lambda: line.ask(raw.beat("warm-up", "m", 0, ["none"], {})).error_code == 0)
            asked = init_producer_id.InitProducerIdRequest("warm-up", 60_000)
            wait_until(lambda: line.ask(asked, 5).error_code == 0)
        yield running


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("ours") / "data") as running:
        yield running


def make(line: Line, topic: str) -> None:
    """Kafka's new partitions have no leader for a moment."""
    line.ask(new_topic(topic, 1))
    wait_until(lambda: line.ask(raw.offsets_of(topic, 0, -1), 10).topics[0].partitions[0].error_code == 0)


def both(kafka_beside: ApacheKafka, ours: NodeProcess, case: Case) -> tuple[Any, Any]:
    """(what Kafka says, what this node says), each about a name of the case's own."""
    name = f"beside-{next(_numbers)}"
    answers = []
    for address in (kafka_beside.address, ours.kafka):
        with Line(address) as line:
            answers.append(case(line, name))
    return answers[0], answers[1]


def differences(theirs: dict[str, Any], mine: dict[str, Any]) -> dict[str, Any]:
    """By name: (what Kafka says, what this node says)."""
    return {name: (told, mine[name]) for name, told in theirs.items() if told != mine[name]}


# --- settings ------------------------------------------------------------------------------------------------


def described(line: Line, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    asked = describe_configs.DescribeConfigsResource(kind, name, list(keys) or None)
    return line.ask(describe_configs.DescribeConfigsRequest([asked], True, True), version).results[0]


def altered(line: Line, kind: int, name: str, *changes: tuple[str, int, str | None], check: bool = False) -> int:
    configs = [incremental.AlterableConfig(key, operation, value) for key, operation, value in changes]
    asked = incremental.AlterConfigsResource(kind, name, configs)
    code: int = line.ask(incremental.IncrementalAlterConfigsRequest([asked], check)).responses[0].error_code
    return code


def replaced(line: Line, kind: int, name: str, *values: tuple[str, str]) -> int:
    configs = [alter_configs.AlterableConfig(key, value) for key, value in values]
    asked = alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(kind, name, configs)])
    code: int = line.ask(asked).responses[0].error_code
    return code


def test_every_topic_setting_of_kafka_is_described_with_its_type_and_default(
    kafka_beside: ApacheKafka, ours: NodeProcess
) -> None:
    def case(line: Line, name: str) -> dict[str, Any]:
        make(line, name)
        found = {one.name: one for one in described(line, TOPIC, name).configs}
        return {
            key: (one.config_type, one.read_only, one.is_sensitive, bool(one.documentation), one.value)
            for key, one in found.items()
        }

    theirs, mine = both(kafka_beside, ours, case)
    ours_to_choose = {"segment.bytes", "max.message.bytes"}  # other defaults, as the reference says
    assert theirs.keys() <= mine.keys()
    for key, value in theirs.items():
        assert mine[key][:4] == value[:4], key
        assert key in ours_to_choose or mine[key][4] == value[4], key


GROUP_SOURCE = 8  # a setting of the group's own


def test_sources_and_synonyms_of_a_setting(kafka_beside: ApacheKafka, ours: NodeProcess) -> None:
    def seen(line: Line, kind: int, name: str, key: str) -> list[Any]:
        (one,) = described(line, kind, name, key).configs
        return [one.value, one.config_source, [(each.name, each.value, each.source) for each in one.synonyms]]

    def case(line: Line, name: str) -> list[Any]:
        make(line, name)
        told: list[Any] = [seen(line, TOPIC, name, "cleanup.policy"), seen(line, TOPIC, name, "delete.retention.ms")]
        told.append(altered(line, TOPIC, name, ("cleanup.policy", APPEND, "compact"), ("flush.ms", SET, "9")))
        told += [seen(line, TOPIC, name, "cleanup.policy"), seen(line, TOPIC, name, "flush.ms")]
        told.append(altered(line, TOPIC, name, ("cleanup.policy", SUBTRACT, "delete"), ("flush.ms", DELETE, None)))
        told += [seen(line, TOPIC, name, "cleanup.policy"), seen(line, TOPIC, name, "flush.ms")]
        told.append(altered(line, GROUP, name, ("consumer.session.timeout.ms", SET, "50000")))
        # Kafka shows a change a moment after it answered.
        wait_until(lambda: seen(line, GROUP, name, "consumer.session.timeout.ms")[1] == GROUP_SOURCE)
        told.append(seen(line, GROUP, name, "consumer.session.timeout.ms")[:2])
        told.append(altered(line, GROUP, name, ("consumer.session.timeout.ms", DELETE, None)))
        wait_until(lambda: seen(line, GROUP, name, "consumer.session.timeout.ms")[1] != GROUP_SOURCE)
        told.append(seen(line, GROUP, name, "consumer.session.timeout.ms")[1])
        return told

    theirs, mine = both(kafka_beside, ours, case)
    assert mine == theirs


REFUSED: list[tuple[int, str, list[tuple[str, int, str | None]]]] = [
    (TOPIC, "{}", [("retention.ms", SET, "abc")]),
    (TOPIC, "{}", [("nonsense", SET, "1")]),
    (TOPIC, "{}", [("nonsense", DELETE, None)]),
    (TOPIC, "{}", [("retention.ms", SET, None)]),
    (TOPIC, "{}", [("retention.ms", APPEND, "1")]),
    (TOPIC, "{}", [("flush.ms", SET, "abc")]),
    (TOPIC, "{}", [("preallocate", SET, "maybe")]),
    (TOPIC, "{}", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
    (TOPIC, "no-such-topic", [("retention.ms", SET, "1")]),
    (GROUP, "{}", [("consumer.session.timeout.ms", SET, "1")]),
    (GROUP, "{}", [("consumer.session.timeout.ms", SET, "abc")]),
    (GROUP, "{}", [("nonsense", SET, "1")]),
    (GROUP, "{}", [("consumer.heartbeat.interval.ms", SET, "60000")]),
    (GROUP, "{}", [("consumer.session.timeout.ms", APPEND, "5")]),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]),
    (BROKER, "0", [("num.partitions", SET, "5")]),
    (BROKER, "0", [("log.retention.ms", SET, "abc")]),
    (BROKER, "99", [("log.retention.ms", SET, "5")]),
    (BROKER, "x", [("log.retention.ms", SET, "5")]),
    (LOGGER, "0", [("root", SET, "LOUD")]),
    (LOGGER, "0", [("no.such", SET, "INFO")]),
    (LOGGER, "0", [("root", DELETE, None)]),
    (LOGGER, "77", [("root", SET, "INFO")]),
    (LOGGER, "", [("root", SET, "INFO")]),
    (99, "x", [("a", SET, "1")]),
]


@pytest.mark.parametrize("kind, resource, changes", REFUSED)
def test_changes_that_are_refused(
    kafka_beside: ApacheKafka,
    ours: NodeProcess,
    kind: int,
    resource: str,
    changes: list[tuple[str, int, str | None]],
) -> None:
    def case(line: Line, name: str) -> list[int]:
        make(line, name)
        which = resource.format(name)
        return [altered(line, kind, which, *changes), altered(line, kind, which, *changes, check=True)]

    theirs, mine = both(kafka_beside, ours, case)
    assert mine == theirs


def test_changes_that_are_taken_and_what_is_described_of_unknown_resources(
    kafka_beside: ApacheKafka, ours: NodeProcess
) -> None:
    def case(line: Line, name: str) -> list[Any]:
        make(line, name)
        told: list[Any] = [
            altered(line, LOGGER, "0", ("root", SET, "WARN")),
            [(one.name, one.value, one.config_source) for one in described(line, LOGGER, "0", "root").configs],
            replaced(line, LOGGER, "0", ("root", "INFO")),
            altered(line, BROKER, "0", ("log.retention.ms", SET, "5000000")),
            altered(line, BROKER, "", ("log.retention.ms", SET, "6000000")),
            altered(line, BROKER, "0", ("log.retention.ms", DELETE, None)),
            altered(line, BROKER, "", ("log.retention.ms", DELETE, None)),
            replaced(line, GROUP, name, ("consumer.session.timeout.ms", "46000")),
            replaced(line, TOPIC, name, ("retention.ms", "46000")),
            altered(line, GROUP, "only-checked", ("consumer.session.timeout.ms", SET, "50000"), check=True),
        ]
        for kind, which in ((4, "99"), (4, "x"), (2, "nope"), (2, ""), (8, "77"), (32, ""), (99, "x"), (0, "")):
            told.append(described(line, kind, which).error_code)
        told.append([len(described(line, TOPIC, name, "nonsense").configs)])
        for version, kinds in ((0, []), (1, [2]), (1, [4]), (1, [8]), (1, [16]), (1, [32]), (1, [99]), (1, [0])):
            found = line.ask(listing.ListConfigResourcesRequest(kinds), version)
            named = {one.resource_name for one in found.config_resources} & {name, "0", "only-checked"}
            told.append((found.error_code, sorted(named)))
        return told

    theirs, mine = both(kafka_beside, ours, case)
    assert mine == theirs


# --- versions ------------------------------------------------------------------------------------------------


def test_features_are_told_as_kafka_tells_them(kafka_beside: ApacheKafka, ours: NodeProcess) -> None:
    def case(line: Line, name: str) -> Any:
        told = line.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        supported = {one.name: (one.min_version, one.max_version) for one in told.supported_features}
        finalized = {one.name: (one.min_version_level, one.max_version_level) for one in told.finalized_features}
        wanted = ("group.version", "transaction.version")
        return [(supported[one], finalized[one]) for one in wanted], told.finalized_features_epoch >= 0

    theirs, mine = both(kafka_beside, ours, case)
    assert mine == theirs


# --- groups --------------------------------------------------------------------------------------------------


def commit(group: str, member: str, generation: int, topic: str, version: int = 9) -> tuple[Any, int]:
    part = offset_commit.OffsetCommitRequestPartition(0, 5)
    named = offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[part])
    return offset_commit.OffsetCommitRequest(group, generation, member, topics=[named]), version


def test_errors_of_members_and_groups_that_are_not_there(kafka_beside: ApacheKafka, ours: NodeProcess) -> None:
    def case(line: Line, name: str) -> dict[str, Any]:
        make(line, name)
        told: dict[str, Any] = {}
        for version in (0, 5, 6):
            (one,) = line.ask(describe_groups.DescribeGroupsRequest([name]), version).groups
            told[f"describe v{version}"] = (one.error_code, one.group_state, bool(one.error_message))
        (one,) = line.ask(consumer_group_describe.ConsumerGroupDescribeRequest([name])).groups
        told["consumer describe"] = (one.error_code, bool(one.error_message))
        (one,) = line.ask(delete_groups.DeleteGroupsRequest([name])).results
        told["delete"] = one.error_code
        told["heartbeat"] = line.ask(heartbeat.HeartbeatRequest(name, 1, "nobody")).error_code
        told["sync"] = line.ask(sync_group.SyncGroupRequest(name, 1, "nobody")).error_code
        told["join"] = line.ask(raw.join(name, "nobody"), 9).error_code
        for member in (leave_group.MemberIdentity("nobody", None), leave_group.MemberIdentity("", "nowhere")):
            left = line.ask(leave_group.LeaveGroupRequest(name, members=[member]))
            told[f"leave {member}"] = (left.error_code, [each.error_code for each in left.members])
        told["leave v2"] = line.ask(leave_group.LeaveGroupRequest(name, "nobody"), 2).error_code
        for epoch in (1, -1, -2):
            told[f"beat {epoch}"] = line.ask(raw.beat(name, "nobody", epoch)).error_code
        for who, generation in (("nobody", 1), ("", 1), ("nobody", -1), ("", -1)):
            request, version = commit(f"{name}-c", who, generation, name)
            (topic,) = line.ask(request, version).topics
            told[f"commit {who} {generation}"] = topic.partitions[0].error_code
        deleted = line.ask(offset_delete.OffsetDeleteRequest(name, []))
        told["offset delete"] = deleted.error_code
        asked = offset_fetch.OffsetFetchRequestGroup(name, topics=None)
        (group,) = line.ask(offset_fetch.OffsetFetchRequest(groups=[asked]), 9).groups
        told["offset fetch"] = (group.error_code, list(group.topics))
        asked = offset_fetch.OffsetFetchRequestGroup(name, "nobody", 3, topics=None)
        (group,) = line.ask(offset_fetch.OffsetFetchRequest(groups=[asked]), 9).groups
        told["offset fetch as a member"] = group.error_code
        told["no name"] = [
            line.ask(heartbeat.HeartbeatRequest("", 1, "nobody")).error_code,
            line.ask(raw.join("", ""), 9).error_code,
            line.ask(sync_group.SyncGroupRequest("", 1, "nobody")).error_code,
            line.ask(leave_group.LeaveGroupRequest("", members=[])).error_code,
            line.ask(raw.beat("", "m", 0, [name], {})).error_code,
            line.ask(delete_groups.DeleteGroupsRequest([""])).results[0].error_code,
            line.ask(describe_groups.DescribeGroupsRequest([""])).groups[0].error_code,
        ]
        return told

    theirs, mine = both(kafka_beside, ours, case)
    assert differences(theirs, mine) == {}


def test_errors_in_a_group_of_the_server_side_protocol(kafka_beside: ApacheKafka, ours: NodeProcess) -> None:
    def case(line: Line, name: str) -> dict[str, Any]:
        make(line, name)
        joined = line.ask(raw.beat(name, "m", 0, [name], {}))
        told: dict[str, Any] = {"joined": (joined.error_code, joined.member_epoch)}
        told["other member"] = line.ask(raw.beat(name, "nobody", 1)).error_code
        told["future epoch"] = line.ask(raw.beat(name, "m", 9)).error_code
        told["leave of another"] = line.ask(raw.beat(name, "nobody", -1)).error_code
        told["bad assignor"] = line.ask(raw.beat(name, "n", 0, [name], {}, server_assignor="none")).error_code
        (one,) = line.ask(describe_groups.DescribeGroupsRequest([name]), 6).groups
        told["classic describe"] = (one.error_code, one.group_state)
        (one,) = line.ask(describe_groups.DescribeGroupsRequest([name]), 5).groups
        told["classic describe v5"] = (one.error_code, one.group_state)
        (one,) = line.ask(consumer_group_describe.ConsumerGroupDescribeRequest([name])).groups
        told["describe"] = (one.error_code, one.group_state, one.members[0].member_type)
        told["delete"] = line.ask(delete_groups.DeleteGroupsRequest([name])).results[0].error_code
        for member, epoch in (("m", joined.member_epoch), ("m", 9), ("nobody", 1), ("", -1), ("m", -1)):
            request, version = commit(name, member, epoch, name)
            told[f"commit {member} {epoch}"] = line.ask(request, version).topics[0].partitions[0].error_code
        found = line.ask(list_groups.ListGroupsRequest())
        told["listed"] = [
            (one.protocol_type, one.group_state, one.group_type.lower()) for one in found.groups if one.group_id == name
        ]
        told["heartbeat"] = line.ask(heartbeat.HeartbeatRequest(name, 1, "m")).error_code
        told["left"] = line.ask(raw.beat(name, "m", -1)).error_code
        return told

    theirs, mine = both(kafka_beside, ours, case)
    assert differences(theirs, mine) == {}


def test_a_classic_group_that_moves_to_the_server_side_protocol_and_back(
    kafka_beside: ApacheKafka, ours: NodeProcess
) -> None:
    def case(line: Line, name: str) -> dict[str, Any]:
        make(line, name)
        spoken = {"cooperative-sticky": subscription([name])}
        asked = line.ask(raw.join(name, protocols=spoken), 9)
        told: dict[str, Any] = {"first join": asked.error_code}
        joined = line.ask(raw.join(name, asked.member_id, protocols=spoken), 9)
        me, generation = joined.member_id, joined.generation_id
        given = {me: encode_assignment({name: (0,)}, 1)}
        told["sync"] = line.ask(raw.sync(name, generation, me, given, "cooperative-sticky")).error_code
        new = line.ask(raw.beat(name, "n", 0, [name], {}))
        told["a consumer joins"] = (new.error_code, new.assignment is None or list(new.assignment.topic_partitions))
        told["heartbeat"] = line.ask(heartbeat.HeartbeatRequest(name, generation, me)).error_code
        told["wrong generation"] = line.ask(heartbeat.HeartbeatRequest(name, generation + 7, me)).error_code
        request, version = commit(name, me, generation, name)
        told["commit"] = line.ask(request, version).topics[0].partitions[0].error_code
        (found,) = line.ask(consumer_group_describe.ConsumerGroupDescribeRequest([name])).groups
        told["types"] = sorted(one.member_type for one in found.members)
        again = line.ask(raw.join(name, me, protocols=spoken), 9)
        told["join again"] = (again.error_code, again.leader, list(again.members), again.protocol_name)
        synced = line.ask(raw.sync(name, again.generation_id, me, protocol="cooperative-sticky"))
        told["sync again"] = synced.error_code
        told["left"] = line.ask(raw.beat(name, "n", -1)).error_code
        (listed,) = [one for one in line.ask(list_groups.ListGroupsRequest()).groups if one.group_id == name]
        told["back"] = listed.group_type.lower()
        told["heartbeat in the classic group"] = line.ask(
            heartbeat.HeartbeatRequest(name, again.generation_id, me)
        ).error_code
        return told

    theirs, mine = both(kafka_beside, ours, case)
    assert differences(theirs, mine) == {}


# --- transactions --------------------------------------------------------------------------------------------


def test_errors_of_transactions_that_are_not_there(kafka_beside: ApacheKafka, ours: NodeProcess) -> None:
    def case(line: Line, name: str) -> dict[str, Any]:
        make(line, name)
        told: dict[str, Any] = {}
        (one,) = line.ask(describe_transactions.DescribeTransactionsRequest([name])).transaction_states
        told["describe"] = one.error_code
        for topic, number in ((name, 0), (name, 7), ("no-such", 0)):
            asked = describe_producers.TopicRequest(topic, [number])
            (found,) = line.ask(describe_producers.DescribeProducersRequest([asked])).topics
            told[f"producers {number} {topic == name}"] = found.partitions[0].error_code
            marked = write_txn_markers.WritableTxnMarkerTopic(topic, [number])
            marker = write_txn_markers.WritableTxnMarker(77, 0, False, [marked], 0)
            (answer,) = line.ask(write_txn_markers.WriteTxnMarkersRequest([marker]), 1).markers
            told[f"markers {number} {topic == name}"] = answer.topics[0].partitions[0].error_code
        return told

    theirs, mine = both(kafka_beside, ours, case)
    assert differences(theirs, mine) == {}

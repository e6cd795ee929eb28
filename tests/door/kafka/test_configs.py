"""Settings of groups, nodes and loggers changed while the node runs: they hold at once, and those that last survive a
`kill -9`."""

from __future__ import annotations

from typing import Any

from bench.node_process import NodeProcess
from goqueue.base.topic_config import CONFIG_KEYS, KAFKA_ONLY
from goqueue.wire.messages import describe_configs as describing
from goqueue.wire.messages import incremental_alter_configs as altering
from goqueue.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, new_topic, unique
from tests.waiting import wait_until

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE = 0, 1
PASSWORD = 9
UNKNOWN_MEMBER = 25
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def described(line: Line, kind: int, name: str) -> dict[str, Any]:
    asked = describing.DescribeConfigsResource(kind, name, None)
    (found,) = line.ask(describing.DescribeConfigsRequest([asked], True, True)).results
    assert found.error_code == 0, found.error_message
    return {one.name: one for one in found.configs}


def alter(line: Line, kind: int, name: str, key: str, value: str | None) -> None:
    change = altering.AlterableConfig(key, DELETE if value is None else SET, value)
    asked = altering.IncrementalAlterConfigsRequest([altering.AlterConfigsResource(kind, name, [change])])
    (told,) = line.ask(asked).responses
    assert told.error_code == 0, told.error_message


def test_a_group_has_settings_of_its_own_at_once_and_after_a_crash(node: NodeProcess) -> None:
    with Line(node.kafka) as line:
        line.ask(new_topic("t", 1))
        before = line.ask(raw.beat("g", "m", 0, ["t"], {}))
        assert before.heartbeat_interval_ms == 3_000
        alter(line, GROUP, "g", HEARTBEAT, "700")
        assert line.ask(raw.beat("g", "m", before.member_epoch)).heartbeat_interval_ms == 700
        assert line.ask(raw.beat("other", "m", 0, ["t"], {})).heartbeat_interval_ms == 3_000
    node.kill()
    node.start()
    with Line(node.kafka) as line:
        assert line.ask(raw.beat("g", "m", before.member_epoch)).heartbeat_interval_ms == 700
        (listed,) = line.ask(ListConfigResourcesRequest([GROUP])).config_resources
        assert (listed.resource_name, described(line, GROUP, "g")[HEARTBEAT].value) == ("g", "700")
        alter(line, GROUP, "g", HEARTBEAT, None)
        assert line.ask(raw.beat("g", "m", before.member_epoch)).heartbeat_interval_ms == 3_000
        assert not line.ask(ListConfigResourcesRequest([GROUP])).config_resources


def test_a_silent_member_is_removed_after_its_groups_session(node: NodeProcess) -> None:
    with Line(node.kafka) as line:
        line.ask(new_topic("t", 1))
        alter(line, GROUP, "g", SESSION, "6000")
        silent = line.ask(raw.beat("g", "silent", 0, ["t"], {}))
        # A heartbeat with a wrong epoch is refused, and does not count as one.
        assert wait_until(
            lambda: line.ask(raw.beat("g", "silent", silent.member_epoch + 99)).error_code == UNKNOWN_MEMBER
        )


def test_defaults_of_topics_are_changed_while_the_node_runs_and_survive_a_crash(node: NodeProcess) -> None:
    def retention(line: Line, topic: str) -> tuple[str, int]:
        entry = described(line, TOPIC, topic)["retention.ms"]
        return entry.value, entry.config_source

    with Line(node.kafka) as line:
        for name in ("unsaid", "said"):
            line.ask(new_topic(name, 1))
        alter(line, TOPIC, "said", "retention.ms", "77")
        alter(line, BROKER, "", "log.retention.ms", "6000000")
        assert retention(line, "unsaid") == ("6000000", 3)
        alter(line, BROKER, "0", "log.retention.ms", "5000000")
        assert retention(line, "unsaid") == ("5000000", 2) and retention(line, "said") == ("77", 1)
    node.kill()
    node.start()
    with Line(node.kafka) as line:
        assert retention(line, "unsaid") == ("5000000", 2)
        alter(line, BROKER, "0", "log.retention.ms", None)
        alter(line, BROKER, "", "log.retention.ms", None)
        assert retention(line, "unsaid") == ("604800000", 5)


def test_a_logger_is_told_to_speak(node: NodeProcess) -> None:
    logger = "goqueue.edge.kafka.connection"
    with Line(node.kafka) as line:
        assert described(line, LOGGER, "0")[logger].value == "INFO"
        alter(line, LOGGER, "0", logger, "ERROR")
        assert described(line, LOGGER, "0")[logger].value == "ERROR"
        with Line(node.kafka) as broken:
            broken.socket.sendall(b"\x7f\xff\xff\xff")
            assert broken.is_closed_by_the_node()
        assert "connection closed" not in node.stderr
        alter(line, LOGGER, "0", logger, None)
        with Line(node.kafka) as broken:
            broken.socket.sendall(b"\x7f\xff\xff\xff")
            assert broken.is_closed_by_the_node()
        assert "connection closed" in node.stderr


def test_every_topic_setting_is_described_and_those_without_effect_say_so(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        found = described(line, TOPIC, topic)
    shown = {name for name, one in KAFKA_ONLY.items() if one.default is not None}
    assert found.keys() == CONFIG_KEYS.keys() | shown
    for name, entry in found.items():
        assert ("without effect" in entry.documentation) == (name in KAFKA_ONLY), name
        assert not entry.read_only and entry.config_type


def test_secrets_are_not_shown(tmp_path: Any) -> None:
    settings = {"GOQUEUE_TRACES_OTLP_HEADERS": "authorization=hunter2"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, Line(node.kafka) as line:
        entry = described(line, BROKER, "0")["traces.otlp_headers"]
        assert (entry.value, entry.is_sensitive, entry.config_type) == (None, True, PASSWORD)
        assert not entry.synonyms


def test_the_number_of_groups_with_settings_is_bounded(kafka: str) -> None:
    with Line(kafka) as line:
        change = altering.AlterableConfig(SESSION, SET, "50000")
        asked = altering.AlterConfigsResource(GROUP, unique("g") + "x" * 2_000, [change])
        (told,) = line.ask(altering.IncrementalAlterConfigsRequest([asked])).responses
    assert told.error_code == 24

"""The node's settings: three sources, their order, and every mistake in one go."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.base.settings import Settings, load_settings, parse_address, parse_size, setting_keys
from goqueue.base.startup_errors import SettingsInvalid


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "goqueue.toml"
    file.write_text(text)
    return file


def mistakes_of(file: Path | None, environ: dict[str, str], flags: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(file, environ, flags or {})
    mistakes = caught.value.detail["mistakes"]
    assert isinstance(mistakes, list)
    assert all(mistake in caught.value.message for mistake in mistakes)
    return mistakes


def test_nothing_given_means_the_defaults() -> None:
    assert load_settings(None, {}, {}) == Settings()


def test_the_defaults_are_the_promised_ones() -> None:
    settings = Settings()
    assert (settings.log.fsync, settings.log.fsync_interval_ms) == ("interval", 1_000)
    assert (settings.log.disk_used_percent_max, settings.topics.partitions) == (90, 3)
    assert settings.topics.retention_ms == 168 * 3_600_000 and settings.topics.segment_bytes == 64 << 20
    assert settings.rest.listen == "127.0.0.1:8080"


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, '[log]\nfsync = "never"\n[topics]\npartitions = 4\n[data]\ndir = "/a"\n')
    settings = load_settings(
        file,
        {"GOQUEUE_LOG_FSYNC": "always", "GOQUEUE_DATA_DIR": "/b", "PATH": "/bin"},
        {"data.dir": "/c"},
    )
    assert (settings.data.dir, settings.log.fsync, settings.topics.partitions) == ("/c", "always", 4)


def test_every_setting_can_be_given_in_every_way(tmp_path: Path) -> None:
    for key in setting_keys():
        default = key.default
        shown = f'"{default}"' if isinstance(default, str) else str(default).lower()
        file = written(tmp_path, f"[{key.section}]\n{key.name} = {shown}\n")
        assert load_settings(file, {}, {}) == Settings(), key.dotted
        assert load_settings(None, {key.variable: str(default).lower()}, {}) == Settings(), key.dotted
        assert load_settings(None, {}, {key.dotted: str(default).lower()}) == Settings(), key.dotted
        assert key.doc.endswith("."), key.dotted


def test_variables_are_named_after_section_and_key() -> None:
    assert {key.dotted: key.variable for key in setting_keys()}["log.fsync"] == "GOQUEUE_LOG_FSYNC"


def test_durations_and_sizes_are_written_with_units(tmp_path: Path) -> None:
    file = written(tmp_path, '[topics]\nretention_ms = "7d"\nsegment_bytes = "16MiB"\n')
    settings = load_settings(file, {"GOQUEUE_LOG_FSYNC_INTERVAL_MS": "2s", "GOQUEUE_REST_BODY_BYTES_MAX": "8 KiB"}, {})
    assert settings.topics.retention_ms == 7 * 86_400_000 and settings.topics.segment_bytes == 16 << 20
    assert settings.log.fsync_interval_ms == 2_000 and settings.rest.body_bytes_max == 8_192


def test_minus_one_means_no_bound_as_text_and_as_number(tmp_path: Path) -> None:
    file = written(tmp_path, "[topics]\nretention_ms = -1\nretention_bytes = -1\n")
    assert load_settings(file, {}, {}).topics.retention_ms == -1
    variables = {"GOQUEUE_TOPICS_RETENTION_MS": "-1", "GOQUEUE_TOPICS_RETENTION_BYTES": "-1"}
    assert load_settings(None, variables, {}).topics.retention_ms == -1


def test_all_mistakes_of_all_sources_are_listed_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, '[log]\nfsync = "sometimes"\nfsnyc = "always"\n[nothing]\nx = 1\n')
    mistakes = mistakes_of(
        file, {"GOQUEUE_TOPICS_PARTITIONS": "many", "GOQUEUE_LGO_FSYNC": "x"}, {"rest.drain_ms": "?"}
    )
    assert len(mistakes) == 6
    for word in (
        "log.fsync",
        "log.fsnyc",
        "nothing.x",
        "GOQUEUE_TOPICS_PARTITIONS",
        "GOQUEUE_LGO_FSYNC",
        "rest.drain_ms",
    ):
        assert any(word in mistake for mistake in mistakes), word


def test_an_unknown_key_comes_with_the_nearest_known_one(tmp_path: Path) -> None:
    mistakes = mistakes_of(written(tmp_path, '[log]\nfsnyc = "always"\n'), {"GOQUEUE_LOG_FSINC": "always"})
    assert "did you mean log.fsync?" in mistakes[0]
    assert "did you mean GOQUEUE_LOG_FSYNC?" in mistakes[1]


def test_a_mistake_names_its_source_and_value(tmp_path: Path) -> None:
    file = written(tmp_path, "[topics]\npartitions = 0\n")
    [from_file] = mistakes_of(file, {})
    assert "goqueue.toml" in from_file and "topics.partitions" in from_file and "0" in from_file
    [from_variable] = mistakes_of(None, {"GOQUEUE_TOPICS_PARTITIONS": "-3"})
    assert "GOQUEUE_TOPICS_PARTITIONS" in from_variable and "-3" in from_variable


@pytest.mark.parametrize("text", ["[log", "log = ", "= 3", "[log]\nfsync = always\n", "[log]\nfsync = 1\nfsync = 2\n"])
def test_bad_toml_is_a_mistake_and_not_a_crash(tmp_path: Path, text: str) -> None:
    [mistake] = mistakes_of(written(tmp_path, text), {})
    assert "cannot be read" in mistake


def test_a_file_that_is_missing_or_no_text_is_a_mistake(tmp_path: Path) -> None:
    assert "cannot be read" in mistakes_of(tmp_path / "absent.toml", {})[0]
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in mistakes_of(tmp_path / "binary.toml", {})[0]
    assert "cannot be read" in mistakes_of(tmp_path, {})[0]


def test_a_bad_file_does_not_hide_bad_variables(tmp_path: Path) -> None:
    assert len(mistakes_of(written(tmp_path, "[log"), {"GOQUEUE_LOG_FSYNC": "perhaps"})) == 2


@pytest.mark.parametrize(
    "text",
    [
        "fsync = 'always'\n",
        "[[log]]\nfsync = 'always'\n",
        "[log]\nfsync = 1979-05-27\n",
        "[log.fsync]\nx = 1\n",
        "[topics]\npartitions = true\n",
        "[topics]\npartitions = 2.5\n",
        "[topics]\nauto_create = 3\n",
        "[data]\ndir = 3\n",
    ],
)
def test_a_value_of_the_wrong_kind_is_a_mistake(tmp_path: Path, text: str) -> None:
    assert len(mistakes_of(written(tmp_path, text), {})) == 1


@pytest.mark.parametrize(
    "variables",
    [
        {"GOQUEUE_REST_LISTEN": "nowhere"},
        {"GOQUEUE_REST_LISTEN": "host:99999"},
        {"GOQUEUE_REST_LISTEN": "host:"},
        {"GOQUEUE_REST_BODY_BYTES_MAX": "1GiB"},
        {"GOQUEUE_TOPICS_SEGMENT_BYTES": "1TiB"},
        {"GOQUEUE_TOPICS_MAX_MESSAGE_BYTES": "1TiB"},
        {"GOQUEUE_TOPICS_SEGMENT_BYTES": "10"},
    ],
)
def test_what_cannot_work_together_is_a_mistake(variables: dict[str, str]) -> None:
    assert len(mistakes_of(None, variables)) == 1


def test_a_bad_address_is_listed_beside_other_mistakes() -> None:
    assert len(mistakes_of(None, {"GOQUEUE_REST_LISTEN": "nowhere", "GOQUEUE_LOG_FSYNC": "perhaps"})) == 2


def test_a_duration_beyond_all_measure_is_a_mistake() -> None:
    assert len(mistakes_of(None, {"GOQUEUE_TOPICS_RETENTION_MS": "9" * 400 + "d"})) == 1


def test_every_time_takes_a_duration() -> None:
    assert load_settings(None, {"GOQUEUE_REST_POLL_MS_MAX": "20s"}, {}).rest.poll_ms_max == 20_000


def test_the_clients_own_variable_is_left_alone() -> None:
    assert load_settings(None, {"GOQUEUE_SERVER": "http://somewhere"}, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("65536", 65_536), ("1B", 1), ("64KiB", 65_536), ("16 MiB", 16 << 20), ("2TiB", 2 << 40)],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5MiB", "1KB", "KiB", "1 2", "0x10"])
def test_a_bad_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("host:0", ("host", 0)),
        ("[::1]:9092", ("::1", 9092)),
        (":8080", ("0.0.0.0", 8080)),
        ("off", None),
    ],
)
def test_an_address_is_read(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:-1", "host:65536", "host:http", "OFF"])
def test_a_bad_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_address(text)


def test_a_word_that_is_no_choice_is_answered_with_the_choices() -> None:
    with pytest.raises(SettingsInvalid, match="use always, interval or never"):
        load_settings(None, {}, {"log.fsync": "sometimes"})


def test_the_node_s_number_comes_from_the_host_s_name_and_goes_into_addresses() -> None:
    environ = {
        "GOQUEUE_NODE_ID_FROM": "hostname",
        "GOQUEUE_KAFKA_ADVERTISED": "goqueue-{id}.goqueue:9092",
        "GOQUEUE_KAFKA_EXTERNAL_ADVERTISED": "10.0.0.1:31090+{id}",
        "GOQUEUE_CLUSTER_ADVERTISED": "goqueue-{id}.goqueue:9093",
    }
    for name in ("goqueue-12", "goqueue-12.goqueue.default.svc.cluster.local"):
        found = load_settings(None, environ, {}, hostname=name)
        assert found.node.id == 12
        assert found.kafka.advertised == "goqueue-12.goqueue:9092"
        assert found.kafka.external_advertised == "10.0.0.1:31102"
        assert found.cluster.advertised == "goqueue-12.goqueue:9093"
    assert load_settings(None, environ | {"GOQUEUE_NODE_ID_FROM": "setting"}, {}).node.id == 0


def test_a_host_s_name_without_a_number_is_a_mistake() -> None:
    with pytest.raises(SettingsInvalid, match=r"node\.id_from: the host's name 'web' has no number"):
        load_settings(None, {"GOQUEUE_NODE_ID_FROM": "hostname"}, {}, hostname="web")


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ({"GOQUEUE_KAFKA_LISTEN": "off"}, "open the first too"),
        ({"GOQUEUE_NODE_PROCESSES": "2"}, "several processes have one listener each"),
        ({"GOQUEUE_KAFKA_EXTERNAL_ADVERTISED": "nonsense"}, "kafka.external_advertised: 'nonsense' is not an address"),
        ({"GOQUEUE_KAFKA_EXTERNAL_ADVERTISED": "a:65535+{id}", "GOQUEUE_NODE_ID": "1"}, "'a:65536' is not an address"),
    ],
)
def test_a_second_listener_that_cannot_be(more: dict[str, str], mistake: str) -> None:
    found = mistakes_of(None, {"GOQUEUE_KAFKA_EXTERNAL_LISTEN": "127.0.0.1:9094", **more})
    assert any(mistake in one for one in found)


@pytest.mark.parametrize(
    ("environ", "mistake"),
    [
        ({"GOQUEUE_CLUSTER_STORE": "etcd://a:1", "GOQUEUE_CLUSTER_LISTEN": "off"}, "the other nodes need an address"),
        ({"GOQUEUE_CLUSTER_STORE": "etcd://a:1", "GOQUEUE_CLUSTER_ADVERTISED": "off"}, "the other nodes need an"),
        ({"GOQUEUE_DATA_DIR": ""}, "data.dir: it is empty"),
    ],
)
def test_what_a_node_cannot_do_without(environ: dict[str, str], mistake: str) -> None:
    assert any(mistake in one for one in mistakes_of(None, environ))


def test_the_rack_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rack"
    file.write_text("eu-west-1a\n")
    chosen = {"GOQUEUE_CLUSTER_RACK_FILE": str(file), "GOQUEUE_NODE_HOST": "node-{id}.example.org"}
    found = load_settings(None, chosen, {})
    assert (found.cluster.rack, found.node.host) == ("eu-west-1a", "node-0.example.org")
    file.write_text("two words")
    assert any("does not hold the name of a rack" in one for one in mistakes_of(None, chosen))
    file.unlink()
    assert any("cluster.rack_file: " in one for one in mistakes_of(None, chosen))

"""What a topic can be told: parsing, all mistakes at once, and the way over defaults."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import InvalidConfig
from goqueue.base.topic_config import CONFIG_KEYS, TopicConfig, as_text, parse_overrides, resolve


def test_the_documented_keys_are_exactly_the_fields() -> None:
    assert set(CONFIG_KEYS) == set(as_text(TopicConfig()))
    assert all(key.doc.endswith(".") for key in CONFIG_KEYS.values())


def test_the_defaults_are_the_promised_ones_and_legal() -> None:
    config = TopicConfig()
    assert (config.retention_ms, config.segment_bytes) == (168 * 3_600_000, 64 << 20)
    assert (config.max_message_bytes, config.cleanup_policy) == (16 << 20, "delete")
    assert resolve(parse_overrides(as_text(config)), config) == config


def test_numbers_and_text_are_taken_alike() -> None:
    assert parse_overrides({"retention.ms": 5, "segment.bytes": "2048"}) == {
        "retention.ms": "5",
        "segment.bytes": "2048",
    }


def test_overrides_go_over_defaults() -> None:
    defaults = TopicConfig(retention_ms=7, segment_bytes=4_096)
    config = resolve({"retention.ms": "-1", "cleanup.policy": "compact"}, defaults)
    assert (config.retention_ms, config.segment_bytes, config.cleanup_policy) == (-1, 4_096, "compact")
    assert config.compacts and not config.deletes


@pytest.mark.parametrize("text", ["delete,compact", " delete , compact ", "delete,compact,delete"])
def test_both_policies_are_kept_in_the_order_given(text: str) -> None:
    stored = parse_overrides({"cleanup.policy": text})
    assert stored == {"cleanup.policy": "delete,compact"}
    config = resolve(stored, TopicConfig())
    assert config.compacts and config.deletes


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_overrides({"retention.ms": -2, "no.such": 1, "cleanup.policy": "shred", "segment.bytes": 2_048})
    assert set(caught.value.detail["mistakes"]) == {"retention.ms", "no.such", "cleanup.policy"}  # type: ignore[call-overload]
    assert caught.value.field == "config"
    assert all(name in caught.value.message for name in ("retention.ms", "no.such", "cleanup.policy"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", ""),
        ("retention.ms", None),
        ("retention.ms", True),
        ("retention.ms", [1]),
        ("retention.ms", 1.5),
        ("retention.bytes", -2),
        ("segment.bytes", 0),
        ("segment.bytes", 1_023),
        ("segment.bytes", 2**31),
        ("segment.ms", 0),
        ("cleanup.policy", "compact;delete"),
        ("compression.type", "brotli"),
        ("max.message.bytes", 0),
        ("max.message.bytes", 2**40),
        ("min.insync.replicas", 0),
        ("message.timestamp.type", "createtime"),
        ("delete.retention.ms", -1),
        ("min.cleanable.dirty.ratio", 1.01),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "-inf"),
        ("partitioner", "md5"),
        ("Retention.Ms", 1),
        ("retention_ms", 1),
    ],
)
def test_a_bad_value_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_overrides({name: value})
    assert name in caught.value.detail["mistakes"]  # type: ignore[operator]


@given(st.dictionaries(st.sampled_from(sorted(CONFIG_KEYS)), st.text(max_size=12) | st.integers() | st.floats()))
def test_what_is_stored_is_always_resolvable(given_config: dict[str, object]) -> None:
    try:
        stored = parse_overrides(given_config)
    except InvalidConfig:
        return
    config = resolve(stored, TopicConfig())
    assert msgspec.convert(msgspec.to_builtins(config), TopicConfig) == config
    assert parse_overrides(stored) == stored


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes", "segment.ms", "delete.retention.ms"])
def test_a_number_beyond_64_bits_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_overrides({name: 2**64})


def test_kafkas_other_settings_are_taken_without_effect() -> None:
    stored = parse_overrides({"flush.ms": 5, "preallocate": "true"})
    assert stored == {"flush.ms": "5", "preallocate": "true"}
    assert resolve(stored, TopicConfig()) == TopicConfig()


def test_a_topic_may_have_no_policy_at_all() -> None:
    config = resolve(parse_overrides({"cleanup.policy": ""}), TopicConfig())
    assert not config.compacts and not config.deletes

"""Who may do what: the decisions of access control."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.access import (
    CLUSTER,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclRule,
    ResourceKind,
    mistake_in,
    parse_operation,
    parse_pattern,
    parse_resource,
)
from goqueue.base.errors import InvalidField
from goqueue.core.acls import AclTable, matches

OP, KIND = AclOperation, ResourceKind
HOST = "10.0.0.7"


def rule(text: str) -> AclRule:
    """`allow alice read topic:orders-*`, and a host if there is one."""
    permission, user, operation, resource, *host = text.split()
    kind, name, pattern = parse_pattern(resource)
    return AclRule(f"User:{user}", AclPermission(permission), OP(operation), kind, name, pattern, *host)


def may(rules: list[str], asked: str, supers: tuple[str, ...] = ()) -> bool:
    user, operation, resource, *host = asked.split()
    table = AclTable(map(rule, rules), supers)
    return table.decide(user, host[0] if host else HOST, OP(operation), parse_resource(resource)).is_allowed


def test_without_a_rule_nobody_may_anything_but_super_users() -> None:
    assert not may([], "alice read topic:orders")
    assert may(["deny alice all topic:*"], "alice read topic:orders", ("alice",))
    assert not may([], "alice read topic:orders", ("bob",))


def test_a_rule_holds_for_its_user_operation_thing_and_host() -> None:
    rules = ["allow alice write topic:orders 10.0.0.7"]
    assert may(rules, "alice write topic:orders")
    for other in (
        "bob write topic:orders",
        "alice read topic:orders",
        "alice write topic:order",
        "alice write topic:orders2",
        "alice write group:orders",
        "alice write topic:orders 10.0.0.8",
    ):
        assert not may(rules, other), other


def test_names_are_literal_prefixed_or_all() -> None:
    assert may(["allow alice read topic:*"], "alice read topic:orders")
    assert may(["allow alice read topic:ord*"], "alice read topic:orders")
    assert may(["allow alice read topic:ord*"], "alice read topic:ord")
    assert not may(["allow alice read topic:ord*"], "alice read topic:or")
    assert not may(["allow alice read topic:ord*"], "alice read topic:*"), "all topics are more than some"
    assert may(["allow * read topic:orders"], "anybody read topic:orders")


def test_deny_wins_however_specific_the_other_rule_is() -> None:
    rules = ["allow alice read topic:orders", "allow alice all topic:*"]
    for deny in (
        "deny alice read topic:orders",
        "deny alice all topic:orders",
        "deny * read topic:ord*",
        "deny alice read topic:* 10.0.0.7",
    ):
        assert not may([*rules, deny], "alice read topic:orders"), deny
    assert may([*rules, "deny alice read topic:* 10.0.0.8"], "alice read topic:orders")
    assert may([*rules, "deny bob all topic:*"], "alice read topic:orders")


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter", "all"])
def test_who_may_do_something_may_look(operation: str) -> None:
    assert may([f"allow alice {operation} topic:orders"], "alice describe topic:orders")


def test_what_is_denied_implies_nothing() -> None:
    assert may(["allow alice describe topic:orders", "deny alice read topic:orders"], "alice describe topic:orders")


def test_who_may_change_settings_may_see_them() -> None:
    assert may(["allow alice alter_configs topic:orders"], "alice describe_configs topic:orders")
    assert not may(["allow alice alter_configs topic:orders"], "alice describe topic:orders")
    assert not may(["allow alice describe topic:orders"], "alice describe_configs topic:orders")


def test_who_may_create_in_the_cluster_may_create_topics_that_are_not_denied() -> None:
    rules = ["allow alice create cluster"]
    assert may(rules, "alice create topic:orders")
    assert not may([*rules, "deny alice create topic:orders"], "alice create topic:orders")
    assert not may(rules, "alice delete topic:orders")


def test_who_may_write_to_a_topic_may_be_an_idempotent_producer() -> None:
    asked = "alice idempotent_write cluster"
    assert may(["allow alice write topic:orders"], asked)
    assert may(["allow alice write topic:ord*"], asked)
    assert may(["allow alice idempotent_write cluster"], asked)
    assert not may(["allow alice read topic:orders"], asked)
    assert not may(["allow alice write topic:orders", "deny alice write topic:*"], asked)
    assert not may(["allow alice write topic:orders", "deny alice write topic:ord*"], asked)
    assert not may(["allow alice write topic:orders", "deny alice idempotent_write cluster"], asked)


def test_a_ruling_names_the_rule_that_decides() -> None:
    rules = [rule("allow alice all topic:*"), rule("deny * write topic:ord*")]
    table = AclTable(rules)
    orders = AclResource(KIND.TOPIC, "orders")
    assert table.decide("alice", HOST, OP.WRITE, orders).rule == rules[1]
    assert table.decide("alice", HOST, OP.READ, orders).rule == rules[0]
    assert table.decide("bob", HOST, OP.READ, orders).rule is None
    assert table.decide("bob", HOST, OP.READ, CLUSTER).reason == "no rule allows it"


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
RULES = st.builds(
    AclRule,
    st.sampled_from(["User:x", "User:y", "User:*"]),
    st.sampled_from(AclPermission),
    st.sampled_from([OP.READ, OP.WRITE, OP.DESCRIBE, OP.ALL]),
    st.sampled_from([KIND.TOPIC, KIND.GROUP]),
    NAMES,
    st.sampled_from(AclPattern),
    st.sampled_from(["*", HOST, "h"]),
)


@given(st.lists(RULES, max_size=8), st.sampled_from(["x", "y", "z"]), st.sampled_from([OP.READ, OP.DESCRIBE]), NAMES)
def test_decisions_are_those_of_the_rules_read_one_by_one(
    rules: list[AclRule], user: str, operation: AclOperation, name: str
) -> None:
    implied = {OP.READ: {OP.READ, OP.ALL}, OP.DESCRIBE: {OP.DESCRIBE, OP.READ, OP.WRITE, OP.ALL}}[operation]

    def holds(one: AclRule) -> bool:
        if one.principal not in (f"User:{user}", "User:*") or one.host not in ("*", HOST) or one.kind is not KIND.TOPIC:
            return False
        if one.pattern is AclPattern.PREFIXED:
            return name.startswith(one.name)
        return one.name in (name, "*")

    held = [one for one in rules if holds(one)]
    denied = any(one.permission is AclPermission.DENY and one.operation in (operation, OP.ALL) for one in held)
    allowed = any(one.permission is AclPermission.ALLOW and one.operation in implied for one in held)
    found = AclTable(rules).decide(user, HOST, operation, AclResource(KIND.TOPIC, name))
    assert found.is_allowed == (allowed and not denied)


def test_filters_mean_rules_by_every_part() -> None:
    one = rule("allow alice read topic:ord* 10.0.0.7")
    assert matches(AclFilter(), one)
    assert matches(AclFilter(KIND.TOPIC, "ord", AclPattern.PREFIXED, principal="User:alice"), one)
    assert matches(AclFilter(name="orders", matches_name=True), one)
    assert matches(AclFilter(name="orders", matches_name=True), rule("allow alice read topic:*"))
    for other in (
        AclFilter(KIND.GROUP),
        AclFilter(name="orders"),
        AclFilter(name="other", matches_name=True),
        AclFilter(pattern=AclPattern.LITERAL),
        AclFilter(principal="User:bob"),
        AclFilter(host="*"),
        AclFilter(operation=OP.ALL),
        AclFilter(permission=AclPermission.DENY),
    ):
        assert not matches(other, one), other


@pytest.mark.parametrize(
    "change",
    [
        {"principal": "alice"},
        {"principal": "User:"},
        {"name": ""},
        {"host": ""},
        {"host": "10.0.0.0/8"},
        {"host": "a b"},
    ],
)
def test_what_is_no_rule_is_told(change: dict[str, str]) -> None:
    sound = {"principal": "User:a", "name": "orders", "host": "*"}
    given_ = sound | change
    made = AclRule(given_["principal"], AclPermission.ALLOW, OP.READ, KIND.TOPIC, given_["name"], host=given_["host"])
    assert mistake_in(made)
    assert not mistake_in(AclRule("User:a", AclPermission.ALLOW, OP.READ, KIND.TOPIC, "orders"))


def test_there_is_one_cluster() -> None:
    assert mistake_in(AclRule("User:a", AclPermission.ALLOW, OP.READ, KIND.CLUSTER, "other"))
    assert parse_resource("cluster") == CLUSTER


def test_words_of_people_are_read_and_mistakes_named() -> None:
    assert parse_operation("Alter-Configs") is OP.ALTER_CONFIGS
    for text in ("steal", ""):
        with pytest.raises(InvalidField, match="no operation"):
            parse_operation(text)
    for text in ("orders", "thing:orders"):
        with pytest.raises(InvalidField, match="no resource"):
            parse_resource(text)
    with pytest.raises(InvalidField, match="names nothing"):
        parse_resource("topic:")

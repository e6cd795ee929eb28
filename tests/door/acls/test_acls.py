"""Rules of access control through stock clients: made, kept, asked, and followed at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bench.node_process import NodeProcess

SECURED = {"GOQUEUE_SECURITY_AUTHORIZATION": "acl"}
ALL: Any = None  # in a filter
ANY = AclBindingFilter(
    ResourceType.ANY, ALL, ResourcePatternType.ANY, ALL, ALL, AclOperation.ANY, AclPermissionType.ANY
)
T = 20


def code_of(error: KafkaError | None) -> int | None:
    return None if error is None else error.code()


def binding(
    name: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:anonymous", "*", operation, permission)


def admin_of(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.kafka})


def add(admin: AdminClient, *bindings: AclBinding) -> None:
    for future in admin.create_acls(list(bindings)).values():
        future.result(T)


def found(admin: AdminClient, wanted: AclBindingFilter = ANY) -> set[tuple[str, str]]:
    return {(one.name, one.operation.name) for one in admin.describe_acls(wanted).result(T)}


def test_a_stock_admin_makes_lists_and_deletes_rules_and_they_survive_a_restart(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        admin = admin_of(node)
        assert found(admin) == set()
        add(
            admin,
            binding("orders", AclOperation.READ),
            binding("ord", AclOperation.WRITE, pattern=ResourcePatternType.PREFIXED),
            binding("kafka-cluster", AclOperation.ALTER, ResourceType.BROKER),
        )
        add(admin, binding("orders", AclOperation.READ))  # once more is the same rule
        rule = {"principal": "User:a", "permission": "allow", "operation": "read", "kind": "subject", "name": "s"}
        assert httpx.post(f"{node.url}/admin/acls", json={"rules": [rule]}).status_code == 201
    with NodeProcess(tmp_path) as node:
        admin = admin_of(node)
        assert found(admin) == {("orders", "READ"), ("ord", "WRITE"), ("kafka-cluster", "ALTER")}
        matching = AclBindingFilter(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.MATCH,
            ALL,
            ALL,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        assert found(admin, matching) == {("orders", "READ"), ("ord", "WRITE")}
        gone = [future.result(T) for future in admin.delete_acls([ANY]).values()]
        assert {one.name for one in gone[0]} == {"orders", "ord", "kafka-cluster"}
        assert found(admin) == set()
        kept = httpx.get(f"{node.url}/admin/acls").json()
        assert [one["name"] for one in kept["rules"]] == ["s"], "Kafka's tools do not delete what they cannot name"
        assert kept["enforced"] is False


def test_what_is_no_rule_is_refused_by_itself(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        wrong = {"principal": "anonymous", "permission": "allow", "operation": "read", "kind": "topic", "name": "t"}
        answer = httpx.post(f"{node.url}/admin/acls", json={"rules": [wrong]})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-field")
        assert httpx.delete(f"{node.url}/admin/acls").status_code == 400
        bad = AclBinding(
            ResourceType.TOPIC,
            "t",
            ResourcePatternType.LITERAL,
            "nobody",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        admin = admin_of(node)
        [future] = admin.create_acls([bad]).values()
        with pytest.raises(KafkaException) as caught:
            future.result(T)
        assert caught.value.args[0].code() == KafkaError.INVALID_REQUEST


def prepared(directory: Path, *bindings: AclBinding) -> None:
    """Topics `orders` and `secret`, a message in each, and rules, by somebody who may everything."""
    with NodeProcess(directory, settings=SECURED | {"GOQUEUE_SECURITY_SUPER_USERS": "anonymous"}) as node:
        admin = admin_of(node)
        for future in admin.create_topics([NewTopic("orders", 1), NewTopic("secret", 1)]).values():
            future.result(T)
        for topic in ("orders", "secret"):
            httpx.post(f"{node.url}/topics/{topic}/messages", json={"messages": [{"value": "m"}]}).raise_for_status()
        if bindings:
            add(admin, *bindings)


def test_what_a_caller_may_not_see_does_not_exist_for_it(tmp_path: Path) -> None:
    see = binding("orders", AclOperation.READ), binding("kafka-cluster", AclOperation.DESCRIBE, ResourceType.BROKER)
    prepared(tmp_path, *see)
    with NodeProcess(tmp_path, settings=SECURED) as node, httpx.Client(base_url=node.url) as rest:
        assert set(admin_of(node).list_topics(timeout=T).topics) == {"orders"}
        assert [one["name"] for one in rest.get("/topics").json()["topics"]] == ["orders"]
        hidden, missing = (admin_of(node).list_topics(name, timeout=T).topics[name] for name in ("secret", "nothing"))
        assert code_of(hidden.error) == code_of(missing.error) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        there, absent = rest.get("/topics/secret"), rest.get("/topics/nothing")
        assert there.status_code == absent.status_code == 403
        assert there.json() == absent.json()
        assert rest.get("/topics/orders/messages").json()["messages"]
        assert rest.get("/topics/secret/messages").status_code == 403
        answer = rest.get(
            "/admin/acls/explain", params={"user": "bob", "operation": "read", "resource": "topic:secret"}
        )
        assert answer.json() == {"allowed": False, "reason": "no rule allows it", "rule": None, "enforced": True}


def test_stock_clients_are_told_in_their_own_words(tmp_path: Path) -> None:
    prepared(tmp_path, binding("orders", AclOperation.READ))
    errors: list[int | None] = []
    with NodeProcess(tmp_path, settings=SECURED) as node:
        producer = Producer({"bootstrap.servers": node.kafka})
        producer.produce("orders", b"v", on_delivery=lambda error, _: errors.append(code_of(error)))
        producer.flush(T)
        assert errors == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
        admin = admin_of(node)
        [future] = admin.create_topics([NewTopic("mine", 1)]).values()
        with pytest.raises(KafkaException) as refused:
            future.result(T)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        [denied] = admin.create_acls([binding("mine", AclOperation.ALL)]).values()
        with pytest.raises(KafkaException) as refused:
            denied.result(T)
        assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(T)
        assert message is not None and code_of(message.error()) == KafkaError.GROUP_AUTHORIZATION_FAILED
        consumer.close()


def test_a_right_that_is_taken_back_ends_at_once_on_an_open_connection(tmp_path: Path) -> None:
    rules = [
        binding("orders", AclOperation.WRITE),
        binding("kafka-cluster", AclOperation.ALTER, ResourceType.BROKER),
    ]
    prepared(tmp_path, *rules)
    outcomes: list[int | None] = []
    with NodeProcess(tmp_path, settings=SECURED) as node:
        producer = Producer({"bootstrap.servers": node.kafka})

        def publish() -> None:
            producer.produce("orders", b"v", on_delivery=lambda error, _: outcomes.append(code_of(error)))
            producer.flush(T)

        publish()
        admin = admin_of(node)
        add(admin, binding("*", AclOperation.WRITE, permission=AclPermissionType.DENY))
        publish()
    assert outcomes == [None, KafkaError.TOPIC_AUTHORIZATION_FAILED]

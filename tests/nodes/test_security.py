"""Users, keys, rules, quotas and tenants changed through one node hold at all of them within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from goqueue.base.access import AclFilter, AclOperation, AclPermission, AclResource, AclRule, ResourceKind
from goqueue.base.commands import Caller, InputMessage, PublishMessages, PublishResult
from goqueue.base.errors import CredentialsRefused, GoQueueError, QuotaExceeded, TenantInUse, Throttled
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.quotas import (
    CONNECTIONS,
    DELAYED,
    GROUPS,
    IN_FLIGHT,
    MESSAGES,
    PARTITIONS,
    STORAGE,
    TOPICS,
    QuotaEntity,
)
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.service.principals import Principal
from goqueue.service.scram import proves
from goqueue.service.tenants import Tenants, TenantUsage
from tests.nodes.cluster import Nodes, patiently, run_nodes, until

WITHIN_S = 1.0
TOLD_S = 30.0
PLACES = [TopicPartition("acme~jobs", number) for number in range(6)]
PASSWORD, CHANGED = "correct horse", "battery staple"
ORDERS = AclResource(ResourceKind.TOPIC, "orders")
MAY_READ = AclRule("User:erin", AclPermission.ALLOW, AclOperation.READ, ResourceKind.TOPIC, "orders")


async def everywhere(nodes: Nodes, holds: Callable[[Broker], bool]) -> None:
    """At every node, within a second of the answer."""
    await until(lambda: all(holds(broker) for broker in nodes.brokers.values()), WITHIN_S)


def logs_in(broker: Broker, name: str, password: str) -> bool:
    mechanism, verifier = broker.node.authentication.passwords.verifier(name)
    return proves(verifier, mechanism, password)


def key_holder(broker: Broker, key_id: str, secret: str) -> Principal | None:
    try:
        return broker.node.authentication.keys.check(key_id, secret)
    except CredentialsRefused:
        return None


def tenants_of(broker: Broker) -> Tenants:
    verbs = broker.routed(broker.topics), broker.routed(broker.groups), broker.routed(broker.transactions)
    return Tenants(broker.metadata, broker.clock, *verbs, broker.schemas)


def test_users_and_keys_made_and_taken_at_one_node_are_so_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        credentials = nodes.brokers[1].node.authentication.credentials
        await nodes.run_at(1, credentials.add_user("erin", PASSWORD))
        await everywhere(nodes, lambda one: logs_in(one, "erin", PASSWORD))
        made = await nodes.run_at(1, credentials.create_key("erin", None, signs=False))
        signing = await nodes.run_at(1, credentials.create_key("erin", None, signs=True))
        await everywhere(nodes, lambda one: key_holder(one, made.key.id, made.secret) is not None)
        await everywhere(nodes, lambda one: key_holder(one, signing.key.id, signing.secret) is not None)
        session = key_holder(nodes.any, made.key.id, made.secret)
        assert session is not None
        elsewhere = nodes.brokers[2].node.authentication.credentials
        await nodes.run_at(2, elsewhere.set_password("erin", CHANGED))
        await everywhere(nodes, lambda one: logs_in(one, "erin", CHANGED) and not logs_in(one, "erin", PASSWORD))
        await nodes.run_at(2, elsewhere.revoke_key(made.key.id))
        await everywhere(nodes, lambda one: key_holder(one, made.key.id, made.secret) is None)
        await everywhere(nodes, lambda one: not one.node.authentication.principals.holds(session))
        await nodes.run_at(0, nodes.brokers[0].node.authentication.credentials.set_disabled("erin", True))
        await everywhere(nodes, lambda one: not logs_in(one, "erin", CHANGED))
        await everywhere(nodes, lambda one: key_holder(one, signing.key.id, signing.secret) is None)

    run_nodes(story, monkeypatch)


def test_rules_of_access_hold_at_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def may(broker: Broker) -> bool:
        return broker.acls.explain("erin", "10.0.0.1", AclOperation.READ, ORDERS).is_allowed

    async def story(nodes: Nodes) -> None:
        assert not any(may(one) for one in nodes.brokers.values())
        await nodes.run_at(1, nodes.brokers[1].acls.add([MAY_READ]))
        await everywhere(nodes, may)
        denied = msgspec.structs.replace(MAY_READ, permission=AclPermission.DENY)
        await nodes.run_at(2, nodes.brokers[2].acls.add([denied]))
        await everywhere(nodes, lambda one: not may(one))
        await nodes.run_at(0, nodes.brokers[0].acls.delete(AclFilter(permission=AclPermission.DENY)))
        await everywhere(nodes, may)

    run_nodes(story, monkeypatch)


def test_quotas_and_tenants_hold_at_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    wile = Caller("wile", "rest", tenant="acme")

    def refuses(broker: Broker) -> bool:
        broker.client_quotas.charge(wile, "", MESSAGES, 100)
        return broker.client_quotas.owed_ms(wile, MESSAGES) > 0

    async def made(node: int, nodes: Nodes, topic: str) -> GoQueueError | None:
        try:
            await nodes.run_at(node, nodes.brokers[node].topics.create(topic, 1, {}))
        except GoQueueError as error:
            return error
        return None

    async def story(nodes: Nodes) -> None:
        await nodes.run_at(1, tenants_of(nodes.brokers[1]).create("acme"))
        await everywhere(nodes, lambda one: one.metadata.image.tenant("acme") is not None)
        quotas, entity = nodes.brokers[2].quotas, QuotaEntity(tenant="acme")
        await nodes.run_at(2, quotas.alter(entity, {MESSAGES: 10.0, TOPICS: 1.0}))
        await everywhere(nodes, refuses)
        for broker in nodes.brokers.values():
            with pytest.raises(Throttled):
                broker.client_quotas.admit(wile)
        assert await made(0, nodes, "acme~one") is None
        await nodes.until_known("acme~one")
        refusals = [await made(node, nodes, "acme~two") for node in nodes.brokers]
        assert [one and one.code for one in refusals] == ["quota-exceeded"] * 3
        await nodes.run_at(0, nodes.brokers[0].quotas.alter(entity, {MESSAGES: None, TOPICS: None}))
        await everywhere(nodes, lambda one: not one.client_quotas.is_set)
        assert await made(1, nodes, "acme~two") is None
        await nodes.until_known("acme~two")
        for topic in ("acme~one", "acme~two"):
            await nodes.run_at(0, nodes.brokers[0].topics.delete(topic))
        await everywhere(nodes, lambda one: not list(one.topics.all()))
        await nodes.run_at(0, tenants_of(nodes.brokers[0]).delete("acme"))
        await everywhere(nodes, lambda one: one.metadata.image.tenant("acme") is None)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("limits", [{TOPICS: 7.0}, {PARTITIONS: 15.0}])
def test_fifty_creates_at_once_through_all_nodes_stay_within_a_limit(
    limits: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.run_at(0, tenants_of(nodes.brokers[0]).create("acme"))
        await nodes.run_at(0, nodes.brokers[0].quotas.alter(QuotaEntity(tenant="acme"), {**limits}))
        await everywhere(nodes, lambda one: one.client_quotas.is_set)

        async def made(number: int) -> str:
            topics = nodes.brokers[number % 3].topics
            try:
                await topics.create(f"acme~t{number}", 2, {})
            except GoQueueError as error:
                return error.code
            return ""

        told = await asyncio.gather(*(nodes.run_at(number % 3, made(number)) for number in range(50)))
        assert sorted(told) == [""] * 7 + ["quota-exceeded"] * 43
        held = [one for one in nodes.any.metadata.image.topics() if one.name.startswith("acme~")]
        assert (len(held), sum(one.partitions for one in held)) == (7, 14)

    run_nodes(story, monkeypatch)


def test_partitions_added_at_once_stay_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.run_at(0, tenants_of(nodes.brokers[0]).create("acme"))
        for name in ("acme~a", "acme~b", "acme~c"):
            await nodes.create(name, 1)
        await nodes.run_at(0, nodes.brokers[0].quotas.alter(QuotaEntity(tenant="acme"), {PARTITIONS: 9.0}))
        await everywhere(nodes, lambda one: one.client_quotas.is_set)
        wider = [
            nodes.run_at(node, nodes.brokers[node].topics.alter(f"acme~{name}", {}, 5))
            for node, name in enumerate("abc")
        ]
        told = await asyncio.gather(*wider, return_exceptions=True)
        assert sum(isinstance(one, QuotaExceeded) for one in told) == 2, told
        held = [one.partitions for one in nodes.any.metadata.image.topics() if one.name.startswith("acme~")]
        assert sorted(held) == [1, 1, 5]

    run_nodes(story, monkeypatch)


def test_a_tenant_is_not_deleted_while_it_gets_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        tenants = tenants_of(nodes.brokers[0])
        await nodes.run_at(0, tenants.create("acme"))
        await everywhere(nodes, lambda one: one.metadata.image.tenant("acme") is not None)
        count = tenants.usage

        async def count_too_early(name: str) -> TenantUsage:
            found = await count(name)
            await nodes.run_at(1, nodes.brokers[1].topics.create("acme~t", 1, {}))
            return found

        monkeypatch.setattr(tenants, "usage", count_too_early)
        with pytest.raises(TenantInUse):
            await nodes.run_at(0, tenants.delete("acme"))
        await everywhere(nodes, lambda one: one.topics.find("acme~t") is not None)

    run_nodes(story, monkeypatch)


def test_a_node_that_starts_later_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        nodes.kill(2)
        await nodes.until_led()
        node = nodes.brokers[0]
        await asyncio.gather(
            nodes.run_at(0, node.node.authentication.credentials.add_user("erin", PASSWORD)),
            nodes.run_at(0, node.acls.add([MAY_READ])),
            nodes.run_at(0, node.quotas.alter(QuotaEntity(user="erin"), {MESSAGES: 10.0})),
        )
        await nodes.start(2)
        late = nodes.brokers[2]
        assert logs_in(late, "erin", PASSWORD)
        assert late.acls.explain("erin", "10.0.0.1", AclOperation.READ, ORDERS).is_allowed
        assert late.client_quotas.is_set

    run_nodes(story, monkeypatch)


def told(nodes: Nodes, limit: str, held_at: int, count: int) -> Callable[[], bool]:
    """Whether all nodes but that one know that the tenant has so much there."""
    others = [one for number, one in nodes.brokers.items() if number != held_at]
    return lambda: all(one.client_quotas.elsewhere("acme", limit) == count for one in others)


def test_what_a_tenant_may_have_in_flight_is_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.run_at(0, tenants_of(nodes.brokers[0]).create("acme"))
        await everywhere(nodes, lambda one: one.metadata.image.tenant("acme") is not None)
        await nodes.create("acme~jobs", 6)
        places = [TopicPartition("acme~jobs", number) for number in range(6)]
        for at in places:
            messages = [InputMessage(None, b"m", partition=at.partition) for _ in range(5)]
            await nodes.leader_of(at).publish.messages(PublishMessages("acme~jobs", messages))
        quotas = nodes.brokers[2].quotas
        await nodes.run_at(2, quotas.alter(QuotaEntity(tenant="acme"), {IN_FLIGHT: 4.0}))
        await everywhere(nodes, lambda one: one.client_quotas.is_set)
        leasing = nodes.brokers[1].routed(nodes.brokers[1].leasing)

        async def took(some: list[TopicPartition], limit: int) -> int:
            return len(await patiently(lambda: leasing.take(Take("acme~g", some, "me", limit, 60_000))))

        full = [at for at in places if nodes.leader_of(at) is nodes.brokers[0]]
        assert await took(full, 10) == 4
        await until(told(nodes, IN_FLIGHT, 0, 4), TOLD_S)
        for some in (full, places):
            with pytest.raises(QuotaExceeded):
                await took(some, 1)
        await nodes.run_at(2, quotas.alter(QuotaEntity(tenant="acme"), {IN_FLIGHT: 5.0}))
        await everywhere(nodes, lambda one: one.client_quotas.total("acme", IN_FLIGHT) == 5)
        one, another = ([at for at in places if nodes.leader_of(at) is nodes.brokers[number]] for number in (1, 2))
        assert await took(one, 10) == 1
        await until(lambda: nodes.brokers[2].client_quotas.elsewhere("acme", IN_FLIGHT) == 5, TOLD_S)
        with pytest.raises(QuotaExceeded):
            await took(another, 1)

    run_nodes(story, monkeypatch)


def test_what_a_tenant_has_at_one_node_counts_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.run_at(0, tenants_of(nodes.brokers[0]).create("acme"))
        await everywhere(nodes, lambda one: one.metadata.image.tenant("acme") is not None)
        await nodes.create("acme~jobs", 6)
        limits = {STORAGE: 100_000.0, GROUPS: 1.0, DELAYED: 3.0, CONNECTIONS: 2.0}
        await nodes.run_at(2, nodes.brokers[2].quotas.alter(QuotaEntity(tenant="acme"), limits))
        await everywhere(nodes, lambda one: one.client_quotas.is_set)
        first = next(at for at in PLACES if nodes.leader_of(at) is nodes.brokers[0])
        other = next(at for at in PLACES if nodes.leader_of(at) is not nodes.brokers[0])

        async def publish(at: TopicPartition, value: bytes, delay_ms: int | None) -> list[PublishResult]:
            message = InputMessage(None, value, partition=at.partition, delay_ms=delay_ms)
            command = PublishMessages("acme~jobs", [message], caller=Caller("wile", "rest", tenant="acme"))
            return list(await patiently(lambda: nodes.leader_of(at).publish.messages(command)))

        for _ in range(3):
            await publish(first, b"later", 3_600_000)
        await until(told(nodes, DELAYED, 0, 3), TOLD_S)
        assert isinstance((await publish(other, b"later", 3_600_000))[0], QuotaExceeded)

        offset = [OffsetCommit("acme~jobs", 0, 0)]
        groups = nodes.id_at(0, "acme~g"), nodes.id_at(1, "acme~h")
        await patiently(lambda: nodes.brokers[0].groups.commit_all(CommitRequest(groups[0], "", -1, None, offset)))
        await until(told(nodes, GROUPS, 0, 1), TOLD_S)
        with pytest.raises(QuotaExceeded):
            await nodes.brokers[1].groups.commit_all(CommitRequest(groups[1], "", -1, None, offset))

        who = Principal("wile", tenant="acme")
        for _ in range(2):
            nodes.brokers[0].node.authentication.sessions.begin(who, lambda: None)
        await until(told(nodes, CONNECTIONS, 0, 2), TOLD_S)
        with pytest.raises(Throttled):
            nodes.brokers[1].node.authentication.sessions.check_room(Caller("wile", "rest", tenant="acme"))

        await publish(first, b"x" * 60_000, None)
        await until(
            lambda: all(one.client_quotas.elsewhere("acme", STORAGE) > 60_000 for one in nodes.brokers.values()), TOLD_S
        )
        assert isinstance((await publish(other, b"x" * 60_000, None))[0], QuotaExceeded)

    run_nodes(story, monkeypatch)

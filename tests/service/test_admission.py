"""Every verb that a door can call asks first whether its caller may."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import goqueue.edge
from goqueue.base.access import Access, AclOperation, AclResource, ResourceKind
from goqueue.base.commands import Browse, Caller, Fetch, FetchFrom, InputMessage, PublishMessages
from goqueue.base.errors import InternalTopic, UnknownTopic
from goqueue.base.ids import TopicPartition
from goqueue.base.settings import Settings, TopicSettings
from goqueue.core.txn.records import TxnAnswer
from goqueue.service.admission import ADMISSION
from goqueue.service.asking import Attribute, Delivering, Hidden, Listed, LookedUp, Noted, ToldCaller, Viewed
from goqueue.service.browse import Browsing
from goqueue.service.consume import Consuming, Poll, PollResult
from goqueue.service.fetch import Fetching
from goqueue.service.front import asking_class
from goqueue.service.leased_run import LeasedRun
from goqueue.service.topics import Topics
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.access import AskedBy
from tests.service.brokers import broker_alone

EDGE = Path(goqueue.edge.__file__).parent
ALICE = Caller("alice", "test", "10.0.0.7")
RECEIPT = "orders:0:7:1:nonce"
KNOWN = {"receipts": [RECEIPT], "answers": [TxnAnswer(RECEIPT)], "config": {"a": "b"}, "partitions": []}

# What anybody may; the table says why.
FREE = {
    (Fetching.__name__, "fetch"),
    (Fetching.__name__, "fetch_now"),
    ("Publish", "is_durable"),
    ("Publish", "wait_durable"),
    ("Topics", "name_of"),
    ("Topics", "kafka_may_create"),
    ("Topics", "check_config"),
    ("Groups", "config_defaults"),
    ("Groups", "new_member_id"),
    ("Groups", "resolve_pattern"),
    ("TransactionVerbs", "runs_for_ms"),
    ("NodeConfig", "static"),
    ("NodeConfig", "dynamic"),
    ("QueueStats", "look"),
    ("Schemas", "document"),
    ("Schemas", "text"),
    ("Tenants", "own_usage"),
    ("Health", "checks"),
    ("Health", "stopping"),
}
VERBS = [(service, name) for service, verbs in ADMISSION.items() for name in verbs]
AFTERWARDS = (Listed, LookedUp, Viewed)  # what they give is looked at before it is handed over
FIRST = [(service, name) for service, name in VERBS if not isinstance(ADMISSION[service][name], AFTERWARDS)]


def by_form(form: type) -> list[tuple[type, str]]:
    return [(service, name) for service, name in VERBS if isinstance(ADMISSION[service][name], form)]


class Refused(Exception):
    """Of this test; the broker's own errors are words."""


def refuse(caller: Caller, operation: AclOperation, resource: AclResource) -> None:
    assert caller is ALICE
    assert isinstance(operation, AclOperation)
    assert isinstance(resource, AclResource)
    raise Refused


class Something:
    """An argument of any kind, with every attribute and one element."""

    def __getattr__(self, name: str) -> Any:
        return KNOWN.get(name, "name" if name in ("group", "topic", "source", "transactional_id") else Something())

    def __iter__(self) -> Iterator[Something]:
        return iter([Something()])


class Untouched:
    """A service that must not be reached."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, name)
        raise AssertionError(f"{name} was reached before the caller was admitted")


def front_of(service: type, access: Access, inner: object) -> Any:
    return asking_class(service)(inner, access, ALICE)


def arguments(service: type, name: str) -> list[Any]:
    needed = list(inspect.signature(getattr(service, name)).parameters.values())[1:]
    return [KNOWN.get(one.name, Something()) for one in needed if one.default is inspect.Parameter.empty]


@pytest.mark.parametrize(("service", "name"), FIRST, ids=lambda value: getattr(value, "__name__", value))
def test_a_verb_asks_before_it_does_anything(service: type, name: str) -> None:
    asked = front_of(service, AskedBy(refuse), Untouched())
    if isinstance(ADMISSION[service][name], Hidden):
        assert getattr(asked, name)(*arguments(service, name)) is None
        return

    def use() -> None:
        verb = getattr(asked, name)
        if not isinstance(ADMISSION[service][name], Attribute):
            verb(*arguments(service, name))

    with pytest.raises(AssertionError if (service.__name__, name) in FREE else Refused):
        use()


class Giving:
    """A service whose verbs give what is asked for, and note that they were called."""

    def __init__(self, gives: object) -> None:
        self.called: list[str] = []
        self._gives = gives

    def __getattr__(self, name: str) -> Any:
        def verb(*_: object) -> object:
            self.called.append(name)
            return self._gives

        return verb


@pytest.mark.parametrize(("service", "name"), by_form(Listed), ids=lambda value: getattr(value, "__name__", value))
def test_a_list_is_cut_down_to_what_the_caller_may_see(service: type, name: str) -> None:
    given = ["name"] if name == "configured" else [Something()]
    args = arguments(service, name)
    assert getattr(front_of(service, AskedBy(refuse), Giving(given)), name)(*args) == []
    assert getattr(front_of(service, AskedBy(lambda *_: None), Giving(given)), name)(*args) == given


@pytest.mark.parametrize(("service", "name"), by_form(LookedUp), ids=lambda value: getattr(value, "__name__", value))
def test_what_an_id_stands_for_is_looked_up_and_asked_for_first(service: type, name: str) -> None:
    rule = ADMISSION[service][name]
    assert isinstance(rule, LookedUp)
    giving = Giving("name" if rule.lookup == "name_of" else Something())
    with pytest.raises(Refused):
        getattr(front_of(service, AskedBy(refuse), giving), name)(*arguments(service, name))
    assert giving.called == [rule.lookup]


def test_what_a_poll_hands_out_is_asked_for_once_more() -> None:
    given = PollResult([], 1, False)
    run = LeasedRun(TopicPartition("orders", 0), "nonce", 1, 0, 0, 0, [])

    def no_orders(caller: Caller, operation: AclOperation, resource: AclResource) -> None:
        if resource.name == "orders":
            raise Refused

    def poll(result: PollResult) -> object:
        return front_of(Consuming, AskedBy(no_orders), Giving(result)).poll(Poll("g", "m", 1, 1, 0))

    assert poll(given) is given
    with pytest.raises(Refused):
        poll(PollResult([run], 1, False))


def test_changes_and_looks_at_messages_are_recorded_with_how_they_ended() -> None:
    access = AskedBy(lambda *_: None)
    front_of(Topics, access, Giving("made")).create("orders", 1, {})
    front_of(Topics, access, Giving("seen")).describe("orders")
    front_of(Browsing, access, Giving("page")).read(Browse("orders", {}, 1))

    class Failing:
        def delete(self, name: str) -> None:
            raise UnknownTopic(name)

    with pytest.raises(UnknownTopic):
        front_of(Topics, access, Failing()).delete("gone")
    assert access.recorded == [
        ("Topics.create", ["create topic:orders"], "done"),
        ("Browsing.read", ["read topic:orders"], "done"),
        ("Topics.delete", ["delete topic:gone"], "unknown-topic"),
    ]


@pytest.mark.parametrize("service", ADMISSION, ids=lambda value: value.__name__)
def test_what_is_not_in_the_table_is_not_for_doors(service: type) -> None:
    asked = front_of(service, AskedBy(lambda *_: None), Untouched())
    others = {name for name in dir(service) if not name.startswith("_")} - ADMISSION[service].keys()
    for name in others:
        with pytest.raises(AttributeError, match="not for doors"):
            getattr(asked, name)


# --- doors --------------------------------------------------------------------------------------------------


def held(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Constructor arguments of a door's classes that are services: name and type."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for one in node.args.args:
                if one.annotation is not None:
                    yield one.arg, ast.unparse(one.annotation).removesuffix(" | None")


def doors() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(EDGE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def test_doors_hold_services_by_their_fronts_alone() -> None:
    services = {service.__name__ for service in ADMISSION}
    bare = [
        (path.name, name, kind)
        for path, tree in doors()
        for name, kind in held(tree)
        if kind in services and (path.name, kind) not in {("names.py", "Topics")}
    ]
    assert bare == []  # names are looked up before anything is asked, as in Kafka


def test_doors_call_only_what_the_table_has() -> None:
    by_name = {service.__name__: verbs for service, verbs in ADMISSION.items()}
    seen = 0
    for path, tree in doors():
        kinds = {f"_{name}": kind[6:-1] for name, kind in held(tree) if kind.startswith("Front[")}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call)):
                continue
            inner = node.value.func
            if isinstance(inner, ast.Attribute) and inner.attr == "by" and isinstance(inner.value, ast.Attribute):
                seen += 1
                assert node.attr in by_name[kinds[inner.value.attr]], (path.name, node.attr)
    assert seen > 150


# --- what asks by itself -------------------------------------------------------------------------------------


def denied(caller: Caller, operation: AclOperation, resource: AclResource) -> None:
    if caller is ALICE:
        raise InternalTopic(f"{operation.name} {resource.kind.name} {resource.name}")


def test_a_fetch_asks_for_each_partition_and_a_refused_one_is_one_error() -> None:
    async def story(loop: VirtualLoop) -> None:
        settings = Settings(topics=TopicSettings(partitions=1, auto_create="all"))
        broker = broker_alone(settings, SimDisk(), VirtualClock(loop), access=AskedBy(denied))
        await broker.start()
        await broker.publish.messages(PublishMessages("orders", [InputMessage(None, b"1")]))
        parts = [FetchFrom(TopicPartition("orders", 0), 0, 1000), FetchFrom(TopicPartition("orders", 0), 1, 1000)]
        answers = await broker.fetching.fetch(Fetch(parts, 1000, caller=ALICE))
        assert [str(answer.error) for answer in answers] == ["READ TOPIC orders"] * 2
        with pytest.raises(InternalTopic, match="CREATE TOPIC fresh"):
            await broker.publish.messages(PublishMessages("fresh", [InputMessage(None, b"1")], caller=ALICE))
        assert broker.topics.find("fresh") is None
        await broker.stop()

    run_virtually(story)


def test_the_cluster_and_every_kind_of_thing_is_asked_for() -> None:
    asked: set[ResourceKind] = set()
    for service, name in VERBS:
        rule = ADMISSION[service][name]
        if isinstance(rule, Viewed):
            asked.add(ResourceKind.SUBJECT)
            continue
        if isinstance(rule, Listed | LookedUp):
            needs = list(rule.needs("name" if name in ("configured", "beat", "name_of") else Something()))
        elif isinstance(rule, Attribute):
            needs = list(rule.needs)
        else:
            ask = rule.ask if isinstance(rule, Hidden | Noted | Delivering | ToldCaller) else rule
            needs = list(ask(*arguments(service, name)))
        asked |= {resource.kind for _, resource in needs}
    assert asked == set(ResourceKind)

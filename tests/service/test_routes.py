"""Every verb that a door can call says where it is carried out, and can be asked of another node."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import goqueue.edge
from goqueue.base.access import AclOperation, AclResource
from goqueue.base.commands import Caller, PublishMessages
from goqueue.base.errors import InternalTopic
from goqueue.service.admission import ADMISSION
from goqueue.service.backups import Backups
from goqueue.service.call_codec import codec_of
from goqueue.service.front import Front
from goqueue.service.routes import ROUTES, TOLD, Here
from tests.access import AskedBy
from tests.service.nodes import SHARD_COUNT, Nodes, nodes_story, to

EDGE = Path(goqueue.edge.__file__).parent


@pytest.mark.parametrize("service", ADMISSION, ids=lambda one: one.__name__)
def test_every_verb_has_a_route_and_every_route_a_verb(service: type) -> None:
    assert set(ROUTES[service]) == set(ADMISSION[service])


def test_every_verb_that_another_node_is_asked_for_can_be_encoded() -> None:
    async def story(nodes: Nodes) -> None:
        for kind, routes in ROUTES.items():
            asked = [verb for verb, route in routes.items() if not isinstance(route, Here)]
            if kind is Backups:  # the node makes it, beside the broker
                assert all(codec_of(kind, verb) for verb in asked)
            elif asked:
                assert set(asked) <= set(nodes.router(0)._services[kind.__name__][1])

    nodes_story(story, count=1)


def test_doors_whose_clients_ask_any_node_use_no_verb_that_only_leaders_answer() -> None:
    told = {verb for routes in ROUTES.values() for verb, route in routes.items() if route is TOLD}
    others = {verb for routes in ROUTES.values() for verb, route in routes.items() if route is not TOLD}
    used: set[str] = set()
    for door in ("rest", "sqs"):
        for file in (EDGE / door).glob("*.py"):
            used |= _verbs(ast.parse(file.read_text()))
    assert used & others
    assert not used & (told - others)


def test_callers_are_admitted_where_they_come_in_and_before_any_node_is_asked() -> None:
    asked: list[str] = []

    def admit(caller: Caller, operation: AclOperation, resource: AclResource) -> None:
        asked.append(f"{caller.principal} {operation.name} {resource.name}")
        if caller.principal != "alice":
            raise InternalTopic("Not for you.")

    async def story(nodes: Nodes) -> None:
        broker = nodes.brokers[0]
        front = Front(broker.publish, AskedBy(admit), broker.routed(broker.publish))
        command = PublishMessages("t", [to(number, "a") for number in range(SHARD_COUNT)])
        with pytest.raises(InternalTopic):
            await front.by(Caller("bob")).messages(command)
        assert nodes.calls == []
        assert len(await front.by(Caller("alice")).messages(command)) == SHARD_COUNT
        assert nodes.calls and asked == ["bob WRITE t", "alice WRITE t"]

    nodes_story(story)


def _verbs(tree: ast.AST) -> set[str]:
    """Names that are asked of `.by(caller)`."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "by"
    }

"""What goes over REST is declared in one place, for the door and for the clients."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import msgspec

import goqueue.api
import goqueue.client
import goqueue.edge.rest
from goqueue.api.groups import Group
from goqueue.api.topics import TopicInfo

_FEW = 2  # so many members can be the same by chance
_DECODED = {"Polled"}  # what users get of it


def structs(package: ModuleType) -> Iterator[type[msgspec.Struct]]:
    for found in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{found.name}")
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == module.__name__:
                yield one


def members(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_encode_fields__)


def test_neither_the_door_nor_the_clients_declare_what_the_api_has() -> None:
    declared = {members(one): one for one in structs(goqueue.api) if len(members(one)) > _FEW}
    own = [one for package in (goqueue.client, goqueue.edge.rest) for one in structs(package)]
    twice = [one for one in own if members(one) in declared and not issubclass(one, declared[members(one)])]
    assert declared and own
    assert {one.__name__ for one in twice} <= _DECODED


def test_users_get_the_types_of_the_api() -> None:
    assert goqueue.client.Topic is TopicInfo
    assert goqueue.client.Group is Group

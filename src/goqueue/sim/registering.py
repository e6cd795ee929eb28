"""Schemas that are registered at any node: each keeps its id, no id is given twice, none is lost."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from goqueue.base.errors import GoQueueError, NotFound
from goqueue.broker import Broker
from goqueue.core.schemas.model import Schema
from goqueue.sim.cluster import SimCluster
from goqueue.sim.violation import Violation

_PAUSE_S: Final = 0.3
_AGAIN: Final = 0.3
_KNOWN_S: Final = 10.0


class GivenId(NamedTuple):
    id: int
    version: int


class SchemaRegistrar:
    """One schema after the other, each in a subject of its own; old ones again now and then."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._told: dict[int, GivenId] = {}  # by number, as it was acknowledged
        self._next = 0

    @property
    def count(self) -> int:
        return len(self._told)

    async def run(self) -> None:
        while True:
            again = self._told and self._cluster.chance.random() < _AGAIN
            await self._register(self._cluster.chance.choice(list(self._told)) if again else self._next)
            await asyncio.sleep(_PAUSE_S)

    async def _register(self, number: int) -> None:
        """Where nobody answered it may be there or not, and is registered again."""
        ready = [node for node in self._cluster.nodes if node.is_ready]
        if not ready:
            return
        schema = Schema("AVRO", _text(number))
        try:
            held = await self._cluster.chance.choice(ready).ask(
                lambda broker: broker.routed(broker.schemas).register(_subject(number), schema)
            )
        except GoQueueError:
            return
        told = GivenId(held.id, held.version)
        if (before := self._told.get(number, told)) != told:
            raise Violation(f"schema {number} was {before} and is {told}")
        if others := [one for one, known in self._told.items() if known.id == told.id and one != number]:
            raise Violation(f"schemas {others[0]} and {number} have the same id: {told.id}")
        self._told[number] = told
        self._next = max(self._next, number + 1)

    async def check(self) -> None:
        """In the end every node knows all, after a moment: it reads what the leader wrote."""
        try:
            await self._cluster.until(lambda: not self._unknown, _KNOWN_S)
        except TimeoutError:
            raise Violation(f"schemas are lost: {self._unknown[:5]}") from None

    @property
    def _unknown(self) -> list[str]:
        """What a node has not, or has otherwise."""
        nodes = [node for node in self._cluster.nodes if node.broker is not None]
        return [
            f"number {number} at node {node.number}"
            for node in nodes
            for number, told in self._told.items()
            if not _has(node.broker, number, told)
        ]


def _has(broker: Broker | None, number: int, told: GivenId) -> bool:
    if broker is None:
        return False
    table = broker.schemas.table
    try:
        found = table.version(_subject(number), told.version)
        return found.id == told.id and table.schema(found.id).schema.text == _text(number)
    except NotFound:
        return False


def _subject(number: int) -> str:
    return f"subject-{number}"


def _text(number: int) -> str:
    """As it is stored, without white space."""
    return f'{{"type":"record","name":"R{number}","fields":[{{"name":"f","type":"long"}}]}}'

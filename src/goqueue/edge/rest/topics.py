"""Topic routes."""

from __future__ import annotations

from math import lcm

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.topics import (
    PartitionListOut,
    PartitionsIn,
    PartitionsOut,
    TopicChangeIn,
    TopicIn,
    TopicInfo,
    TopicListOut,
)
from goqueue.base.errors import InvalidPartitions
from goqueue.core.cluster.shard_choice import Placing, checked_factor
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode
from goqueue.service.front import Front, answer_of
from goqueue.service.topics import Topics


class TopicRoutes:
    def __init__(self, topics: Front[Topics], bodies: Bodies) -> None:
        self._topics = topics
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag = "topics"
        return [
            RestOperation("GET", "/topics", self.list, "List topics", tag, TopicListOut),
            RestOperation("POST", "/topics", self.create, "Create a topic", tag, TopicInfo, 201, TopicIn),
            RestOperation("GET", "/topics/{topic}", self.describe, "Describe a topic", tag, TopicInfo),
            RestOperation("PATCH", "/topics/{topic}", self.alter, "Change a topic", tag, TopicInfo, 200, TopicChangeIn),
            RestOperation(
                "POST",
                "/admin/topics/{topic}/partitions",
                self.widen,
                "Add partitions",
                tag,
                PartitionsOut,
                200,
                PartitionsIn,
            ),
            RestOperation("DELETE", "/topics/{topic}", self.delete, "Delete a topic", tag, None, 204),
            RestOperation(
                "GET", "/topics/{topic}/partitions", self.partitions, "List partitions", tag, PartitionListOut
            ),
        ]

    async def list(self, request: Request) -> Response:
        Query(request)
        return json(TopicListOut(await answer_of(self._topics.by(caller_of(request)).list())))

    async def create(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, TopicIn)
        placing = Placing() if given.replication_factor is None else Placing(checked_factor(given.replication_factor))
        made = await self._topics.by(caller_of(request)).create(
            given.name, given.num_partitions, given.config, placing=placing
        )
        return json(made, 201)

    async def describe(self, request: Request) -> Response:
        Query(request)
        return json(await answer_of(self._topics.by(caller_of(request)).describe(request.path_params["topic"])))

    async def alter(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, TopicChangeIn)
        return json(
            await self._topics.by(caller_of(request)).alter(
                request.path_params["topic"], given.config, given.num_partitions
            )
        )

    async def widen(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, PartitionsIn)
        topics, name = self._topics.by(caller_of(request)), request.path_params["topic"]
        before = len(topics.require(name).partitions)
        try:
            changed = await topics.alter(name, {}, given.partitions)
        except InvalidPartitions as error:
            raise InvalidPartitions(error.message, field="partitions") from None
        return json(PartitionsOut(name, before, changed.num_partitions, _about_keys(before, changed.num_partitions)))

    async def delete(self, request: Request) -> Response:
        Query(request)
        await self._topics.by(caller_of(request)).delete(request.path_params["topic"])
        return Response(status_code=204)

    async def partitions(self, request: Request) -> Response:
        Query(request)
        return json(
            PartitionListOut(
                (await answer_of(self._topics.by(caller_of(request)).describe(request.path_params["topic"]))).partitions
            )
        )


def _about_keys(before: int, after: int) -> str:
    """A key goes to its hash modulo the number of partitions."""
    moving = 1 - before / lcm(before, after)
    if not moving:
        return "Nothing has changed."
    return (
        f"Messages that are there stay where they are. About {moving:.0%} of keys go to another partition from now on: "
        "within such a key order holds among what came before and among what comes after, not between the two."
    )

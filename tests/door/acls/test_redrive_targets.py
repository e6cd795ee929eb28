"""Dead letters name the topic that they died in, by a header that anybody can write: they go nowhere, and are read from
nowhere, that whoever redrives them may not write to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.door.acls.ruled import ALL, Ruled, ruled_node
from tests.door.acls.test_sqs_matrix import ask

T = 30
QUEUES = ["describe topic:*", "alter topic:letters"]
ARN = "arn:aws:sqs:us-east-1:000000000000:letters"


class Crafted:
    """Queue `orders`, whose dead letters lie in `letters`: one of them says that it died in `payroll`."""

    def __init__(self, access: Ruled, rest: httpx.AsyncClient, sqs: httpx.AsyncClient) -> None:
        self.access = access
        self.rest = rest
        self.sqs = sqs

    async def set_up(self) -> None:
        for queue, more in (("letters", {}), ("payroll", {}), ("orders", {"Attributes": {"RedrivePolicy": POLICY}})):
            answer = await ask(self.sqs, "CreateQueue", {"QueueName": queue, **more})
            assert answer.status_code == 200, answer.text
        told = {"goqueue-dlq-topic": "payroll", "goqueue-dlq-partition": "0", "goqueue-dlq-offset": "7"}
        message = {"value": "a forged payment", "headers": told}
        (await self.rest.post("/topics/letters/messages", json={"messages": [message]})).raise_for_status()

    async def redriven(self, rights: Sequence[str]) -> dict[str, Any]:
        """How a move of everything ended."""
        self.access.set(rights)
        answer = await ask(self.sqs, "StartMessageMoveTask", {"SourceArn": ARN})
        assert answer.status_code == 200, answer.text
        async with asyncio.timeout(T):
            while True:
                (task,) = (await ask(self.sqs, "ListMessageMoveTasks", {"SourceArn": ARN})).json()["Results"]
                if task["Status"] != "RUNNING":
                    return dict(task)
                await asyncio.sleep(0.05)

    async def paid(self) -> list[str]:
        self.access.set(ALL)
        page = await self.rest.get("/topics/payroll/messages", params={"from": "earliest"})
        return [one["value"] for one in page.raise_for_status().json()["messages"]]


POLICY = f'{{"deadLetterTargetArn": "{ARN}", "maxReceiveCount": 3}}'


@asynccontextmanager
async def crafted(directory: Path) -> AsyncIterator[Crafted]:
    async with (
        ruled_node(directory) as (access, started),
        httpx.AsyncClient(base_url=started.addresses["REST"]) as rest,
        httpx.AsyncClient(base_url=started.addresses["SQS"]) as sqs,
    ):
        made = Crafted(access, rest, sqs)
        access.set(ALL)
        await made.set_up()
        yield made


@pytest.mark.asyncio
async def test_a_letter_with_a_crafted_origin_stays_without_the_right_to_write_there(tmp_path: Path) -> None:
    async with crafted(tmp_path) as one:
        ended = await one.redriven(QUEUES)
        assert (ended["Status"], ended["FailureReason"]) == ("FAILED", "AccessDenied")
        assert (ended["ApproximateNumberOfMessagesMoved"], await one.paid()) == (0, [])
        unseen = await one.redriven(["describe topic:orders", "alter topic:letters"])
        assert unseen["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue", "what is hidden is not there"
        ended = await one.redriven([*QUEUES, "write topic:payroll"])
        assert (ended["Status"], await one.paid()) == ("COMPLETED", ["a forged payment"])


@pytest.mark.asyncio
async def test_a_topic_of_others_cannot_be_made_the_place_of_dead_letters(tmp_path: Path) -> None:
    """Else it could be read through the routes of dead letters, and written to by rejecting messages."""
    async with crafted(tmp_path) as one:
        (await one.rest.post("/topics/payroll/messages", json={"messages": [{"value": "secret"}]})).raise_for_status()
        config = {"config": {"queue.dead.letter.topic": "payroll"}}
        mine = ["all topic:orders", "all topic:mine"]
        for more in ([], ["read topic:payroll", "write topic:payroll"], ["read topic:payroll", "delete topic:payroll"]):
            one.access.set([*mine, *more])
            for asked in (
                one.rest.patch("/topics/orders", json=config),
                one.rest.post("/topics", json={"name": "mine", **config}),
            ):
                assert (await asked).status_code == 403
            assert "secret" not in (await one.rest.get("/topics/orders/dlq")).text
        one.access.set([*mine, "read topic:payroll", "write topic:payroll", "delete topic:payroll"])
        assert (await one.rest.patch("/topics/orders", json=config)).status_code == 200
        assert "secret" in (await one.rest.get("/topics/orders/dlq")).text

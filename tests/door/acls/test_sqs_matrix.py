"""Every operation of SQS's door, asked with no right, with too little and with just enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from goqueue.edge.sqs import schema
from tests.door.acls.ruled import ALL, LISTED, Ruled, ruled_node, too_little

SEE, WRITE, READ, CHANGE = "describe topic:q", "write topic:q", "read topic:q", "alter_configs topic:q"
TAKE = [READ, "read group:sqs"]
URL, ARN = "URL", "arn:aws:sqs:us-east-1:000000000000:q"
RECEIPT = "q:0:7:1:nonce"
ENTRY = {"Id": "a", "ReceiptHandle": RECEIPT}


class Case(NamedTuple):
    operation: str
    needed: Sequence[str]
    body: dict[str, Any] = {"QueueUrl": URL}


CASES = [
    Case("CreateQueue", ["create topic:fresh"], {"QueueName": "fresh"}),
    Case("GetQueueUrl", [SEE], {"QueueName": "q"}),
    Case("ListQueues", LISTED, {}),
    Case("ListDeadLetterSourceQueues", [SEE]),
    Case("GetQueueAttributes", [SEE, "describe group:sqs"], {"QueueUrl": URL, "AttributeNames": ["All"]}),
    Case("SetQueueAttributes", [SEE, CHANGE], {"QueueUrl": URL, "Attributes": {"VisibilityTimeout": "9"}}),
    Case("ListQueueTags", [SEE]),
    Case("TagQueue", [SEE, CHANGE], {"QueueUrl": URL, "Tags": {"a": "b"}}),
    Case("UntagQueue", [SEE, CHANGE], {"QueueUrl": URL, "TagKeys": ["a"]}),
    Case(
        "AddPermission",
        [SEE, CHANGE],
        {"QueueUrl": URL, "Label": "l", "AWSAccountIds": ["000000000000"], "Actions": ["SendMessage"]},
    ),
    Case("RemovePermission", [SEE, CHANGE], {"QueueUrl": URL, "Label": "l"}),
    Case("SendMessage", [WRITE], {"QueueUrl": URL, "MessageBody": "m"}),
    Case("SendMessageBatch", [WRITE], {"QueueUrl": URL, "Entries": [{"Id": "a", "MessageBody": "m"}]}),
    Case("ReceiveMessage", TAKE),
    Case("DeleteMessage", [READ], {"QueueUrl": URL, "ReceiptHandle": RECEIPT}),
    Case("DeleteMessageBatch", [READ], {"QueueUrl": URL, "Entries": [ENTRY]}),
    Case("ChangeMessageVisibility", [READ], {"QueueUrl": URL, "ReceiptHandle": RECEIPT, "VisibilityTimeout": 1}),
    Case("ChangeMessageVisibilityBatch", [READ], {"QueueUrl": URL, "Entries": [{**ENTRY, "VisibilityTimeout": 1}]}),
    Case("StartMessageMoveTask", ["alter topic:q"], {"SourceArn": ARN}),
    Case("ListMessageMoveTasks", [SEE], {"SourceArn": ARN}),
    Case("PurgeQueue", ["delete topic:q"]),
    Case("DeleteQueue", ["delete topic:q"]),
]
# An id of a task is looked up first: there is none, for everybody.
WITHOUT_THING = {"CancelMessageMoveTask"}


async def ask(client: httpx.AsyncClient, operation: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"X-Amz-Target": f"AmazonSQS.{operation}", "Content-Type": "application/x-amz-json-1.0"}
    known = {key: f"{client.base_url}/000000000000/q" if value == URL else value for key, value in body.items()}
    return await client.post("/", json=known, headers=headers)


async def mistakes_in(client: httpx.AsyncClient, access: Ruled, case: Case) -> list[str]:
    async def answer(rights: Sequence[str]) -> str:
        access.set([*rights, "describe topic:source"])
        return (await ask(client, case.operation, case.body)).text

    if case.needed == LISTED:
        return [] if "/q" not in await answer([]) else [f"{case.operation} shows {await answer([])}"]
    found: list[str] = []
    for rights in [[], *too_little(case.needed)]:
        text = await answer(rights)
        if not ("AccessDenied" in text or "QueueDoesNotExist" in text or "ResourceNotFound" in text):
            found.append(f"{case.operation} with {rights} is not refused: {text[:200]}")
    text = await answer(case.needed)
    if "AccessDenied" in text or "QueueDoesNotExist" in text:
        found.append(f"{case.operation} with {case.needed} is refused: {text[:200]}")
    return found


@pytest.mark.asyncio
async def test_every_operation_is_refused_without_its_right_and_answered_with_it(tmp_path: Path) -> None:
    operations = {kind.__name__ for kind in all_kinds(schema.SqsRequest)} - {"OfQueue", "Sent"}
    named = {name for name in operations if not name.endswith("Entry")}
    assert named == {case.operation for case in CASES} | WITHOUT_THING, "an operation without a rule"
    async with (
        ruled_node(tmp_path) as (access, started),
        httpx.AsyncClient(base_url=started.addresses["SQS"]) as client,
    ):
        access.set(ALL)
        assert (await ask(client, "CreateQueue", {"QueueName": "q"})).status_code == 200
        policy = f'{{"deadLetterTargetArn": "{ARN}", "maxReceiveCount": 3}}'
        source = {"QueueName": "source", "Attributes": {"RedrivePolicy": policy}}
        assert (await ask(client, "CreateQueue", source)).status_code == 200
        found = [mistake for case in CASES for mistake in await mistakes_in(client, access, case)]
        assert found == [], "\n".join(found)


def all_kinds(root: type[schema.SqsRequest]) -> set[type[schema.SqsRequest]]:
    return {kind for child in root.__subclasses__() for kind in (child, *all_kinds(child))}

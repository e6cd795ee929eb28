"""Copies to a FIFO queue, by SQS's protocol: the message id is the deduplication id, so that what is copied a second
time within five minutes is not there twice."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

from goqueue.cli.copy_parts import CopyNote
from goqueue.cli.failures import Failed, NoAnswer
from goqueue.client import Client, Message
from goqueue.client.replies import TopicInfo

_ENTRIES_MAX: Final = 10
_ATTRIBUTES_MAX: Final = 10
_REQUEST_BYTES_MAX: Final = 900 * 1024  # of the 1 MiB that a request may have; attributes count
_ID: Final = re.compile(r"[!-~]{1,128}")
_IDS: Final = ("message-id", "routing-key")  # these go where SQS has a place for them


def is_fifo(topic: TopicInfo) -> bool:
    return topic.name.endswith(".fifo") and topic.config.get("queue.order") == "key"


class FifoSink:
    """The message group is the routing key, as the queue's order in RabbitMQ is one of all its messages."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        sqs = client.doors().sqs
        if sqs is None:
            raise Failed("The node does not serve SQS's protocol, by which FIFO queues are written; see sqs.listen.")
        self._sqs = _sqs_client(sqs)
        self._url = f"{sqs}/000000000000/{topic}"

    def note(self) -> None:
        return None

    def write(self, messages: Sequence[Message], note: CopyNote) -> None:
        for some in _requests(messages):
            self._send(some)

    def _send(self, messages: Sequence[Message]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        entries = [{"Id": str(number), **entry_of(one)} for number, one in enumerate(messages)]
        try:
            answer = self._sqs.send_message_batch(QueueUrl=self._url, Entries=entries)
        except ClientError as error:
            raise Failed(f"The FIFO queue refuses: {error}") from None
        except BotoCoreError as error:
            raise NoAnswer(f"{self._url}: {error}") from None
        for refused in answer.get("Failed", ()):
            raise Failed(f"The FIFO queue refuses a message: {refused.get('Message')} ({refused.get('Code')})")

    def close(self) -> None:
        self._sqs.close()
        self._client.close()


def entry_of(message: Message) -> dict[str, Any]:
    """As SendMessageBatch has it. Raises `Failed` for what SQS cannot carry."""
    attributes = {name: value for name, value in message.headers if name not in _IDS and value}
    if len(attributes) > _ATTRIBUTES_MAX:
        raise Failed(
            f"A message has {len(attributes)} headers, and one of a FIFO queue at most {_ATTRIBUTES_MAX}. "
            "Copy to a queue that is not FIFO."
        )
    try:
        body = (message.value or b"").decode()
    except UnicodeDecodeError:
        raise Failed("A message is no text, and SQS carries nothing else. Copy to a queue that is not FIFO.") from None
    return {
        "MessageBody": body,
        "MessageGroupId": _id(message.header("routing-key"), message.topic),
        "MessageDeduplicationId": _id(message.header("message-id"), uuid4().hex),
        "MessageAttributes": {name: _attribute(value) for name, value in attributes.items()},
    }


def _id(given: bytes | None, default: str) -> str:
    """What SQS takes as an id: a hash stands for one that is too long or has other signs."""
    text = (given or default.encode()).decode("utf-8", "replace")
    return text if _ID.fullmatch(text) else sha256(text.encode()).hexdigest()


def _attribute(value: bytes) -> dict[str, Any]:
    try:
        return {"DataType": "String", "StringValue": value.decode()}
    except UnicodeDecodeError:
        return {"DataType": "Binary", "BinaryValue": value}


def _requests(messages: Sequence[Message]) -> Iterator[list[Message]]:
    held: list[Message] = []
    size = 0
    for one in messages:
        bytes_ = len(one.value or b"") + sum(len(name) + len(value or b"") for name, value in one.headers)
        if held and (len(held) == _ENTRIES_MAX or size + bytes_ > _REQUEST_BYTES_MAX):
            yield held
            held, size = [], 0
        held.append(one)
        size += bytes_
    if held:
        yield held


def _sqs_client(url: str) -> Any:
    """Who asks is what boto3 finds in the environment; a node without security takes anything."""
    try:
        import boto3
    except ModuleNotFoundError:
        raise Failed(
            "Writing to a FIFO queue needs the package boto3, which is not installed. "
            "Install it with pip install 'goqueue[rabbitmq]'."
        ) from None
    named = {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"} & os.environ.keys()
    who = {} if named else {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    return boto3.client("sqs", endpoint_url=url, region_name="us-east-1", **who)

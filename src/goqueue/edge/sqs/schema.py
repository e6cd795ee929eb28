"""What requests carry, by operation, under AWS's names. Fields that are not known here are passed over."""

from __future__ import annotations

import msgspec

Text = str | None
Number = int | None
Names = list[str] | None


class SqsRequest(msgspec.Struct, frozen=True, rename="pascal"):
    """Root of the family."""


class OfQueue(SqsRequest, frozen=True, rename="pascal"):
    """A request about one queue."""

    queue_url: str


# --- queues -------------------------------------------------------------------------------------------


class CreateQueue(SqsRequest, frozen=True, rename="pascal"):
    queue_name: str
    attributes: dict[str, str] | None = None
    tags: dict[str, str] | None = msgspec.field(name="tags", default=None)


class GetQueueUrl(SqsRequest, frozen=True, rename="pascal"):
    queue_name: str
    queue_owner_account: Text = msgspec.field(name="QueueOwnerAWSAccountId", default=None)


class ListQueues(SqsRequest, frozen=True, rename="pascal"):
    queue_name_prefix: Text = None
    next_token: Text = None
    max_results: Number = None


class ListDeadLetterSourceQueues(OfQueue, frozen=True, rename="pascal"):
    next_token: Text = None
    max_results: Number = None


class GetQueueAttributes(OfQueue, frozen=True, rename="pascal"):
    attribute_names: Names = None


class SetQueueAttributes(OfQueue, frozen=True, rename="pascal"):
    attributes: dict[str, str]


class DeleteQueue(OfQueue, frozen=True, rename="pascal"):
    pass


class PurgeQueue(OfQueue, frozen=True, rename="pascal"):
    pass


class ListQueueTags(OfQueue, frozen=True, rename="pascal"):
    pass


class TagQueue(OfQueue, frozen=True, rename="pascal"):
    tags: dict[str, str]


class UntagQueue(OfQueue, frozen=True, rename="pascal"):
    tag_keys: list[str]


class AddPermission(OfQueue, frozen=True, rename="pascal"):
    label: str
    accounts: list[str] = msgspec.field(name="AWSAccountIds")
    actions: list[str] = msgspec.field(name="Actions")


class RemovePermission(OfQueue, frozen=True, rename="pascal"):
    label: str


# --- messages -----------------------------------------------------------------------------------------


class AttributeValue(msgspec.Struct, frozen=True, rename="pascal"):
    data_type: Text = None
    string_value: Text = None
    binary_value: bytes | None = None


Attributes = dict[str, AttributeValue]


class Sent(SqsRequest, frozen=True, rename="pascal"):
    """The part of a request that is one message."""

    message_body: str
    delay_seconds: Number = None
    message_attributes: Attributes | None = None
    message_system_attributes: Attributes | None = None
    message_deduplication_id: Text = None
    message_group_id: Text = None


class SendMessage(Sent, frozen=True, rename="pascal", kw_only=True):
    queue_url: str


class SendEntry(Sent, frozen=True, rename="pascal", kw_only=True):
    id: str


class SendMessageBatch(OfQueue, frozen=True, rename="pascal"):
    entries: list[SendEntry] = []


class ReceiveMessage(OfQueue, frozen=True, rename="pascal"):
    attribute_names: Names = None
    message_system_attribute_names: Names = None
    message_attribute_names: Names = None
    max_number_of_messages: Number = None
    visibility_timeout: Number = None
    wait_time_seconds: Number = None
    receive_request_attempt_id: Text = None


class DeleteMessage(OfQueue, frozen=True, rename="pascal"):
    receipt_handle: str


class DeleteEntry(SqsRequest, frozen=True, rename="pascal"):
    id: str
    receipt_handle: str


class DeleteMessageBatch(OfQueue, frozen=True, rename="pascal"):
    entries: list[DeleteEntry] = []


class ChangeMessageVisibility(OfQueue, frozen=True, rename="pascal"):
    receipt_handle: str
    visibility_timeout: int


class ChangeEntry(SqsRequest, frozen=True, rename="pascal"):
    id: str
    receipt_handle: str
    visibility_timeout: Number = None


class ChangeMessageVisibilityBatch(OfQueue, frozen=True, rename="pascal"):
    entries: list[ChangeEntry] = []


# --- move tasks ---------------------------------------------------------------------------------------


class StartMessageMoveTask(SqsRequest, frozen=True, rename="pascal"):
    source_arn: str
    destination_arn: Text = None
    max_number_of_messages_per_second: Number = None


class ListMessageMoveTasks(SqsRequest, frozen=True, rename="pascal"):
    source_arn: str
    max_results: Number = None


class CancelMessageMoveTask(SqsRequest, frozen=True, rename="pascal"):
    task_handle: str

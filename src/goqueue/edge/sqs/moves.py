"""Move tasks: dead letters go back to the queues they came from, or to another one."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any, Final

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.decoders import from_json
from goqueue.base.errors import RedriveRunning, UnknownRedrive
from goqueue.core.redrive import FORBIDDEN, NO_ORIGIN, TARGET_GONE, UNKNOWN_TOPIC, RedriveTask
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs import schema
from goqueue.edge.sqs.attributes import is_fifo
from goqueue.edge.sqs.calls import Handler, Reply, SqsCall
from goqueue.edge.sqs.errors import SqsError, invalid, invalid_value
from goqueue.edge.sqs.names import Arns
from goqueue.edge.sqs.policies import Policies
from goqueue.service.dead_letters import Redrives
from goqueue.service.front import Front, answer_of
from goqueue.service.topics import Topics

RATE_MAX: Final = 500
RESULTS_MAX: Final = 10


class _Handle(msgspec.Struct, frozen=True, rename="camel"):
    """What a TaskHandle says, as base64 of JSON."""

    task_id: str
    source_arn: str


class Moves:
    def __init__(self, redrives: Front[Redrives], topics: Front[Topics], arns: Arns) -> None:
        self._redrives = redrives
        self._topics = topics
        self._arns = arns
        self._policies = Policies(topics, arns)

    def handlers(self) -> dict[type[schema.SqsRequest], Handler]:
        return {
            schema.StartMessageMoveTask: self.start,
            schema.ListMessageMoveTasks: self.list,
            schema.CancelMessageMoveTask: self.cancel,
        }

    async def start(self, asked: schema.StartMessageMoveTask, call: SqsCall) -> Reply:
        source = self._require(call.caller, asked.source_arn, "SourceArn")
        if not self._policies.sources(call.caller, source.name):
            raise invalid("Source queue must be configured as a Dead Letter Queue.")
        to = self._require(call.caller, asked.destination_arn, "DestinationArn") if asked.destination_arn else None
        if to is not None and is_fifo(to) != is_fifo(source):
            raise invalid("The source and the destination must both be standard queues, or both FIFO queues.")
        rate = asked.max_number_of_messages_per_second
        if rate is not None and not 1 <= rate <= RATE_MAX:
            reason = f"Must be between 1 and {RATE_MAX}, if provided."
            raise invalid_value(rate, "MaxNumberOfMessagesPerSecond", reason)
        try:
            task = await self._redrives.by(call.caller).start(source.name, None if to is None else to.name, rate)
        except RedriveRunning:
            raise invalid(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given "
                "time."
            ) from None
        return {"TaskHandle": self._handle(task)}

    async def list(self, asked: schema.ListMessageMoveTasks, call: SqsCall) -> Reply:
        source = self._require(call.caller, asked.source_arn, "SourceArn")
        limit = 1 if asked.max_results is None else asked.max_results
        if not 1 <= limit <= RESULTS_MAX:
            raise invalid_value(limit, "MaxResults", f"Must be between 1 and {RESULTS_MAX}, if provided.")
        tasks = (await answer_of(self._redrives.by(call.caller).tasks(source.name)))[:limit]
        return {"Results": [self._entry(task) for task in tasks]} if tasks else {}

    async def cancel(self, asked: schema.CancelMessageMoveTask, call: SqsCall) -> Reply:
        handle = _decoded(asked.task_handle)
        source = self._require(call.caller, handle.source_arn, "SourceArn")
        try:
            task = await answer_of(self._redrives.by(call.caller).find(handle.task_id))
        except UnknownRedrive:
            raise SqsError("ResourceNotFoundException", "Task does not exist.") from None
        if task.source != source.name:
            raise SqsError("ResourceNotFoundException", "Task does not exist.")
        if task.state != "running":
            raise invalid("Only a task that is RUNNING can be cancelled.")
        moved = (await self._redrives.by(call.caller).cancel(handle.task_id)).moved
        return {"ApproximateNumberOfMessagesMoved": moved}

    # --- in and out ----------------------------------------------------------------------------------------

    def _require(self, caller: Caller, arn: str, parameter: str) -> Topic:
        name = self._arns.name(arn)
        if name is None:
            form = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
            raise invalid(f"You must use this format to specify the {parameter}: {form}")
        topic = self._topics.by(caller).find(name)
        if topic is None or topic.is_internal:
            message = f"The resource that you specified for the {parameter} parameter doesn't exist."
            raise SqsError("ResourceNotFoundException", message)
        return topic

    def _handle(self, task: RedriveTask) -> str:
        return b64encode(msgspec.json.encode(_Handle(task.id, self._arns.of(task.source)))).decode()

    def _entry(self, task: RedriveTask) -> dict[str, Any]:
        failure = _failure(task)
        entry: dict[str, Any] = {
            "Status": "FAILED" if failure else task.state.upper(),
            "SourceArn": self._arns.of(task.source),
            "ApproximateNumberOfMessagesMoved": task.moved,
            "ApproximateNumberOfMessagesToMove": task.total,
            "StartedTimestamp": task.started_ms,
        }
        if task.state == "running":
            entry["TaskHandle"] = self._handle(task)
        if task.to is not None:
            entry["DestinationArn"] = self._arns.of(task.to)
        if task.rate_per_s is not None:
            entry["MaxNumberOfMessagesPerSecond"] = task.rate_per_s
        if failure:
            entry["FailureReason"] = failure
        return entry


def _failure(task: RedriveTask) -> str:
    """Why the task failed, in AWS's words where it has some. A letter that had to stay is a failure."""
    if task.is_live or task.state == "cancelled":
        return ""
    if task.failure == TARGET_GONE or UNKNOWN_TOPIC in task.skipped:
        return "AWS.SimpleQueueService.NonExistentQueue"
    if FORBIDDEN in task.skipped:
        return "AccessDenied"
    if NO_ORIGIN in task.skipped:
        return "CouldNotDetermineMessageSource"
    return (task.failure or "Some messages could not be moved.") if task.state == "failed" or task.failed else ""


def _decoded(text: str) -> _Handle:
    try:
        return from_json(b64decode(text, validate=True), _Handle)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise invalid("Value for parameter TaskHandle is invalid.") from None

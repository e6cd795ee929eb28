"""ReceiveMessage, and what a consumer does with what it received: delete it, or change when it is seen again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, InvalidField, StaleReceipt
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.leases import Delivered, Outcome, Take, parse_receipt, parse_receipt_run
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs import schema
from goqueue.edge.sqs.attributes import KNOWN, is_fifo
from goqueue.edge.sqs.batches import check_entries, summed
from goqueue.edge.sqs.calls import Handler, Reply, SqsCall
from goqueue.edge.sqs.checks import check_id
from goqueue.edge.sqs.errors import SqsError, invalid_value, translate
from goqueue.edge.sqs.messages import WantedAttributes, message_out, wanted_names
from goqueue.edge.sqs.names import Arns
from goqueue.edge.sqs.queues import Queues
from goqueue.service.front import Front, answer_of
from goqueue.service.leasing import Leasing

MESSAGES_MAX: Final = 10
WAIT_S_MAX: Final = 20
VISIBILITY_S_MAX: Final = 43_200
IN_FLIGHT_MAX: Final = 120_000
OWNER: Final = "sqs"
_SYSTEM: Final = frozenset(
    {
        "All",
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
        "AWSTraceHeader",
        "DeadLetterQueueSourceArn",
    }
)


class Receiving:
    def __init__(self, queues: Queues, leasing: Front[Leasing], arns: Arns, group: str) -> None:
        self._queues = queues
        self._leasing = leasing
        self._arns = arns
        self._group = group

    def handlers(self) -> dict[type[schema.SqsRequest], Handler]:
        return {
            schema.ReceiveMessage: self.receive,
            schema.DeleteMessage: self.delete,
            schema.DeleteMessageBatch: self.delete_batch,
            schema.ChangeMessageVisibility: self.change,
            schema.ChangeMessageVisibilityBatch: self.change_batch,
        }

    # --- receive -------------------------------------------------------------------------------------------

    async def receive(self, asked: schema.ReceiveMessage, call: SqsCall) -> Reply:
        topic = self._queues.find(call.caller, asked.queue_url)
        fifo, wanted = is_fifo(topic), _wanted(asked)
        take, wait_ms = self._take(topic, asked, call), _wait_ms(topic, asked)
        if asked.receive_request_attempt_id is not None:
            _check_attempt(asked.receive_request_attempt_id, fifo)
        found = await self._poll(take, wait_ms, call)
        if not found:
            await self._check_in_flight(call.caller, topic, fifo)
            return {}
        return {"Messages": [message_out(one, wanted, fifo, self._arns) for one in found]}

    def _take(self, topic: Topic, asked: schema.ReceiveMessage, call: SqsCall) -> Take:
        limit = 1 if asked.max_number_of_messages is None else asked.max_number_of_messages
        if not 1 <= limit <= MESSAGES_MAX:
            reason = f"Must be between 1 and {MESSAGES_MAX}, if provided."
            raise invalid_value(limit, "MaxNumberOfMessages", reason)
        lease_ms = None if asked.visibility_timeout is None else _visibility_ms(asked.visibility_timeout)
        partitions = [TopicPartition(topic.name, number) for number in range(len(topic.partitions))]
        return Take(
            self._group,
            partitions,
            OWNER,
            limit,
            lease_ms,
            in_flight_max=IN_FLIGHT_MAX,
            caller=call.caller,
            attempt_id=asked.receive_request_attempt_id,
        )

    async def _poll(self, take: Take, wait_ms: Millis, call: SqsCall) -> list[Delivered]:
        """At once if there is something; else until there is, the wait is over, or the client has hung up."""
        found = await self._leasing.by(call.caller).take(take)
        if found or not wait_ms:
            return found
        waiting = msgspec.structs.replace(take, wait_ms_max=wait_ms)
        taking = asyncio.ensure_future(self._leasing.by(call.caller).take(waiting))
        gone = asyncio.ensure_future(call.gone())
        try:
            await asyncio.wait({taking, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not taking.done():
                taking.cancel()
        return [] if taking.cancelled() or not taking.done() else taking.result()

    async def _check_in_flight(self, caller: Caller, topic: Topic, fifo: bool) -> None:
        if not fifo and await answer_of(self._leasing.by(caller).held_of(self._group, topic.name)) >= IN_FLIGHT_MAX:
            raise SqsError("OverLimit", f"{IN_FLIGHT_MAX} messages are in flight; delete some first.")

    # --- delete --------------------------------------------------------------------------------------------

    async def delete(self, asked: schema.DeleteMessage, call: SqsCall) -> Reply:
        topic = self._queues.find(call.caller, asked.queue_url)
        (outcome,) = await self._delete(call.caller, topic, [asked.receipt_handle])
        if outcome is not None:
            raise outcome
        return None

    async def delete_batch(self, asked: schema.DeleteMessageBatch, call: SqsCall) -> Reply:
        topic = self._queues.find(call.caller, asked.queue_url)
        check_entries(asked.entries, "DeleteMessageBatchRequestEntry")
        outcomes = await self._delete(call.caller, topic, [entry.receipt_handle for entry in asked.entries])
        return summed(asked.entries, [{} if outcome is None else outcome for outcome in outcomes])

    async def _delete(self, caller: Caller, topic: Topic, handles: Sequence[str]) -> list[SqsError | None]:
        """In a standard queue an old handle deletes the message too, whoever has it now."""
        errors = _foreigners(handles, topic)
        outcomes = await self._leasing.by(caller).ack(_sound(handles, errors), late_too=not is_fifo(topic))
        return [
            error if error is not None else _deleted(handle, outcome, is_fifo(topic))
            for handle, error, outcome in _matched(handles, errors, outcomes)
        ]

    # --- visibility ----------------------------------------------------------------------------------------

    async def change(self, asked: schema.ChangeMessageVisibility, call: SqsCall) -> Reply:
        topic = self._queues.find(call.caller, asked.queue_url)
        lease_ms = _visibility_ms(asked.visibility_timeout)
        (outcome,) = await self._change(call.caller, topic, [asked.receipt_handle], lease_ms)
        if outcome is not None:
            raise outcome
        return None

    async def change_batch(self, asked: schema.ChangeMessageVisibilityBatch, call: SqsCall) -> Reply:
        topic, entries = self._queues.find(call.caller, asked.queue_url), asked.entries
        check_entries(entries, "ChangeMessageVisibilityBatchRequestEntry")
        outcomes: dict[int, SqsError | None] = {}
        by_timeout: dict[int, list[int]] = {}
        for place, entry in enumerate(entries):
            by_timeout.setdefault(entry.visibility_timeout or 0, []).append(place)
        for seconds, places in by_timeout.items():
            handles = [entries[place].receipt_handle for place in places]
            try:
                changed: Sequence[SqsError | None] = await self._change(
                    call.caller, topic, handles, _visibility_ms(seconds)
                )
            except SqsError as error:
                changed = [error] * len(places)
            outcomes |= dict(zip(places, changed, strict=True))
        return summed(entries, [outcomes[place] or {} for place in range(len(entries))])

    async def _change(
        self, caller: Caller, topic: Topic, handles: Sequence[str], lease_ms: Millis
    ) -> list[SqsError | None]:
        """In a standard queue an old handle acts on whoever has the message now; on nobody, if nobody has."""
        errors = _foreigners(handles, topic)
        late_too, in_all = not is_fifo(topic), VISIBILITY_S_MAX * 1000 + 999  # whole seconds count
        outcomes = await self._leasing.by(caller).extend(_sound(handles, errors), lease_ms, late_too, in_all)
        return [
            error if error is not None else _changed(handle, outcome)
            for handle, error, outcome in _matched(handles, errors, outcomes)
        ]


# --- requests -------------------------------------------------------------------------------------------


def _wanted(asked: schema.ReceiveMessage) -> WantedAttributes:
    system = {*(asked.attribute_names or ()), *(asked.message_system_attribute_names or ())}
    for name in system:
        if name not in _SYSTEM and name not in KNOWN:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:100]}.")
    if not asked.message_attribute_names:
        return WantedAttributes(system)
    is_all, names, prefixes = wanted_names(asked.message_attribute_names)
    return WantedAttributes(system, names, prefixes, is_all)


def _wait_ms(topic: Topic, asked: schema.ReceiveMessage) -> Millis:
    wait_s = asked.wait_time_seconds
    if wait_s is None:
        return topic.config.queue_wait_ms
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise invalid_value(wait_s, "WaitTimeSeconds", f"Must be >= 0 and <= {WAIT_S_MAX}, if provided.")
    return wait_s * 1000


def _visibility_ms(seconds: int) -> Millis:
    if not 0 <= seconds <= VISIBILITY_S_MAX:
        reason = f"Must be between 0 and {VISIBILITY_S_MAX}, if provided."
        raise invalid_value(seconds, "VisibilityTimeout", reason)
    return seconds * 1000


def _check_attempt(attempt: str, fifo: bool) -> None:
    if not fifo:
        reason = "The request include parameter that is not valid for this queue type."
        raise invalid_value(attempt, "ReceiveRequestAttemptId", reason)
    check_id(attempt, "ReceiveRequestAttemptId")


# --- receipts -------------------------------------------------------------------------------------------


def _foreigners(handles: Sequence[str], topic: Topic) -> list[SqsError | None]:
    run = parse_receipt_run(handles)
    if run is not None and run.topic == topic.name:
        return [None] * len(handles)
    return [_foreign(handle, topic) for handle in handles]


def _foreign(handle: str, topic: Topic) -> SqsError | None:
    """What is no handle, or one of another queue."""
    try:
        if parse_receipt(handle).topic == topic.name:
            return None
    except GoQueueError:
        pass
    message = f'The input receipt handle "{handle[:300]}" is not a valid receipt handle.'
    return SqsError("ReceiptHandleIsInvalid", message)


def _sound(handles: Sequence[str], errors: Sequence[SqsError | None]) -> list[str]:
    return [handle for handle, error in zip(handles, errors, strict=True) if error is None]


def _matched(
    handles: Sequence[str], errors: Sequence[SqsError | None], outcomes: Sequence[Outcome]
) -> list[tuple[str, SqsError | None, Outcome]]:
    """Every handle with its error, or with what became of it."""
    left = iter(outcomes)
    return [
        (handle, error, None if error is not None else next(left))
        for handle, error in zip(handles, errors, strict=True)
    ]


def _deleted(handle: str, outcome: Outcome, fifo: bool) -> SqsError | None:
    if isinstance(outcome, StaleReceipt):
        return invalid_value(handle, "ReceiptHandle", "The receipt handle has expired.") if fifo else None
    return None if outcome is None else translate(outcome)


def _changed(handle: str, outcome: Outcome) -> SqsError | None:
    if isinstance(outcome, StaleReceipt):
        reason = "Message does not exist or is not available for visibility timeout change."
        return invalid_value(handle, "ReceiptHandle", reason)
    if isinstance(outcome, InvalidField):
        reason = f"Total VisibilityTimeout for the message is beyond the limit [{VISIBILITY_S_MAX} seconds]"
        return invalid_value(handle, "VisibilityTimeout", reason)
    return None if outcome is None else translate(outcome)

"""SendMessage and SendMessageBatch."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.commands import Headers, InputMessage, OnceMessage, OnceResult, PublishMessages, PublishOnce
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.base.sqs_envelope import Envelope
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs import schema
from goqueue.edge.sqs.attributes import (
    MESSAGE_BYTES_MAX,
    deduplication_scope,
    is_fifo,
    kept_of,
    message_bytes_max,
)
from goqueue.edge.sqs.batches import check_entries, summed
from goqueue.edge.sqs.calls import Handler, Reply, SqsCall
from goqueue.edge.sqs.checks import TRACE, CheckedMessage, check_delay_s, check_id, check_message
from goqueue.edge.sqs.digests import attributes_md5, body_md5
from goqueue.edge.sqs.errors import SqsError, invalid, invalid_value, missing, translate
from goqueue.edge.sqs.messages import envelope_of, headers_of, own_headers, sequence_text
from goqueue.edge.sqs.queues import Queues
from goqueue.service.front import Front
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish

_WRONG_KIND = "The request include parameter that is not valid for this queue type."


class Ready(msgspec.Struct, frozen=True):
    """A message that passed every check."""

    checked: CheckedMessage
    envelope: Envelope
    group: str | None
    deliver_at_ms: Millis | None

    def message(self) -> InputMessage:
        return self._message(headers_of(self.checked, self.envelope))

    def once(self) -> OnceMessage:
        headers = own_headers(self.checked, self.envelope)
        return OnceMessage(self._message(headers), envelope_of(self.checked, self.envelope))

    def _message(self, headers: Headers) -> InputMessage:
        key = None if self.group is None else self.group.encode()
        return InputMessage(key, self.checked.body, headers, deliver_at_ms=self.deliver_at_ms)


class SendHandler:
    def __init__(
        self,
        queues: Queues,
        publish: Front[Publish],
        publish_once: Front[DeduplicatedPublish],
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._queues = queues
        self._publish = publish
        self._publish_once = publish_once
        self._clock = clock
        self._entropy = entropy

    def handlers(self) -> dict[type[schema.SqsRequest], Handler]:
        return {schema.SendMessage: self.one, schema.SendMessageBatch: self.batch}

    async def one(self, asked: schema.SendMessage, call: SqsCall) -> Reply:
        topic = self._queues.find(call.caller, asked.queue_url)
        ready = self._ready(topic, asked, check_message(asked), call, "are invalid")
        (outcome,) = await self._send(topic, [ready], call)
        if isinstance(outcome, SqsError):
            raise outcome
        return outcome

    async def batch(self, asked: schema.SendMessageBatch, call: SqsCall) -> Reply:
        topic, entries = self._queues.find(call.caller, asked.queue_url), asked.entries
        check_entries(entries, "SendMessageBatchRequestEntry")
        if is_fifo(topic):
            for entry in entries:
                _check_ids_given(topic, entry)
        outcomes: list[dict[str, Any] | SqsError | None] = [None] * len(entries)
        checked: list[tuple[int, CheckedMessage]] = []
        for place, entry in enumerate(entries):
            try:
                checked.append((place, check_message(entry)))
            except SqsError as error:
                outcomes[place] = error
        _check_total(sum(one.size for _, one in checked))
        ready: list[tuple[int, Ready]] = []
        for place, one in checked:
            try:
                ready.append((place, self._ready(topic, entries[place], one, call, "cannot be validated")))
            except SqsError as error:
                outcomes[place] = error
        results = await self._send(topic, [one for _, one in ready], call)
        for (place, _), result in zip(ready, results, strict=True):
            outcomes[place] = result
        return summed(entries, [one for one in outcomes if one is not None])

    # --- checks --------------------------------------------------------------------------------------------

    def _ready(self, topic: Topic, sent: schema.Sent, checked: CheckedMessage, call: SqsCall, told: str) -> Ready:
        """The checks that depend on the queue; `told` is AWS's word for parameters that are not good."""
        if checked.size > (limit := message_bytes_max(topic)):
            raise invalid(f"One or more parameters {told}. Reason: Message must be shorter than {limit} bytes.")
        fifo, now = is_fifo(topic), self._clock.now_ms()
        group = sent.message_group_id
        if group is not None:
            check_id(group, "MessageGroupId")
        elif fifo:
            raise missing("MessageGroupId")
        envelope = Envelope(
            id=new_uuid(self._entropy),
            sent_ms=now,
            sender=call.sender,
            trace=checked.trace or call.trace,
            deduplication_id=_deduplication_id(topic, sent, checked) if fifo else _none_given(sent),
        )
        return Ready(checked, envelope, group, _deliver_at_ms(topic, sent, fifo, now))

    # --- store ---------------------------------------------------------------------------------------------

    async def _send(self, topic: Topic, ready: Sequence[Ready], call: SqsCall) -> list[dict[str, Any] | SqsError]:
        if not ready:
            return []
        if is_fifo(topic):
            return await self._send_once(topic, ready, call)
        messages = [one.message() for one in ready]
        results = await self._publish.by(call.caller).messages(
            PublishMessages(topic.name, messages, caller=call.caller)
        )
        return [
            translate(result) if isinstance(result, GoQueueError) else _reply(one, one.envelope.id)
            for one, result in zip(ready, results, strict=True)
        ]

    async def _send_once(self, topic: Topic, ready: Sequence[Ready], call: SqsCall) -> list[dict[str, Any] | SqsError]:
        command = PublishOnce(deduplication_scope(topic), [one.once() for one in ready], call.caller)
        results = await self._publish_once.by(call.caller).messages(command)
        return [_outcome(one, result) for one, result in zip(ready, results, strict=True)]


def _outcome(ready: Ready, outcome: OnceResult) -> dict[str, Any] | SqsError:
    if isinstance(outcome, GoQueueError):
        return translate(outcome)
    return {**_reply(ready, outcome.message_id), "SequenceNumber": sequence_text(outcome.sequence)}


def _reply(ready: Ready, message_id: str) -> dict[str, Any]:
    checked = ready.checked
    reply: dict[str, Any] = {"MessageId": message_id, "MD5OfMessageBody": body_md5(checked.body)}
    if checked.attributes:
        reply["MD5OfMessageAttributes"] = attributes_md5(checked.attributes)
    if checked.trace:
        reply["MD5OfMessageSystemAttributes"] = attributes_md5([(TRACE, "String", checked.trace.encode())])
    return reply


def _deduplication_id(topic: Topic, sent: schema.Sent, checked: CheckedMessage) -> str:
    if sent.message_deduplication_id is not None:
        return check_id(sent.message_deduplication_id, "MessageDeduplicationId")
    if kept_of(topic).attributes.get("ContentBasedDeduplication") == "true":
        return sha256(checked.body).hexdigest()
    raise invalid(
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )


def _none_given(sent: schema.Sent) -> str:
    if sent.message_deduplication_id is not None:
        raise invalid_value(sent.message_deduplication_id, "MessageDeduplicationId", _WRONG_KIND)
    return ""


def _check_ids_given(topic: Topic, entry: schema.Sent) -> None:
    """In a batch the lack of an id is a mistake of the whole request."""
    if entry.message_group_id is None:
        raise invalid("The request must contain the parameter MessageGroupId.")
    if entry.message_deduplication_id is None and kept_of(topic).attributes.get("ContentBasedDeduplication") != "true":
        raise invalid(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
            "explicitly"
        )


def _check_total(size: int) -> None:
    if size > MESSAGE_BYTES_MAX:
        message = f"Batch requests cannot be longer than {MESSAGE_BYTES_MAX} bytes. You have sent {size} bytes."
        raise SqsError("BatchRequestTooLong", message)


def _deliver_at_ms(topic: Topic, sent: schema.Sent, fifo: bool, now: Millis) -> Millis | None:
    """A message's own delay; the queue's is the broker's business."""
    delay_s = sent.delay_seconds
    if delay_s is None:
        return None
    if fifo and delay_s:
        raise invalid_value(delay_s, "DelaySeconds", _WRONG_KIND)
    check_delay_s(delay_s)
    return None if fifo else now + delay_s * 1000

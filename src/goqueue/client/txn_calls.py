"""The requests of a transactional producer, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from goqueue.api.staged import StagedWriterId
from goqueue.api.transactions import (
    AbortIn,
    ProducerIn,
    ProducerOut,
    Transaction,
    TxnAckIn,
    TxnNackIn,
    TxnOffsetIn,
    TxnOffsetsIn,
    TxnPublishOut,
    TxnRejectIn,
    WhoIn,
)
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall, check_topic
from goqueue.client.messages import Content, NewMessage, Placed, Span, encode_message, span

TopicMessages = Mapping[str, Sequence[NewMessage | Content]]


def init_producer(transactional_id: str | None, timeout: Span | None) -> RestCall[ProducerOut]:
    """A producer; an earlier one of the same id is shut out."""
    body = ProducerIn(transactional_id, span(timeout, "timeout"))
    return RestCall("POST", "/producers/init", lambda status, told: from_json(told, ProducerOut), body=_json(body))


def begin(who: ProducerOut) -> RestCall[Transaction]:
    return _post("begin", _who(who))


def publish(who: ProducerOut, messages: TopicMessages, sequence: int) -> RestCall[list[list[Placed | None]]]:
    """For each topic where its messages are; None for those that are scheduled by the commit."""
    return publish_encoded(who, {topic: list(map(_encoded, found)) for topic, found in messages.items()}, sequence)


def publish_encoded(
    who: ProducerOut, messages: Mapping[str, Sequence[bytes]], sequence: int
) -> RestCall[list[list[Placed | None]]]:
    """The same for messages that are JSON already."""
    parts = [
        b'{"topic":%s,"messages":[%s]}' % (_json(check_topic(topic)), b",".join(found))
        for topic, found in messages.items()
    ]
    head = {**msgspec.to_builtins(_who(who)), "sequence": sequence}
    body = _json(head)[:-1] + b',"topics":[' + b",".join(parts) + b"]}"

    def read(status: int, told: bytes) -> list[list[Placed | None]]:
        answer = from_json(told, TxnPublishOut)
        return [[_place(one) for one in part.results] for part in answer.topics or []]

    return RestCall("POST", "/transactions/publish", read, body=body)


def publish_staged(who: StagedWriterId, messages: TopicMessages) -> RestCall[list[list[Placed | None]]]:
    """What a writer of a staged set writes."""
    return publish(ProducerOut(who.transactional_id, who.producer_id, who.epoch, 0, 0), messages, 1)


def ack(who: ProducerOut, receipts: Sequence[str]) -> RestCall[Transaction]:
    return _post("ack", TxnAckIn(**_named(who), receipts=list(receipts)))


def nack(who: ProducerOut, receipts: Sequence[str], delay: Span | None, reason: str) -> RestCall[Transaction]:
    body = TxnNackIn(**_named(who), receipts=list(receipts), delay=span(delay, "delay"), reason=reason)
    return _post("nack", body)


def reject(who: ProducerOut, receipts: Sequence[str], reason: str) -> RestCall[Transaction]:
    return _post("reject", TxnRejectIn(**_named(who), receipts=list(receipts), reason=reason))


def offsets(
    who: ProducerOut, group: str, moved: Mapping[tuple[str, int], int], metadata: str = ""
) -> RestCall[Transaction]:
    """Everything of a partition below its offset counts as read; the text is kept beside each."""
    places = [TxnOffsetIn(topic, partition, offset, metadata) for (topic, partition), offset in moved.items()]
    return _post("offsets", TxnOffsetsIn(**_named(who), group=group, offsets=places))


def commit(who: ProducerOut) -> RestCall[Transaction]:
    return _post("commit", _who(who))


def abort(who: ProducerOut) -> RestCall[Transaction]:
    return _post("abort", AbortIn(who.producer_id, who.epoch, who.transactional_id))


def _post(verb: str, body: object) -> RestCall[Transaction]:
    path = f"/transactions/{verb}"
    return RestCall("POST", path, lambda status, told: from_json(told, Transaction), body=_json(body))


def _who(who: ProducerOut) -> WhoIn:
    return WhoIn(**_named(who))


def _named(who: ProducerOut) -> dict[str, Any]:
    return {"producer_id": who.producer_id, "epoch": who.epoch, "transactional_id": who.transactional_id}


def _encoded(message: NewMessage | Content) -> bytes:
    return encode_message(message if isinstance(message, NewMessage) else NewMessage(message))


def _place(told: Any) -> Placed | None:
    return None if told.offset is None else Placed(told.partition, told.offset)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)

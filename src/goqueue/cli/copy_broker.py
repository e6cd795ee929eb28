"""Copies from and to a topic of a GoQueue broker. A batch and the note of it are one transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.copy_parts import GROUP_PREFIX, CopyBatch, CopyNote, cursor_offsets, parse_note
from goqueue.cli.failures import Failed
from goqueue.cli.whole_topic import whole_topic
from goqueue.client import Client, GoQueueClientError, Message, NewMessage
from goqueue.client.calls import RestCall, group_path

_PAGE = 1_000
_WAIT_S = 1.0  # a busy broker may need a moment; an empty page is not the end
_SILENCE_S_MAX = 30.0


class _Offset(msgspec.Struct):
    topic: str
    partition: int
    metadata: str = ""


class _Offsets(msgspec.Struct):
    offsets: list[_Offset]


class BrokerSource:
    """Reads committed messages, all partitions merged."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._partitions = whole_topic(client, topic)

    def total(self, position: str | None) -> int:
        begin = {} if position is None else cursor_offsets(position)
        return sum(max(0, one.high_watermark - begin.get(one.partition, one.start_offset)) for one in self._partitions)

    def batches(self, position: str | None) -> Iterator[CopyBatch]:
        ends = {one.partition: one.high_watermark for one in self._partitions}
        place, heard = position or "earliest", time.monotonic()
        while True:
            page = self._client.read(self._topic, from_=place, limit=_PAGE, timeout=_WAIT_S)
            wanted = [one for one in page if one.offset < ends.get(one.partition, 0)]
            if wanted:
                yield CopyBatch(wanted, _up_to(page.next_offsets, ends))
            if all(offset >= ends.get(partition, 0) for partition, offset in page.next_offsets.items()):
                return
            if page.next not in (None, place):
                place, heard = page.next or place, time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S_MAX:
                raise Failed(f"{self._topic!r} gives no more behind {place}; a transaction may be open there.")

    def acknowledge(self, count: int) -> None:
        """Nothing is taken away here."""

    def close(self) -> None:
        self._client.close()


def _up_to(offsets: dict[int, int], ends: dict[int, int]) -> str:
    """What came in while it was copied is for the next run."""
    return ",".join(f"{one}:{min(offset, ends.get(one, 0))}" for one, offset in sorted(offsets.items()))


class BrokerSink:
    """With a name, the note is an offset of the group `goqueue-copy-NAME`, beside the topic's first partition."""

    def __init__(self, client: Client, topic: str, name: str | None, keep_partitions: bool) -> None:
        self._client = client
        self._topic = topic
        self._group = None if name is None else f"{GROUP_PREFIX}{name}"
        self._keep = keep_partitions
        self._transaction = client.transaction(self._group)

    def note(self) -> CopyNote | None:
        if self._group is None:
            return None
        read = lambda status, body: from_json(body, _Offsets).offsets  # noqa: E731
        try:
            held = self._client.perform(RestCall("GET", f"{group_path(self._group)}/offsets", read))
        except GoQueueClientError as error:
            if error.code != "unknown-group":
                raise
            return None
        return next((parse_note(one.metadata) for one in held if (one.topic, one.partition) == (self._topic, 0)), None)

    def write(self, messages: Sequence[Message], note: CopyNote) -> None:
        with self._transaction as transaction:
            if messages:
                transaction.publish_many(self._topic, [self._new(one) for one in messages])
            if self._group is not None:
                transaction.move_group(self._group, {(self._topic, 0): 0}, note.text())

    def _new(self, message: Message) -> NewMessage:
        return NewMessage(
            message.value,
            key=message.key,
            headers=message.headers,
            partition=message.partition if self._keep else None,
            priority=message.priority,
            timestamp=message.timestamp if message.timestamp >= 0 else None,
        )

    def close(self) -> None:
        self._client.close()

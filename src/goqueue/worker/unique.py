"""Calls that are sent once within a window, whoever makes them and wherever.

The keys of a slot are records of one partition. Who writes there has the slot's transactional id, so that there is one
at a time, and has read all records before: a call and its key are one transaction. Another program that takes the
slot over shuts this one out, whose commit then fails; it reads what is new and tries again.
"""

from __future__ import annotations

import random
import time
from typing import Final
from zlib import crc32

import msgspec

from goqueue.client.calls import ReadOptions, read_partition
from goqueue.client.errors import GoQueueClientError
from goqueue.client.messages import NewMessage
from goqueue.client.steps import Pause, Steps, ask
from goqueue.client.txn_steps import TxnProducerSteps
from goqueue.worker.context import outgoing_headers
from goqueue.worker.plan import TaskSend
from goqueue.worker.topics import TaskTopics, message_of

_TRIES_MAX: Final = 50
_PAUSE_S: Final = 0.1
_PAGE: Final = 1_000
_TRANSACTION_TIMEOUT: Final = "10s"
# What a producer hears that another one has shut out.
_SHUT_OUT: Final = frozenset(
    {"producer-fenced", "invalid-producer-epoch", "invalid-txn-state", "concurrent-transactions", "unknown-producer"}
)


class UniqueKey(msgspec.Struct, frozen=True):
    """The call that stands for all of its key until `until`, seconds since 1970."""

    key: str
    id: str
    until: float


_decode: Final = msgspec.json.Decoder(UniqueKey).decode


class UniqueCalls:
    """See the module's first lines."""

    def __init__(self, topics: TaskTopics) -> None:
        self._topics = topics
        self._slots: dict[int, _Slot] = {}

    def send(self, send: TaskSend, due_ms: int | None, key: str, seconds: float) -> Steps[str]:
        """The id of the call: this one's, or that of the one before it."""
        number = crc32(key.encode()) % self._topics.unique_partitions
        slot = self._slots.setdefault(number, _Slot(self._topics, number))
        for _ in range(_TRIES_MAX):
            try:
                return (yield from slot.send(send, due_ms, key, seconds))
            except GoQueueClientError as error:
                yield from slot.lost()
                if error.code not in _SHUT_OUT:
                    raise
            yield Pause(_PAUSE_S * random.random())
        raise GoQueueClientError("overloaded", "Too many programs make unique calls of these keys at once.")


class _Slot:
    """One partition, as far as it was read."""

    def __init__(self, topics: TaskTopics, number: int) -> None:
        self._topics = topics
        self._number = number
        self._producer = TxnProducerSteps(f"{topics.unique}.{number}", _TRANSACTION_TIMEOUT, time.monotonic)
        self._is_mine = False
        self._offset: int | None = None
        self._keys: dict[str, UniqueKey] = {}

    def send(self, send: TaskSend, due_ms: int | None, key: str, seconds: float) -> Steps[str]:
        if not self._is_mine:
            yield from self._producer.ready()
            yield from self._catch_up()
            self._is_mine = True
        known = self._keys.get(key)
        if known is not None and known.until > time.time():
            return known.id
        mine = UniqueKey(key, send.call.id, time.time() + seconds)
        yield from self._producer.begin()
        yield from self._producer.publish(
            {
                self._topics.queue(send.queue): [message_of(send, outgoing_headers(), due_ms)],
                self._topics.unique: [NewMessage(msgspec.json.encode(mine), partition=self._number)],
            }
        )
        yield from self._producer.commit()
        self._keys[key] = mine
        return send.call.id

    def lost(self) -> Steps[None]:
        """Somebody else may have the slot; what is known of it stays true."""
        self._is_mine = False
        yield from self._producer.abort()
        self._producer.forget()

    def _catch_up(self) -> Steps[None]:
        while True:
            call = read_partition(self._topics.unique, self._number, self._offset, ReadOptions(limit=_PAGE))
            page = yield from ask(call)
            for message in page.messages:
                found = _decode(message.value or b"")
                self._keys[found.key] = found
            if page.next_offset == self._offset:
                break
            self._offset = page.next_offset
        now = time.time()
        self._keys = {key: one for key, one in self._keys.items() if one.until > now}

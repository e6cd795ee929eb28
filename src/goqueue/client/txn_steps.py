"""One transactional producer's life: begin, write, answer, end. No I/O; both clients carry out the steps.

Whatever got no answer is sent again: the broker knows a repetition by the epoch, and that of a publish by its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from goqueue.api.transactions import ProducerOut
from goqueue.client import txn_calls
from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError
from goqueue.client.messages import Placed, Span
from goqueue.client.retry import Retries
from goqueue.client.steps import Clock, Steps, T, persist
from goqueue.client.txn_calls import TopicMessages


class TxnProducerSteps:
    """One transaction at a time. After a failure that leaves it open how a transaction ended, it begins as a new one,
    which shuts the old one out."""

    def __init__(
        self, transactional_id: str | None, timeout: Span | None, clock: Clock, patience: float = 60.0
    ) -> None:
        self._transactional_id = transactional_id
        self._timeout = timeout
        self._clock = clock
        self._retries = Retries(seconds_max=patience, lost_answers=True)
        self._who: ProducerOut | None = None
        self._sequence = 0
        self.is_open = False

    def begin(self) -> Steps[None]:
        """A producer that was shut out raises `invalid-producer-epoch`, and begins as a new one the next time."""
        try:
            who = yield from self.ready()
            self._sequence = 0
            yield from self._persist(txn_calls.begin(who))
        except GoQueueClientError:
            self._who = None
            raise
        self.is_open = True

    def ready(self) -> Steps[ProducerOut]:
        """The producer; if there was none, it is new, and nobody else writes under its id any more."""
        if self._who is None:
            self._who = yield from self._persist(txn_calls.init_producer(self._transactional_id, self._timeout))
            self._transactional_id = self._who.transactional_id
        return self._who

    def publish(self, messages: TopicMessages) -> Steps[list[list[Placed | None]]]:
        self._sequence += 1
        return (yield from self._persist(txn_calls.publish(self._producer, messages, self._sequence)))

    def publish_encoded(self, topic: str, encoded: Sequence[bytes]) -> Steps[list[Placed | None]]:
        """Messages that are JSON already."""
        self._sequence += 1
        call = txn_calls.publish_encoded(self._producer, {topic: encoded}, self._sequence)
        return (yield from self._persist(call))[0]

    def ack(self, receipts: Sequence[str]) -> Steps[None]:
        yield from self._persist(txn_calls.ack(self._producer, receipts))

    def nack(self, receipts: Sequence[str], delay: Span | None, reason: str) -> Steps[None]:
        yield from self._persist(txn_calls.nack(self._producer, receipts, delay, reason))

    def reject(self, receipts: Sequence[str], reason: str) -> Steps[None]:
        yield from self._persist(txn_calls.reject(self._producer, receipts, reason))

    def offsets(self, group: str, moved: Mapping[tuple[str, int], int], metadata: str = "") -> Steps[None]:
        yield from self._persist(txn_calls.offsets(self._producer, group, moved, metadata))

    def commit(self) -> Steps[None]:
        """Does nothing where it was aborted."""
        if self.is_open:
            yield from self._end(commit=True)

    def abort(self) -> Steps[None]:
        """Does nothing where none is open. A failure is not raised: the broker ends what nobody ends."""
        if self.is_open:
            try:
                yield from self._end(commit=False)
            except GoQueueClientError:
                self.forget()

    def forget(self) -> None:
        """The next transaction is that of a new producer, which shuts out whoever has the id now."""
        self._who, self.is_open = None, False

    def _end(self, *, commit: bool) -> Steps[None]:
        who = self._producer
        ended = yield from self._persist(txn_calls.commit(who) if commit else txn_calls.abort(who))
        self._who = replace(who, producer_id=ended.producer_id, epoch=ended.epoch)
        self.is_open = False

    @property
    def _producer(self) -> ProducerOut:
        if self._who is None:
            raise GoQueueClientError("no-transaction", "No transaction is open; begin one.")
        return self._who

    def _persist(self, call: RestCall[T]) -> Steps[T]:
        return persist(call, self._retries, self._clock)

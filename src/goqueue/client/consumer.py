"""The consumer for programs without an event loop: polls in the caller's thread, heartbeats in one of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

from goqueue.client import answer_calls
from goqueue.client.calls import RestCall
from goqueue.client.consumer_options import ConsumerOptions, membership_of, settings_of
from goqueue.client.errors import GoQueueClientError
from goqueue.client.leases import Leased, LeasedMessage, bound
from goqueue.client.messages import Span
from goqueue.client.replies import TopicParts
from goqueue.client.steps import Pause, Rebalance, Step, Steps, persist

if TYPE_CHECKING:
    from goqueue.client.client import Client

T = TypeVar("T")
OnRebalance: TypeAlias = Callable[[Rebalance], None]
logger = logging.getLogger("goqueue.client")


class Consumer:
    """A member of a group that takes messages under leases and answers for each. `Client.consumer` makes it.

    Use it in a `with`, from one thread, and loop over it or call `poll`; messages may be answered for from any
    thread. It heartbeats by itself while the caller works, and extends no lease. Leaving the block leaves the group:
    what was not answered for goes to others at once. Where the broker acks (`auto_commit`), leaving the block counts
    what was handed out as done, unless an exception leaves it.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        topics: Sequence[str],
        *,
        on_rebalance: OnRebalance | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._client = client
        self._settings = settings_of(**options)
        self._membership = membership_of(group, topics, self._settings)
        self._on_rebalance = on_rebalance
        self._turn = threading.Lock()  # one exchange with the group at a time
        self._closed = threading.Event()
        self._beating: threading.Thread | None = None

    @property
    def assignment(self) -> list[TopicParts]:
        """What the consumer may take from now."""
        return self._membership.assignment

    def __enter__(self) -> Consumer:
        self._exchange(self._membership.join())
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self._close(is_done=kind is None)

    def close(self) -> None:
        """Leaves the group. May be called twice."""
        self._close(is_done=True)

    def __iter__(self) -> Consumer:
        return self

    def __next__(self) -> LeasedMessage:
        """The next message, whenever it comes."""
        return self._bind(self._exchange(self._membership.next(self._settings.prefetch)))

    def poll(self, limit: int = 100, timeout: float = 10.0, *, keep_held: bool = False) -> list[LeasedMessage]:
        """Up to `limit` messages; waits up to `timeout` seconds for the first, and is empty if none came.

        Raises what the broker refuses, and `ConnectionFailed` when it was away for longer than `patience`. With
        `keep_held` it raises `MustJoinAgain` where it would join the group again and give back what is held.
        """
        steps = self._membership.poll(limit, timeout, keep_held=keep_held)
        return [self._bind(one) for one in self._exchange(steps)]

    # --- answers --------------------------------------------------------------------------------------

    def ack(self, *messages: Leased | str) -> None:
        """Done with these messages or receipts; durable when it returns. `PartlyAnswered` if only some went well."""
        self._answer(messages, lambda receipts: answer_calls.ack(receipts))

    def nack(self, *messages: Leased | str, delay: Span | None = None, reason: str = "") -> None:
        """Failed: they come again after a back-off or `delay`, or go to the dead letters if they failed too often."""
        self._answer(messages, lambda receipts: answer_calls.nack(receipts, delay, reason))

    def reject(self, *messages: Leased | str, reason: str = "") -> None:
        """To the dead letters, now."""
        self._answer(messages, lambda receipts: answer_calls.reject(receipts, reason))

    def extend(self, *messages: Leased | str, timeout: Span) -> None:
        """Their leases end so long from now; 0 gives the messages back, which is no failure."""
        self._answer(messages, lambda receipts: answer_calls.extend(receipts, timeout))

    def _answer(self, messages: Sequence[Leased | str], make: Callable[[list[str]], RestCall[None]]) -> None:
        receipts = answer_calls.receipts_of(messages)
        if receipts:
            self._membership.answers()
            self._run(persist(make(receipts), self._settings.retries, time.monotonic))

    # --- doing what the membership says ---------------------------------------------------------------

    def _exchange(self, steps: Steps[T]) -> T:
        with self._turn:
            found = self._run(steps)
        self._keep_beating()
        return found

    def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._do(step)
                except GoQueueClientError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    def _do(self, step: Step) -> Any:
        if isinstance(step, RestCall):
            return self._client.perform(step)
        if isinstance(step, Pause):
            return self._closed.wait(step.seconds)
        return self._tell(step)

    def _tell(self, change: Rebalance) -> None:
        """The caller may take its time: heartbeats go on meanwhile."""
        if self._on_rebalance is not None:
            self._turn.release()
            try:
                self._on_rebalance(change)
            finally:
                self._turn.acquire()

    def _bind(self, message: Leased) -> LeasedMessage:
        return bound(LeasedMessage, message, self)

    # --- staying in while the caller works ------------------------------------------------------------

    def _keep_beating(self) -> None:
        if self._beating is None and not self._closed.is_set():
            self._beating = threading.Thread(target=self._beat, name="goqueue-consumer", daemon=True)
            self._beating.start()

    def _beat(self) -> None:
        while not self._closed.wait(self._membership.beat_seconds):
            if self._turn.acquire(blocking=False):  # A poll under way is a heartbeat itself.
                try:
                    self._run(self._membership.beat())
                except Exception:
                    logger.exception("a consumer's heartbeat failed on its own account")
                finally:
                    self._turn.release()

    def _close(self, is_done: bool) -> None:
        self._closed.set()
        with self._turn:
            self._run(self._membership.close(is_done))
        if self._beating is not None:
            self._beating.join()

"""The batching producer for programs without an event loop: callers fill the accumulator, one thread empties it."""

from __future__ import annotations

import concurrent.futures
import random
import threading
import time
from concurrent.futures import Future
from types import TracebackType
from typing import TypeAlias, Unpack

from goqueue.client import checks
from goqueue.client.accumulator import Accumulator, Batching, OutgoingBatch
from goqueue.client.calls import Acks, Result, check_topic
from goqueue.client.client import Client
from goqueue.client.errors import GoQueueClientError, ProducerClosed
from goqueue.client.idempotence import IdempotentSends, check_idempotent
from goqueue.client.losses import Losses, SentFuture
from goqueue.client.messages import Content, MessageFields, NewMessage, Sent, encode_message
from goqueue.client.outbox import Outgoing, fail_all, give_results, never_fits, no_room, request_for, unexpected
from goqueue.client.retry import Retries
from goqueue.client.stepping import run_steps

_Batch: TypeAlias = OutgoingBatch[Outgoing[SentFuture]]


class Producer:
    """Sends messages in batches: 100 messages, 64 KiB or 5 ms, whichever comes first (see `Batching`).

    Order is kept within a topic: it has one request on its way at a time. A publish is not idempotent, so
    a request that the broker may have received is not repeated (see `Retries`): its messages' futures get the error,
    and the caller decides. With `idempotent` each batch
    is a transaction of its own: what got no answer is sent again, and stored once.
    Safe to share between threads. Use it in a `with`: leaving the block sends what still waits,
    and raises `NotStored` if messages failed and nobody asked their futures. Or close it, and then call
    `raise_not_stored` for the same; else the last messages may not be sent. One thread sends, for all topics. The
    client is the caller's and stays open.
    """

    def __init__(
        self,
        client: Client,
        *,
        acks: Acks = "all",
        batching: Batching | None = None,
        retries: Retries | None = None,
        block_seconds: float = 60.0,
        idempotent: bool = False,
    ) -> None:
        checks.choice(acks, Acks, "acks")
        checks.instance(retries or Retries(), Retries, "retries")
        checks.instance(batching or Batching(), Batching, "batching")
        checks.seconds(block_seconds, "block_seconds")
        checks.flag(idempotent, "idempotent")
        self._client = client
        self._acks = acks
        self._retries = retries or Retries()
        self._block_seconds = block_seconds
        self._once = IdempotentSends(self._retries.seconds_max) if idempotent else None
        self._accumulator: Accumulator[Outgoing[SentFuture]] = Accumulator(batching or Batching())
        self._losses = Losses()
        self._closing = False
        self._abandoned = threading.Event()
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name="goqueue-producer", daemon=True)
        self._thread.start()

    def send(
        self, topic: str, value: Content, *, timeout: float | None = None, **fields: Unpack[MessageFields]
    ) -> Future[Sent]:
        """Takes the message and answers at once with the future of its place.

        Blocks while the buffer is full, for `timeout` seconds (default: `block_seconds`); then `BufferFull`.
        """
        check_topic(topic)
        message = NewMessage(value, **fields)
        if self._once is not None:
            check_idempotent(message)
        payload = encode_message(message)
        seconds = self._block_seconds if timeout is None else timeout
        with self._lock:
            self._wait_for_room(len(payload), seconds)
            future = SentFuture()
            future.set_running_or_notify_cancel()  # From here on it will be sent; it cannot be cancelled.
            if self._accumulator.add(topic, Outgoing(payload, future), len(payload), time.monotonic()):
                self._work.notify()
        return future

    def flush(self, timeout: float | None = None) -> bool:
        """Sends everything taken so far and waits until each message has its result; False if time ran out."""
        with self._lock:
            self._accumulator.flush()
            futures = [outgoing.future for outgoing in self._accumulator.unfinished()]
            self._work.notify()
        return not concurrent.futures.wait(futures, timeout).not_done

    def close(self, timeout: float | None = None) -> None:
        """Flushes and stops. What was not sent after `timeout` seconds gets `ProducerClosed`. May be called twice."""
        with self._lock:
            self._closing = True
            self._accumulator.flush()
            self._work.notify()
            self._room.notify_all()
        self._thread.join(timeout)
        self._abandoned.set()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        if kind is None:  # another exception is not hidden by this one
            self.raise_not_stored()

    def raise_not_stored(self) -> None:
        """`NotStored` if messages failed and nobody has asked their futures; it is told once."""
        if (error := self._losses.take()) is not None:
            raise error

    def _wait_for_room(self, size: int, seconds: float) -> None:
        if not self._accumulator.can_ever_fit(size):
            raise never_fits(size)
        if not self._room.wait_for(lambda: self._closing or self._accumulator.has_room(size), seconds):
            raise no_room(seconds)
        if self._closing:
            raise ProducerClosed

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                self._check_abandoned()
                give_results(batch, self._results(batch), self._losses)
            except GoQueueClientError as error:
                fail_all(batch, error, self._losses)
            except Exception as error:
                fail_all(batch, unexpected(error), self._losses)
            with self._lock:
                self._accumulator.finished(batch)
                self._room.notify_all()

    def _next_batch(self) -> _Batch | None:
        """Waits for a batch that is due; None when closed and empty."""
        with self._lock:
            while True:
                now = time.monotonic()
                if batch := self._accumulator.take(now):
                    return batch
                if self._closing and self._accumulator.is_empty:
                    return None
                deadline = self._accumulator.next_deadline()
                self._work.wait(None if deadline is None else max(0.0, deadline - now))

    def _check_abandoned(self) -> None:
        if self._abandoned.is_set():
            raise ProducerClosed

    def _results(self, batch: _Batch) -> list[Result]:
        if self._once is not None:
            steps = self._once.send(batch.topic, [outgoing.payload for outgoing in batch.items])
            return run_steps(steps, self._client.perform)
        call = request_for(batch, self._acks)
        attempt = 1
        while True:
            try:
                return self._client.perform(call)
            except GoQueueClientError as error:
                pause = self._retries.pause(error, attempt, time.monotonic() - batch.since, random.random())
                if pause is None:
                    raise
            self._abandoned.wait(pause)
            self._check_abandoned()
            attempt += 1

"""Many messages on their way: sent in batches, told one by one in the order of their lines."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from types import TracebackType
from typing import Final

import click

from goqueue.cli.show import print_json_line, remark
from goqueue.client import Client, ConnectionFailed, GoQueueClientError, Producer, Retries
from goqueue.client.calls import Acks
from goqueue.client.messages import MessageFields, Sent

_TOLD_MAX: Final = 10
_RETRY_SECONDS: Final = 5.0


class CliSender:
    """Use it in a `with`: at its end everything has a result. A broker that goes away raises; a refusal counts."""

    def __init__(self, client: Client, topic: str, acks: Acks, fields: MessageFields, as_json: bool) -> None:
        self.topic = topic
        self.stored = 0
        self.refused = 0
        self._fields = fields
        self._as_json = as_json
        self._line = 0
        self._waiting: deque[tuple[int, Future[Sent]]] = deque()
        self._producer = Producer(client, acks=acks, retries=Retries(seconds_max=_RETRY_SECONDS))

    def __enter__(self) -> CliSender:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(why, GoQueueClientError):
            self._producer.close(timeout=0)
            return
        self._producer.flush()
        self._producer.close()
        self._tell()

    def send(self, line: bytes, separator: bytes | None) -> None:
        """Sends one line; with a separator, what stands before it is the key."""
        self._line += 1
        fields = self._fields
        if separator is not None:
            key, found, line = line.partition(separator)
            if not found:
                self._refuse(self._line, f"has no {separator.decode('utf-8', 'replace')!r} behind a key")
                return
            fields = MessageFields(**fields) | {"key": key}
        self._waiting.append((self._line, self._producer.send(self.topic, line, **fields)))
        self._tell()

    def _tell(self) -> None:
        """Takes what has a result from the head."""
        while self._waiting and self._waiting[0][1].done():
            number, future = self._waiting.popleft()
            try:
                placed = future.result()
            except ConnectionFailed:
                raise
            except GoQueueClientError as error:
                self._refuse(number, str(error))
            else:
                self.stored += 1
                if self._as_json:
                    print_json_line(placed)

    def _refuse(self, number: int, why: str) -> None:
        self.refused += 1
        if self.refused <= _TOLD_MAX:
            remark(f"line {number}: {why}")
        elif self.refused == _TOLD_MAX + 1:
            click.echo("more lines were refused; they are counted and not shown.", err=True)

"""What a consumer has to do, told step by step, so that the threaded and the asyncio form share all decisions."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError
from goqueue.client.replies import TopicParts
from goqueue.client.retry import Retries

T = TypeVar("T")
Clock: TypeAlias = Callable[[], float]


class Pause(msgspec.Struct, frozen=True):
    """Wait so long."""

    seconds: float


class Rebalance(msgspec.Struct, frozen=True):
    """The consumer is about to give `lost` back, or may read `gained` from now on.

    With both, it had to join the group again: what it held of `lost` is no longer its own.
    """

    lost: list[TopicParts]
    gained: list[TopicParts]


Step: TypeAlias = RestCall[Any] | Pause | Rebalance
Steps: TypeAlias = Generator[Step, Any, T]  # is sent each call's answer, or thrown its error


def ask(call: RestCall[T]) -> Steps[T]:
    """The call's answer."""
    answer: T = yield call
    return answer


def persist(call: RestCall[T], retries: Retries, clock: Clock) -> Steps[T]:
    """The call's answer, after repeating what surely was not done."""
    began = clock()
    attempt = 1
    while True:
        try:
            return (yield from ask(call))
        except GoQueueClientError as error:
            pause = retries.pause(error, attempt, clock() - began, random.random())
            if pause is None:
                raise
        yield Pause(pause)
        attempt += 1

"""Whoever goes through many dead letters lets others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from goqueue.base.ids import TopicPartition
from goqueue.drive.partition import Partition
from goqueue.format.records import Record
from goqueue.service.dead_letter_view import DeadLetterView


async def records(begin: int) -> AsyncIterator[Record]:
    for offset in range(begin, 400):
        yield Record(offset, 0, None, b"v", ())


@pytest.mark.asyncio
async def test_others_have_their_turn_between_a_few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = SimpleNamespace(done_below=0, is_open=lambda offset: True)
    monkeypatch.setattr(DeadLetterView, "keeper", lambda *_: keeper)
    monkeypatch.setattr(DeadLetterView, "_is_done_by_sqs", lambda *_: False)
    view = DeadLetterView.__new__(DeadLetterView)
    view._feeds = cast(Any, SimpleNamespace(of=lambda _: SimpleNamespace(everything=records)))
    partition = cast(Partition, SimpleNamespace(start_offset=0, at=TopicPartition("t.dlq", 0)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    found = [letter.offset async for letter in view.open(partition, 0)]
    task.cancel()
    assert found == [*range(400)] and turns >= 400 // 20 - 1

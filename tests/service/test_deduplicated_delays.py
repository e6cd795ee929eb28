"""Deduplication ids of messages that wait for their time, read again after a start."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import DeduplicationScope, InputMessage, OnceMessage, PublishedOnce, PublishOnce
from goqueue.base.sqs_envelope import Envelope
from goqueue.broker import Broker
from goqueue.service import publish_once
from goqueue.service.scheduling import DelayedMessage, Scheduling
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on


async def publish(broker: Broker, word: str, message_id: str, delay_ms: int) -> str:
    envelope = Envelope(id=message_id, sent_ms=broker.clock.now_ms(), sender="me", deduplication_id=word)
    message = InputMessage(b"g", word.encode(), delay_ms=delay_ms)
    command = PublishOnce(DeduplicationScope("t"), [OnceMessage(message, envelope)])
    (result,) = await broker.publish_once.messages(command)
    assert isinstance(result, PublishedOnce)
    return result.message_id


@pytest.mark.parametrize("page_length", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("due_s", [(10, 10, 10, 99, 99, 99, 99), (10, 11, 12, 13, 14, 15, 16), (10,) * 7, (99,) * 7])
def test_ids_are_known_though_messages_become_due_while_they_are_read(
    monkeypatch: pytest.MonkeyPatch, page_length: int, due_s: tuple[int, ...]
) -> None:
    """What has entered the log makes room in the listing of those that wait."""
    listing = Scheduling.list

    async def slow(self: Scheduling, name: str, limit: int, skip: int = 0) -> list[DelayedMessage]:
        found = await listing(self, name, limit, skip)
        await asyncio.sleep(1.0)
        return found

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        words = [f"w{number}" for number in range(len(due_s))]
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            for word, after_s in zip(words, due_s, strict=True):
                await publish(broker, word, f"first {word}", after_s * 1000)
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(9.5)
            monkeypatch.setattr(publish_once, "_PAGE", page_length)
            monkeypatch.setattr(Scheduling, "list", slow)
            found = [await publish(broker, word, f"second {word}", 1_000) for word in words]
            assert found == [f"first {word}" for word in words]

    run_virtually(scenario)

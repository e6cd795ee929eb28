"""Schemas that ask for too much, through the verbs: old ones in the log, large ones, and batches that take too long."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from goqueue.base.commands import InputMessage, PublishBatch, PublishMessages, StoredAt
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.machine import Decision
from goqueue.core.schemas.errors import IncompatibleSchema, InvalidSchema, SchemaMismatch, SchemaNotReady
from goqueue.core.schemas.model import CompatibilitySettings, Schema
from goqueue.core.schemas.records import IdMark, Record, SchemaSet, SubjectMark, VersionSet
from goqueue.format.records import NewRecord, build
from goqueue.service import schemas as service
from goqueue.service import time_slices as pacing
from goqueue.service import validation
from goqueue.service.hooks import TooMuchHere
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.core.schemas.test_bombs import doubled
from tests.service.brokers import broker_on

LARGE = json.dumps({"properties": {f"p{number}": {"type": "integer"} for number in range(1_000)}})


async def publish(broker: Broker, *values: bytes) -> list[Any]:
    return await broker.publish.messages(PublishMessages("t", [InputMessage(None, value) for value in values]))


def test_a_bomb_that_is_in_the_log_already_neither_stops_the_start_nor_the_broker() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        bomb = Schema("JSON", json.dumps(doubled("anyOf", 26)))
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            with pytest.raises(InvalidSchema, match="too much work"):
                await broker.schemas.register("t-value", bomb)
            records: list[Record] = [
                SchemaSet(1, "f" * 64, bomb),
                IdMark(1),
                VersionSet("t-value", 1, 1),
                SubjectMark("t-value", 1),
            ]
            await broker.schema_host.perform(Decision(records))
        began = time.process_time()
        async with broker_on(disk, loop) as broker:
            results = await publish(broker, b"1", b"2")
            assert all(isinstance(one, SchemaMismatch) and "cannot be used" in one.message for one in results)
            batch = build([NewRecord(None, b"1", (), 0)])
            with pytest.raises(SchemaMismatch, match="cannot be used"):
                await broker.publish.batch(PublishBatch(TopicPartition("t", 0), batch))
        assert time.process_time() - began < 5

    run_virtually(scenario)


def test_a_large_schema_is_made_ready_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", Schema("JSON", LARGE))
        async with broker_on(disk, loop) as broker:
            assert isinstance((await publish(broker, b'{"p7": 1}'))[0], StoredAt)

    run_virtually(scenario)


def test_a_large_schema_that_is_not_ready_is_made_so_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", Schema("JSON", LARGE))
        monkeypatch.setattr(service, "SCHEMA_READY_SECONDS_MAX", -1)
        async with broker_on(disk, loop) as broker:
            assert isinstance((await publish(broker, b'{"p7": 1}'))[0], SchemaNotReady)
            await asyncio.sleep(1)
            assert isinstance((await publish(broker, b'{"p7": 1}'))[0], StoredAt)

    run_virtually(scenario)


def test_a_batch_that_takes_too_long_to_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "CHECK_HERE_SECONDS", 0.0)
    monkeypatch.setattr(validation, "CHECK_SECONDS_MAX", 0.0)
    monkeypatch.setattr(pacing, "CHECK_REQUEST_SECONDS_MAX", 0.0)
    monkeypatch.setattr(pacing, "_SLICE_SECONDS", 0.0)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", Schema("JSON", '{"type": "integer"}'))
            batch = build([NewRecord(None, b"1", (), 0) for _ in range(1_000)])
            with pytest.raises(SchemaMismatch, match="takes too long"):
                await broker.publish.batch(PublishBatch(TopicPartition("t", 0), batch))
            results = await publish(broker, b"1", b"2")
            assert isinstance(results[0], StoredAt)
            assert isinstance(results[1], SchemaMismatch) and results[1].field == "messages[1].value"

    run_virtually(scenario)


def test_a_batch_that_takes_long_to_check_is_checked_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "CHECK_HERE_SECONDS", 0.0)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", Schema("JSON", '{"type": "integer"}'))
            good = build([NewRecord(None, b"1", (), 0) for _ in range(1_000)])
            command = PublishBatch(TopicPartition("t", 0), good)
            with pytest.raises(TooMuchHere):
                broker.publish.append(command)
            assert (await broker.publish.batch(command)).last_offset == 999
            bad = build([NewRecord(None, b"1" if at < 999 else b"x", (), 0) for at in range(1_000)])
            with pytest.raises(SchemaMismatch, match="Record 999"):
                await broker.publish.batch(PublishBatch(TopicPartition("t", 0), bad))

    run_virtually(scenario)


def test_others_have_their_turn_while_many_messages_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "_SLICE_SECONDS", 0.0)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", Schema("JSON", '{"type": "integer"}'))
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            beside = asyncio.create_task(other())
            results = await publish(broker, *[b"1"] * 50)
            beside.cancel()
            assert len(results) == 50 and all(isinstance(one, StoredAt) for one in results)
            assert turns >= 50

    run_virtually(scenario)


def test_a_comparison_that_takes_too_long_counts_as_incompatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SCHEMA_COMPARE_SECONDS_MAX", -1)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.schemas.register("s", Schema("AVRO", '"int"'))
            with pytest.raises(IncompatibleSchema, match="too complex"):
                await broker.schemas.register("s", Schema("AVRO", '"long"'))
            await broker.schemas.set_settings("s", CompatibilitySettings("NONE"))
            await broker.schemas.register("s", Schema("AVRO", '"long"'))

    run_virtually(scenario)

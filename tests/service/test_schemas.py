"""The registry and validation through the verbs, on a simulated disk in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import Any, get_args

import jsonschema_specifications
import pytest

from goqueue.base.commands import InputMessage, PublishBatch, PublishMessages, StoredAt
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.schemas import errors
from goqueue.core.schemas.errors import SchemaMismatch
from goqueue.core.schemas.model import GLOBAL, CompatibilitySettings, Reference, Schema
from goqueue.format.records import NewRecord, build
from goqueue.service import validation
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, first_cut
from tests.service.brokers import broker_alone, broker_on, fetch_all, settings
from tests.service.keywords import DRAFTS, OPEN

PRICE = json.dumps({"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]})


def json_schema(text: str, *references: Reference) -> Schema:
    return Schema("JSON", text, references)


async def outcome(broker: Broker, topic: str, *messages: InputMessage) -> list[Any]:
    return await broker.publish.messages(PublishMessages(topic, list(messages)))


def value(data: object) -> InputMessage:
    return InputMessage(None, data if isinstance(data, bytes) else json.dumps(data).encode())


# --- keywords -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", DRAFTS, ids=["draft 7", "2020-12"])
def test_every_keyword_holds_when_a_message_is_published(draft: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            for number, (keyword, schema, good, bad) in enumerate(DRAFTS[draft]):
                topic = f"t{number}"
                await broker.topics.create(topic, 1, {"schema.validation": "latest"})
                text = json.dumps({"$schema": draft, **schema})
                await broker.schemas.register(f"{topic}-value", json_schema(text))
                results = await outcome(broker, topic, value(good), value(0 if bad is OPEN else bad))
                assert isinstance(results[0], StoredAt), (keyword, schema, results[0])
                refused = isinstance(results[1], SchemaMismatch)
                assert refused == (bad is not OPEN), (keyword, schema, results[1])

    run_virtually(scenario)


@pytest.mark.parametrize("draft", DRAFTS, ids=["draft 7", "2020-12"])
def test_the_table_has_every_keyword_of_the_draft(draft: str) -> None:
    registry = jsonschema_specifications.REGISTRY
    root = registry[draft.removesuffix("#")].contents
    wanted = set(root["properties"])
    for part in root.get("allOf", []):
        wanted |= set(registry.resolver(draft).lookup(part["$ref"]).contents["properties"])
    past = {"definitions", "dependencies", "$recursiveAnchor", "$recursiveRef"} if "2020" in draft else set()
    assert wanted - past <= {keyword for keyword, *_ in DRAFTS[draft]}


# --- validation -----------------------------------------------------------------------------------------------


def test_each_message_has_its_own_verdict_with_the_path() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", json_schema(PRICE))
            results = await outcome(broker, "t", value({"price": 1}), value({"price": "x"}), value(b"{"), value({}))
            assert isinstance(results[0], StoredAt)
            told = [(one.code, one.field) for one in results[1:]]
            assert told == [
                ("schema-mismatch", "messages[1].value.price"),
                ("schema-mismatch", "messages[2].value"),
                ("schema-mismatch", "messages[3].value"),
            ]
            assert "$.price" in results[1].message and "t-value version 1 (id 1)" in results[1].message
            assert [one.value for one in await fetch_all(broker, "t", 0)] == [b'{"price": 1}']

    run_virtually(scenario)


def test_delayed_messages_are_checked_when_they_are_taken() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t", json_schema(PRICE))
            bad = InputMessage(None, b"{}", delay_ms=1_000)
            good = InputMessage(None, b'{"price": 1}', delay_ms=1_000)
            results = await outcome(broker, "t", bad, good)
            assert isinstance(results[0], SchemaMismatch)
            await asyncio.sleep(2)
            assert [one.value for one in await fetch_all(broker, "t", 0)] == [b'{"price": 1}']

    run_virtually(scenario)


def test_an_encoded_batch_is_refused_whole_and_names_the_records() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            await broker.schemas.register("t-value", json_schema(PRICE))
            values = [b'{"price": 1}', b'{"price": "x"}', b'{"price": 2}', b"7"]
            for codec in (0, 1, 4):
                batch = build([NewRecord(None, one, (), 0) for one in values], codec)
                with pytest.raises(SchemaMismatch) as why:
                    await broker.publish.batch(PublishBatch(TopicPartition("t", 0), batch))
                failures: Any = why.value.detail["failures"]
                assert [place for place, _ in failures] == [1, 3]
                assert "$.price" in failures[0][1]
            good = build([NewRecord(None, one, (), 0) for one in values[::2]])
            await broker.publish.batch(PublishBatch(TopicPartition("t", 0), good))
            assert len(await fetch_all(broker, "t", 0)) == 2

    run_virtually(scenario)


def test_topics_that_do_not_ask_are_never_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("a record was looked at")

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            await broker.schemas.register("t-value", json_schema(PRICE))
            monkeypatch.setattr(validation, "slices", forbidden)
            monkeypatch.setattr(validation, "read", forbidden)
            monkeypatch.setattr(validation.Validation, "record", forbidden)
            batch = build([NewRecord(None, b"junk", (), 0)])
            await broker.publish.batch(PublishBatch(TopicPartition("t", 0), batch))
            assert isinstance((await outcome(broker, "t", value(b"junk")))[0], StoredAt)

    run_virtually(scenario)


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def test_how_a_message_names_its_schema() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            for how in ("prefix", "header"):
                await broker.topics.create(how, 1, {"schema.validation": how, "schema.key.validation": how})
                await broker.schemas.register(f"{how}-key", Schema("AVRO", '"string"'))
                await broker.schemas.register(f"{how}-value", json_schema(PRICE))
            other = (await broker.schemas.register("other-value", json_schema("true"))).id
            good, key = b'{"price": 1}', b"\x02a"

            async def told(topic: str, one: InputMessage) -> str:
                (result,) = await outcome(broker, topic, one)
                return result.message if isinstance(result, GoQueueError) else "stored"

            assert await told("prefix", InputMessage(framed(1, key), framed(2, good))) == "stored"
            assert await told("prefix", InputMessage(None, framed(2, good))) == "stored", "no key, nothing to check"
            assert await told("prefix", InputMessage(framed(1, key), None)) == "stored", "a tombstone has no value"
            assert "does not fit" in await told("prefix", InputMessage(None, framed(2, b"{}")))
            assert "does not begin with a zero byte" in await told("prefix", InputMessage(None, good))
            assert "99 is not registered under" in await told("prefix", InputMessage(None, framed(99, good)))
            assert "not registered under" in await told("prefix", InputMessage(None, framed(other, good)))
            assert "The key does not fit prefix-key" in await told("prefix", InputMessage(framed(1, b"\x09"), None))
            both = (("schema-id", b"2"), ("schema-key-id", b"1"))
            assert await told("header", InputMessage(key, good, both)) == "stored"
            assert "no header schema-id" in await told("header", InputMessage(None, good))
            assert "no header schema-key-id" in await told("header", InputMessage(key, good, both[:1]))
            assert "is not a schema's id" in await told("header", InputMessage(None, good, (("schema-id", b"two"),)))
            assert "does not fit" in await told("header", InputMessage(None, b"[]", both[:1]))
            guid = bytes.fromhex(broker.schemas.table.schema(2).fingerprint[:32])
            assert await told("header", InputMessage(None, good, (("__value_schema_id", b"\1" + guid),))) == "stored"
            assert "no schema has the guid" in await told(
                "header", InputMessage(None, good, (("__value_schema_id", b"\1" + b"x" * 16),))
            )
            assert await told("header", InputMessage(None, good, (("__value_schema_id", framed(2, b"")),))) == "stored"

    run_virtually(scenario)


def test_protobuf_messages_are_found_by_their_indexes() -> None:
    text = 'syntax="proto3"; message A{int32 x=1;} message B{ message C{string s=1;} C c=1; }'

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "prefix"})
            await broker.schemas.register("t-value", Schema("PROTOBUF", text))
            good = [b"\0" + b"\x08\x01", b"\x02\x02" + b"\x0a\x03\x0a\x01a", b"\x04\x02\0" + b"\x0a\x01a"]
            bad = [b"\0" + b"\x0a\x01a", b"\x02\x08", b"\x80", b"", b"\x04\x02\0" + b"\x0a\x05a", b"\x03"]
            results = await outcome(broker, "t", *(value(framed(1, data)) for data in good + bad))
            assert [isinstance(one, StoredAt) for one in results] == [True] * 3 + [False] * 6

    run_virtually(scenario)


def test_validation_follows_the_registry() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            number, text = value(5), value("five")
            assert "no schema is registered" in (await outcome(broker, "t", number))[0].message
            await broker.schemas.register("t-value", json_schema('{"type": "integer"}'))
            assert isinstance((await outcome(broker, "t", number))[0], StoredAt)
            await broker.schemas.set_settings("t-value", CompatibilitySettings("NONE"))
            await broker.schemas.register("t-value", json_schema('{"type": "string"}'))
            results = await outcome(broker, "t", number, text)
            assert [isinstance(one, StoredAt) for one in results] == [False, True]
            await broker.schemas.delete_version("t-value", 2, permanent=False)
            assert isinstance((await outcome(broker, "t", number))[0], StoredAt)
            await broker.topics.alter("t", {"schema.validation": "none"}, None)
            assert isinstance((await outcome(broker, "t", text))[0], StoredAt)

    run_virtually(scenario)


# --- registry -------------------------------------------------------------------------------------------------


def test_references_reach_through_references() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            schemas = broker.schemas
            await schemas.register("sku", json_schema('{"type": "string"}'))
            item = '{"properties": {"sku": {"$ref": "sku.json"}}}'
            await schemas.register("item", json_schema(item, Reference("sku.json", "sku", 1)))
            order = '{"type": "array", "items": {"$ref": "item.json"}}'
            await schemas.register("t-value", json_schema(order, Reference("item.json", "item", 1)))
            await broker.topics.create("t", 1, {"schema.validation": "latest"})
            (result,) = await outcome(broker, "t", value([{"sku": "a"}, {"sku": 1}]))
            assert result.field == "messages[0].value[1].sku"
            with pytest.raises(errors.InvalidSchema, match="No version 9"):
                await schemas.register("x", json_schema(order, Reference("item.json", "item", 9)))
            with pytest.raises(errors.InvalidSchema, match="is not of type AVRO"):
                await schemas.register("x", Schema("AVRO", '"int"', (Reference("a", "sku", 1),)))
            with pytest.raises(errors.SchemaReferenced):
                await schemas.delete_subject("sku", permanent=False)

    run_virtually(scenario)


def test_registering_breaks_nothing_and_says_what_would() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            schemas = broker.schemas
            await schemas.register("s", json_schema('{"type": "number"}'))
            with pytest.raises(errors.IncompatibleSchema, match="TYPE_NARROWED at #: number is not accepted"):
                await schemas.register("s", json_schema('{"type": "integer"}'))
            assert [str(one) for one in await schemas.test("s", json_schema('{"type": "integer"}'), -1)]
            await schemas.set_settings("s", CompatibilitySettings("FORWARD"))
            assert (await schemas.register("s", json_schema('{"type": "integer"}'))).version == 2
            assert (await schemas.register("s", json_schema(' {"type":"number"} '))).version == 1
            with pytest.raises(errors.UnknownSchema):
                await schemas.lookup("s", json_schema("true"))
            with pytest.raises(errors.UnknownSubject):
                await schemas.lookup("nobody", json_schema("true"))

    run_virtually(scenario)


def test_without_the_packages_avro_works_and_the_others_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    monkeypatch.delitem(sys.modules, "google.protobuf.descriptor_pb2", raising=False)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            assert (await broker.schemas.register("a", Schema("AVRO", '"int"'))).id == 1
            for schema in (json_schema("true"), Schema("PROTOBUF", "message A {}")):
                with pytest.raises(errors.SchemaSupportMissing, match=r"goqueue\[schemas\]"):
                    await broker.schemas.register("b", schema)

    run_virtually(scenario)


# --- power cuts -----------------------------------------------------------------------------------------------


CHOSEN = settings(fsync="always")


class Ledger:
    """What was answered: the id of each text, the levels and the modes."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}
        self.held: dict[tuple[str, int], int] = {}
        self.levels: dict[str, str] = {}
        self.modes: dict[str, str] = {}
        self.gone: set[tuple[str, int]] = set()

    def took(self, subject: str, version: int, schema_id: int, text: str) -> None:
        assert self.ids.setdefault(schema_id, text) == text, "an id was given twice"
        assert self.held.setdefault((subject, version), schema_id) == schema_id, "a version was given twice"

    def check(self, broker: Broker) -> None:
        table = broker.schemas.table
        for (subject, version), schema_id in self.held.items():
            if (subject, version) not in self.gone:
                assert table.version(subject, version, deleted=True).id == schema_id
                assert table.schema(schema_id).schema.text == self.ids[schema_id]
        for subject, level in self.levels.items():
            assert table.level(subject) == level
        for subject, mode in self.modes.items():
            assert table.mode(subject) == mode
        assert table.last_id >= max(self.ids, default=0)


async def a_short_life(broker: Broker, ledger: Ledger, rounds: int) -> None:
    schemas = broker.schemas
    for number in range(rounds):
        text = json.dumps({"const": number})
        held = await schemas.register(f"s{number % 2}", json_schema(text))
        ledger.took(held.subject, held.version, held.id, text)
        if number == 0:
            ledger.levels[GLOBAL] = str(
                (await schemas.set_settings(GLOBAL, CompatibilitySettings("NONE"))).compatibility
            )
        if number == 2:
            ledger.modes["m"] = await schemas.set_mode("m", "READONLY", False)
        if number in (3, 5):
            place = (held.subject, held.version)
            ledger.gone.add(place)
            await schemas.delete_version(*place, permanent=False)
            await schemas.delete_version(*place, permanent=True)


def run_until_cut(disk: SimDisk, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        gone = loop.create_future()
        disk.on_power_cut = lambda: None if gone.done() else gone.set_result(None)

        async def life() -> None:
            broker = broker_alone(CHOSEN, disk, VirtualClock(loop))
            await broker.start()
            await a_short_life(broker, ledger, 7)
            await broker.stop()

        living = asyncio.ensure_future(life())
        await asyncio.wait([living, gone], return_when=asyncio.FIRST_COMPLETED)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)

    with contextlib.suppress(PowerCut):
        run_virtually(scenario)


def look_after(disk: SimDisk, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop, CHOSEN) as broker:
            ledger.check(broker)
            for number in range(20, 24):
                text = json.dumps({"const": number})
                await broker.schemas.set_settings("s0", CompatibilitySettings("NONE"))
                held = await broker.schemas.register("s0", json_schema(text))
                ledger.took(held.subject, held.version, held.id, text)
            ledger.check(broker)

    run_virtually(scenario)


@pytest.mark.parametrize("mode", get_args(CrashMode))
def test_a_power_cut_at_any_step_loses_and_doubles_nothing(mode: CrashMode) -> None:
    whole = SimDisk()
    run_until_cut(whole, Ledger())
    assert whole.steps > 40
    for cut in range(first_cut(mode), whole.steps, CUT_STEP):
        ledger, disk = Ledger(), SimDisk(crash_at=cut)
        run_until_cut(disk, ledger)
        look_after(disk.crash(mode, seed=cut), ledger)

"""Messages as a person reads them: laid out, decoded by the registry, as bytes; and only those that are wanted."""

from __future__ import annotations

import json
import re
import struct
import uuid

import pytest

from goqueue.cli.decoding import avro_value
from goqueue.cli.readable import hex_dump, readable_value
from goqueue.client import Client
from goqueue.client.schemas import NewSchema
from goqueue.core.schemas.avro_schema import AvroDocument
from goqueue.core.schemas.mismatch import Mismatch
from tests.cli.running import goqueue

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "who", "type": "string"},
    {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "more", "type": {"type": "map", "values": ["null", "double"]}},
    {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
    {"name": "ok", "type": "boolean"},
]})  # fmt: skip
AVRO = (
    b"\x06ann" + b"\x04\x04\xd2" + b"\x80\xd0\xdb\xc3\xf4\x02"[:0] + b"\x02" + b"\x04"
    + b"\x02\x04hi\x00" + b"\x02\x02x\x02" + struct.pack("<d", 1.5) + b"\x00" + b"\x02" + b"\x01"
)  # fmt: skip
MEANT = {
    "who": "ann",
    "total": "12.34",
    "at": "1970-01-01T00:00:00.001Z",
    "day": "1970-01-03",
    "tags": ["hi"],
    "more": {"x": 1.5},
    "size": "L",
    "ok": True,
}
PROTO = 'syntax = "proto3"; message Thing { string name = 1; repeated int32 parts = 2; }'


@pytest.fixture
def topic(server_url: str) -> str:
    name = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
    return name


def test_avro_becomes_plain_data() -> None:
    document = AvroDocument(ORDER, {})
    assert avro_value(document, AVRO) == MEANT
    for size in range(len(AVRO)):
        with pytest.raises(Mismatch):
            avro_value(document, AVRO[:size])


def test_values_have_the_best_form_there_is() -> None:
    assert readable_value(b'{"a":1}') == '{\n  "a": 1\n}'
    assert readable_value(b"17") == "17"
    assert readable_value(b"zwei\nZeilen") == "zwei\nZeilen"
    assert readable_value(None) == "null (tombstone)"
    assert readable_value(b"\x1b[2J") == "00000000  1b 5b 32 4a                                      .[2J"
    assert readable_value(b"\xff") == hex_dump(b"\xff")
    assert hex_dump(bytes(70_000)).splitlines()[-1] == "… and 4,464 bytes more"


def test_pretty_decodes_by_the_registry(server_url: str, topic: str) -> None:
    with Client(server_url) as client:
        avro = client.register_schema(f"{topic}-avro", NewSchema(ORDER, "AVRO", [])).id or 0
        proto = client.register_schema(f"{topic}-proto", NewSchema(PROTO, "PROTOBUF", [])).id or 0
        client.publish(topic, b"\0" + avro.to_bytes(4, "big") + AVRO, key="k", headers={"a": "1"})
        client.publish(topic, b"\0" + proto.to_bytes(4, "big") + b"\x00" + b"\x0a\x02hi\x12\x02\x07\x08")
        client.publish(topic, AVRO, headers={"schema-id": str(avro)})
        client.publish(topic, b"\0\0\0\xff\xff no schema has this id")
    shown = goqueue("consume", topic, "-o", "pretty", server=server_url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    first, second, third, fourth = re.split(r"^── ", shown.stdout, flags=re.MULTILINE)[1:]
    assert re.match(rf"{topic}/0/0  \S+Z  normal  schema {avro}\nkey: k\na: 1\n\{{\n  \"who\": \"ann\",\n", first)
    assert json.loads(second.partition("\n")[2]) == {"name": "hi", "parts": [7, 8]}
    assert '"total": "12.34"' in third
    assert "00000000  00 00 00 ff ff 20 6e 6f" in fourth
    lines = goqueue("consume", topic, "-o", "json", "--decode", server=server_url).stdout.splitlines()
    assert [json.loads(line).get("decoded", {}).get("who") for line in lines] == ["ann", None, "ann", None]
    found = goqueue(
        "consume", topic, "--where", "value.who == 'ann' and value.more.x > 1", "-o", "full", server=server_url
    )
    assert [line.split("\t")[1] for line in found.stdout.splitlines()] == ["0", "2"]


def test_filters(server_url: str, topic: str) -> None:
    with Client(server_url) as client:
        for number in range(30):
            body = json.dumps({"n": number})
            client.publish(topic, body, key=f"k{number % 3}", headers={"odd": str(number % 2)})

    def read(*flags: str) -> list[int]:
        done = goqueue("consume", topic, *flags, server=server_url)
        assert done.exit_code == 0, done.stderr
        return [json.loads(line)["n"] for line in done.stdout.splitlines()]

    assert read("--key", "k1", "--header", "odd=1") == [1, 7, 13, 19, 25]
    assert read("--where", "value.n >= 27") == [27, 28, 29]
    assert read("--where", "value.n % 10 == 0", "-n", "2") == [0, 10], "counts what is wanted"
    assert read("--key", "nobody") == []
    for flags, told in (
        (["--where", "value.n >"], "something is missing at the end. Write it like"),
        (["--header", "odd"], "write name=value"),
        (["--where", "value.n > 1", "--group", "g"], "Filters are for reading"),
        (["--decode"], "--decode goes with --output json"),
    ):
        wrong = goqueue("consume", topic, *flags, server=server_url)
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert told in " ".join(wrong.stderr.split())


def test_a_group_sees_readable_forms_too(server_url: str, topic: str) -> None:
    with Client(server_url) as client:
        client.publish(topic, '{"a":1}')
    shown = goqueue("consume", topic, "--group", topic, "-o", "pretty", "-n", "1", server=server_url)
    assert '"a": 1' in shown.stdout
    shown = goqueue("consume", topic, "--group", topic, "-o", "hex", "-n", "1", "--ack", server=server_url)
    assert "7b 22 61 22 3a 31 7d" in shown.stdout

"""Messages of any API and version with values drawn from a seed, made from the protocol's definitions."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

from goqueue.wire.shape import ClientApi
from tests.wire.client import APIS
from tools.kafka_codec.model import FIXED, Field, Message, Struct, load, snake

KINDS = ("Request", "Response")
DEFINITIONS: dict[tuple[int, str], Message] = {
    (api.key, kind): load(api.name + kind) for api in APIS.values() for kind in KINDS
}
CASES = sorted(DEFINITIONS)
RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
WORDS = ("", "a", "orders", "grüße", "注文", "x" * 126, "y" * 127, "z" * 300)


def versions(api: ClientApi) -> range:
    return range(api.min_version, api.max_version + 1)


def functions(api: ClientApi, kind: str) -> tuple[Any, Any]:
    """The encoder and the decoder of a request or a response."""
    if kind == "Request":
        return api.encode_request, api.decode_request
    return api.encode_response, api.decode_response


def encoded(api: ClientApi, kind: str, version: int, message: object) -> bytes:
    return b"".join(functions(api, kind)[0](version, message))


def sample(api: ClientApi, kind: str, version: int, seed: int, tame: bool = False) -> Any:
    """A message in which fields that the version lacks keep their defaults. Tame: numbers every reader accepts."""
    definition = DEFINITIONS[api.key, kind]
    module = import_module(f"goqueue.wire.messages.{snake(api.name)}")
    return _struct(definition.root, definition, version, Random(seed), module, tame)


def _struct(struct: Struct, definition: Message, version: int, random: Random, module: Any, tame: bool) -> Any:
    values: dict[str, Any] = {}
    for field in struct.fields:
        absent = version not in field.versions
        if absent or (version in field.tagged and random.random() < 0.4):
            continue
        if version in field.nullable and random.random() < 0.25:
            values[field.name] = None
        elif field.array:
            count = int(version in field.tagged) or random.choice((0, 1, 1, 2, 3, 130) if field.fixed else (0, 1, 1, 2))
            values[field.name] = [_value(field, definition, version, random, module, tame) for _ in range(count)]
        else:
            values[field.name] = _value(field, definition, version, random, module, tame)
    return getattr(module, struct.name)(**values)


def _value(field: Field, definition: Message, version: int, random: Random, module: Any, tame: bool) -> Any:
    if field.is_struct:
        return _struct(definition.structs[field.type], definition, version, random, module, tame)
    if field.type == "string":
        return random.choice(WORDS)
    if field.type in ("bytes", "records"):
        return random.randbytes(random.choice((0, 1, 61, 126, 127, 128, 20_000)))
    if field.type == "uuid":
        return random.randbytes(16)
    if field.type == "bool":
        return random.random() < 0.5
    if field.type == "float64":
        return random.uniform(-1e300, 1e300)
    if tame and (field.name.endswith(("_ms", "timestamp", "error_code", "timeout"))):
        return random.choice((0, 1, 3, 35))
    low, high = RANGES[field.type]
    return random.choice((low, high, -1 if low else 0, 0, 1, random.randint(low, high)))


assert set(RANGES) < set(FIXED)

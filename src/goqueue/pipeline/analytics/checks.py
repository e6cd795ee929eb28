"""Does a value fit its schema? JSON by JSON Schema, Avro by reading it through, Protobuf by its own package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urljoin

import msgspec
import pyarrow as pa

from goqueue.base.limits import SCHEMA_REGEX_BYTES_MAX
from goqueue.core.schemas.avro_data import AvroChecker
from goqueue.core.schemas.avro_schema import AvroDocument
from goqueue.core.schemas.framing import PREFIX_BYTES, prefix_id
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.pipeline.analytics.proto_check import proto_check
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.source.errors import Untyped
from goqueue.pipeline.source.registry import Registered

Check = Callable[[bytes, bool], str | None]  # why data, which was framed or not, does not fit; None if it does

_REASON_CHARS_MAX: Final = 300
_BASE: Final = "http://schemas.invalid/"  # where documents without an address of their own stand
_DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
}


class TopicSchemas(msgspec.Struct, frozen=True):
    """What a topic's values are checked with. `framing` is its setting `schema.validation`."""

    framing: str
    known: tuple[int, ...]
    latest: int | None


class CheckPlan(msgspec.Struct, frozen=True):
    """Everything that executors need to check rows; it passes between processes."""

    topics: dict[str, TopicSchemas]
    schemas: dict[int, Registered]

    def is_checked(self, topic: str) -> bool:
        """Whether there is anything to check the topic's values with."""
        found = self.topics.get(topic)
        return found is not None and not _ids(found).isdisjoint(self.schemas)


def _ids(found: TopicSchemas) -> set[int]:
    return {*found.known, *(() if found.latest is None else (found.latest,))}


def reasons(book: CheckPlan, topics: pa.Array, ids: pa.Array, values: pa.Array) -> pa.Array:
    """Why each value does not fit its schema; null for those that do, and for those that have none."""
    rows = zip(topics.to_pylist(), ids.to_pylist(), values.to_pylist(), strict=True)
    return pa.array(
        [None if value is None else reason(book, topic, one, value) for topic, one, value in rows], pa.string()
    )


def reason(book: CheckPlan, topic: str, schema_id: int | None, value: bytes) -> str | None:
    """Why a value does not fit; None if it does or there is nothing to check it with."""
    found = book.topics.get(topic)
    if found is None or not _ids(found):
        return None
    number, start = _framed(found, schema_id, value)
    if number is None:
        return _told(f"it does not say which schema it has, and {topic} wants that by {found.framing}")
    schema = book.schemas.get(number)
    if schema is None or (number not in _ids(found)):
        return _told(f"the schema {number} is not registered for {topic}")
    return check_of(schema)(value[start:], start > 0)


def _framed(found: TopicSchemas, schema_id: int | None, value: bytes) -> tuple[int | None, int]:
    """The schema that a value has, and where the data begins behind what said so."""
    prefix = prefix_id(value)
    if found.framing == "latest":
        return found.latest, 0
    if found.framing == "prefix":
        return prefix, PREFIX_BYTES
    if found.framing == "header":
        return schema_id, 0
    if schema_id in found.known:  # nothing is prescribed: what is said counts if it makes sense
        return schema_id, PREFIX_BYTES if schema_id == prefix else 0
    return found.latest if found.latest is not None else schema_id, 0


def prepare(book: CheckPlan) -> None:
    """Raises here what executors would raise later: a package that is missing."""
    for schema in book.schemas.values():
        check_of(schema)


def check_of(schema: Registered) -> Check:
    """Made once a process."""
    return _made(schema.kind, schema.text, tuple(schema.named.items()))


@lru_cache(maxsize=1_000)
def _made(kind: str, text: str, named: tuple[tuple[str, str], ...]) -> Check:
    try:
        return _KINDS[kind](text, dict(named))
    except (ValueError, KeyError, TypeError, Untyped) as error:
        told = _told(f"the registered schema cannot be used: {error}")
        return lambda data, is_framed: told


def _told(why: str) -> str:
    return why[:_REASON_CHARS_MAX]


# --- Avro ------------------------------------------------------------------------------------------------------


def _avro_check(text: str, named: Mapping[str, str]) -> Check:
    checker = AvroChecker(AvroDocument(text, {one: one for one in named.values()}))

    def check(data: bytes, is_framed: bool) -> str | None:
        try:
            checker.check(data)
        except Mismatch as error:
            return _told(str(error))
        except RecursionError:
            return _told("nested too deep")
        return None

    return check


# --- JSON ------------------------------------------------------------------------------------------------------


def _json_check(text: str, named: Mapping[str, str]) -> Check:
    engine = _engine()
    validator = _validator(engine, msgspec.json.decode(text), named)

    def check(data: bytes, is_framed: bool) -> str | None:
        try:
            validator.validate(msgspec.json.decode(data))
        except engine.ValidationError as error:
            return _told(f"{_path(error.instance_path)}: {error.message}")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _told(f"not JSON: {error}")
        except (RecursionError, ValueError):
            return _told("nested too deep")
        return None

    return check


def _validator(engine: Any, root: Any, named: Mapping[str, str]) -> Any:
    base = urljoin(_BASE, str(root.get("$id", ""))) if isinstance(root, dict) else _BASE
    draft = str(root.get("$schema", "")).removesuffix("#") if isinstance(root, dict) else ""
    others = [(urljoin(base, name), msgspec.json.decode(one)) for name, one in named.items()]
    registry = engine.Registry(others, retriever=_never) if others else None
    bounded = engine.RegexOptions(size_limit=SCHEMA_REGEX_BYTES_MAX, dfa_size_limit=SCHEMA_REGEX_BYTES_MAX)
    make = getattr(engine, _DRAFTS.get(draft, "Draft7Validator"))
    return make(root, validate_formats=True, pattern_options=bounded, registry=registry, base_uri=base, offline=True)


def _never(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def _path(steps: Any) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _engine() -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise PipelineError("Checking JSON Schema needs a package: pip install 'goqueue[schemas]'.") from None
    return jsonschema_rs


_KINDS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Check]]] = {
    "JSON": _json_check,
    "AVRO": _avro_check,
    "PROTOBUF": proto_check,
}

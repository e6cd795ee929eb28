"""Checks messages against schemas as they are published, for topics that ask for it. Others are never looked into."""

from __future__ import annotations

import time
from typing import Final

from goqueue.base.commands import Headers
from goqueue.base.limits import CHECK_HERE_SECONDS, CHECK_SECONDS_MAX, SCHEMA_FAILURES_MAX
from goqueue.core.schemas.errors import SchemaMismatch
from goqueue.core.schemas.framing import Framed, by_header, by_prefix
from goqueue.core.schemas.kinds import Checker
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_data import ProtoChecker
from goqueue.core.schemas.table import SchemaVersion
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.format.slices import read, slices
from goqueue.service.hooks import TooMuchHere
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.schemas import Schemas

_READY_MAX: Final = 10_000
_LATEST: Final = -1


class Validation:
    """The schema hook of publishing."""

    def __init__(self, schemas: Schemas, metrics: BrokerMetrics) -> None:
        self._schemas = schemas
        self._ok = metrics.schema_validations.labels("ok")
        self._failed = metrics.schema_validations.labels("failed")
        self._ready: dict[tuple[str, str, int], tuple[SchemaVersion, Checker]] = {}

    def changed(self) -> None:
        """What the registry said may not hold any more."""
        self._ready.clear()

    def batch(self, topic: Topic, header: BatchHeader, batch: Buffer, is_here: bool) -> None:
        """Every record of an encoded batch; the error names each that does not fit, by its place."""
        failures: list[tuple[int, str]] = []
        first: SchemaMismatch | None = None
        clock = _Stopwatch(CHECK_HERE_SECONDS if is_here else CHECK_SECONDS_MAX)
        found = (record for one in slices(batch, header) for record in read(one))
        for place, record in enumerate(found):
            if clock.is_over():
                if is_here:
                    raise TooMuchHere
                raise SchemaMismatch("Checking the batch takes too long; send smaller ones.", field="value")
            try:
                self.record(topic, record.key, record.value, record.headers)
            except SchemaMismatch as error:
                first = first or error
                failures.append((place, error.message))
                if len(failures) >= SCHEMA_FAILURES_MAX:
                    break
        if first is not None:
            message = f"Record {failures[0][0]} of the batch: {first.message}"
            raise SchemaMismatch(message, field=first.field, **first.detail, failures=failures)

    def record(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """A record without value passes: it deletes a key. So does one without key."""
        config = topic.config
        try:
            if config.schema_validation != "none" and value is not None:
                self._check(topic.name, "value", config.schema_validation, value, headers)
            if config.schema_key_validation != "none" and key is not None:
                self._check(topic.name, "key", config.schema_key_validation, key, headers)
        except SchemaMismatch:
            self._failed.inc()
            raise
        self._ok.inc()

    def _check(self, topic: str, part: str, how: str, data: bytes, headers: Headers) -> None:
        version: SchemaVersion | None = None
        try:
            framed = self._framed(part, how, data, headers)
            version, checker = self._find(topic, part, framed.id)
            if isinstance(checker, ProtoChecker) and framed.indexes is not None:
                checker.check(framed.data, framed.indexes)
            else:
                checker.check(framed.data)
        except Mismatch as error:
            raise _error(part, version, error) from None

    def _framed(self, part: str, how: str, data: bytes, headers: Headers) -> Framed:
        if how == "prefix":
            return by_prefix(data, self._is_protobuf)
        if how == "header":
            return by_header(part, data, headers, self._schemas.table.id_of_guid)
        return Framed(_LATEST, data)

    def _is_protobuf(self, schema_id: int) -> bool:
        stored = self._schemas.table.stored.get(schema_id)
        return stored is not None and stored.schema.kind == "PROTOBUF"

    def _find(self, topic: str, part: str, schema_id: int) -> tuple[SchemaVersion, Checker]:
        found = self._ready.get((topic, part, schema_id))
        if found is None:
            version = self._version(topic, part, schema_id)
            found = version, self._schemas.checker(version.id)
            if len(self._ready) >= _READY_MAX:
                self._ready.clear()
            self._ready[topic, part, schema_id] = found
        return found

    def _version(self, topic: str, part: str, schema_id: int) -> SchemaVersion:
        """TopicNameStrategy: the topic's name with `-value` or `-key` behind it; the bare name is for values too."""
        table = self._schemas.table
        subjects = (f"{topic}-value", topic) if part == "value" else (f"{topic}-key",)
        for subject in subjects:
            held = table.latest(subject) if schema_id == _LATEST else table.holding(subject, schema_id)
            if held is not None:
                return held
        what = "no schema is registered" if schema_id == _LATEST else f"the schema {schema_id} is not registered"
        raise Mismatch((), f"{what} under the subject {subjects[0]}")


class _Stopwatch:
    """Says when the work took too long by the processor's time: a busy machine is no reason to refuse."""

    def __init__(self, seconds: float) -> None:
        self._soonest = time.perf_counter() + seconds
        self._until = time.thread_time() + seconds

    def is_over(self) -> bool:
        return time.perf_counter() > self._soonest and time.thread_time() > self._until


def _error(part: str, version: SchemaVersion | None, why: Mismatch) -> SchemaMismatch:
    place = f" at {why.path}" if why.steps else ""
    if version is None:
        message = f"The {part} cannot be checked: {why.reason}."
        return SchemaMismatch(message, field=part, path=why.path, reason=why.reason)
    shown = f"{version.subject} version {version.version} (id {version.id})"
    message = f"The {part} does not fit {shown}{place}: {why.reason}."
    return SchemaMismatch(message, field=part + why.path[1:], path=why.path, reason=why.reason, schema_id=version.id)

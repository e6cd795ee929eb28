"""The registry machine: ids and versions are given once, deletes go in two steps, a replay comes to the same state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import GoQueueError
from goqueue.core.machine import Decision
from goqueue.core.schemas import errors
from goqueue.core.schemas.model import (
    GLOBAL,
    CompatibilitySettings,
    Reference,
    Schema,
    check_subject,
    fingerprint,
    guid_of,
)
from goqueue.core.schemas.records import Record, decode_record, encode_record
from goqueue.core.schemas.registry import Registry
from goqueue.core.schemas.table import SchemaTable, SchemaVersion


class Books:
    """A registry whose records are kept as a compacted topic keeps them: the last of each key."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.kept: dict[bytes, bytes | None] = {}

    def do(self, decision: Decision[Record]) -> object:
        for record in decision.records:
            key, value = encode_record(record)
            self.kept.pop(key, None)
            self.kept[key] = value
            self.registry.apply(record)
        (reply,) = decision.replies
        return reply.result

    def register(self, subject: str, text: str, *references: Reference, **more: int) -> SchemaVersion:
        schema = Schema("AVRO", text, references)
        held = self.do(self.registry.register(subject, schema, fingerprint(schema, text), **more))
        assert isinstance(held, SchemaVersion)
        return held

    def restart(self) -> None:
        """Replays what compaction left; tombstones are long gone."""
        self.registry = Registry()
        for key, value in self.kept.items():
            if value is not None:
                record = decode_record(key, value)
                assert record is not None
                self.registry.apply(record)


def test_the_same_schema_has_one_id_everywhere() -> None:
    books = Books()
    assert books.register("a", "int").id == 1
    assert books.register("b", "int").id == 1
    assert books.register("a", "long") == SchemaVersion("a", 2, 2, False)
    assert books.register("a", "int") == SchemaVersion("a", 1, 1, False), "what a subject has is not registered again"
    assert [use.subject for use in books.registry.table.uses(1)] == ["a", "b"]


def test_deletes_go_in_two_steps_and_are_told_apart() -> None:
    books = Books()
    books.register("a", "int")
    registry = books.registry
    with pytest.raises(errors.SchemaVersionNotDeleted):
        registry.delete_version("a", 1, permanent=True)
    with pytest.raises(errors.SubjectNotDeleted):
        registry.delete_subject("a", permanent=True)
    assert books.do(registry.delete_version("a", 1, permanent=False)) == 1
    with pytest.raises(errors.SchemaVersionDeleted):
        registry.delete_version("a", 1, permanent=False)
    with pytest.raises(errors.SubjectDeleted):
        registry.delete_subject("a", permanent=False)
    with pytest.raises(errors.UnknownSubject):
        registry.table.version("a", 1)
    assert registry.table.version("a", 1, deleted=True).id == 1
    assert registry.table.schema(1).schema.text == "int", "by id it is still there for readers"
    assert books.do(registry.delete_version("a", 1, permanent=True)) == 1
    with pytest.raises(errors.UnknownSchema):
        registry.table.schema(1)


@pytest.mark.parametrize("restart", [False, True])
def test_neither_ids_nor_versions_are_ever_given_twice(restart: bool) -> None:
    books = Books()
    books.register("a", "int")
    books.register("a", "long")
    books.do(books.registry.delete_subject("a", permanent=False))
    books.do(books.registry.delete_subject("a", permanent=True))
    if restart:
        books.restart()
    assert books.registry.table.subjects() == []
    assert books.register("a", "int") == SchemaVersion("a", 3, 3, False)


def test_a_schema_that_was_deleted_softly_comes_back_with_its_id_and_a_new_version() -> None:
    books = Books()
    books.register("a", "int")
    books.do(books.registry.delete_version("a", 1, permanent=False))
    assert books.register("a", "int") == SchemaVersion("a", 2, 1, False)


def test_what_is_referred_to_cannot_be_deleted() -> None:
    books = Books()
    books.register("inner", "int")
    books.register("outer", "long", Reference("x", "inner", 1))
    table = books.registry.table
    assert table.referrers("inner", 1) == [2]
    assert table.referred(Reference("x", "inner", 1)).text == "int"
    for permanent in (False, True):
        with pytest.raises(errors.SchemaReferenced):
            books.registry.delete_version("inner", 1, permanent)
    books.do(books.registry.delete_subject("outer", permanent=False))
    books.do(books.registry.delete_subject("inner", permanent=False))
    with pytest.raises(errors.UnknownSchemaVersion):
        table.referred(Reference("x", "inner", 9))


def test_levels_and_modes_fall_back_to_the_registrys() -> None:
    books = Books()
    registry, table = books.registry, books.registry.table
    assert (table.level("a"), table.mode("a")) == ("BACKWARD", "READWRITE")
    books.do(registry.set_settings(GLOBAL, CompatibilitySettings("FULL")))
    books.do(registry.set_settings("a", CompatibilitySettings("NONE")))
    assert (table.level("a"), table.level("b")) == ("NONE", "FULL")
    assert books.do(registry.delete_settings("a")) == "NONE"
    assert table.level("a") == "FULL"
    with pytest.raises(errors.UnknownSubject):
        registry.delete_settings("a")
    books.do(registry.set_mode("a", "READONLY", False))
    with pytest.raises(errors.RegistryReadOnly):
        registry.check_writable("a")
    registry.check_writable("b")
    books.do(registry.set_mode("a", "READWRITE", False))
    books.do(registry.set_mode(GLOBAL, "READONLY_OVERRIDE", False))
    with pytest.raises(errors.RegistryReadOnly):
        registry.check_writable("a")
    assert books.do(registry.delete_mode(GLOBAL)) == "READONLY_OVERRIDE"
    with pytest.raises(errors.UnknownSubject):
        registry.delete_mode("b")


def test_importing_gives_the_callers_ids_and_later_ids_are_above_them() -> None:
    books = Books()
    registry = books.registry
    books.register("old", "int")
    with pytest.raises(errors.RegistryReadOnly):
        registry.set_mode(GLOBAL, "IMPORT", force=False)
    with pytest.raises(errors.RegistryReadOnly):
        registry.check_import("new", 100, None)
    books.do(registry.set_mode("new", "IMPORT", force=False))
    with pytest.raises(errors.RegistryReadOnly):
        registry.check_import("new", None, None)
    assert books.register("new", "string", schema_id=100, version=7) == SchemaVersion("new", 7, 100, False)
    with pytest.raises(errors.RegistryReadOnly):
        books.register("new", "bytes", schema_id=1)
    with pytest.raises(errors.RegistryReadOnly):
        books.register("new", "bytes", schema_id=101, version=7)
    assert books.register("old", "double").id == 101


@pytest.mark.parametrize(
    "name", ["", "a\n", "a\x7f", "\x85", "x" * 1_001, "__GLOBAL", "__EMPTY", ":.context:a", "\ud800"]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(errors.InvalidSubject):
        check_subject(name)


@pytest.mark.parametrize("name", ["a", "a b", "ä", "x" * 1_000, "a:b", "a?", "a/b.proto", "com.shop.Ö$1", "日本", "."])
def test_names_that_are_some(name: str) -> None:
    assert check_subject(name) == name


def test_records_that_are_not_known_are_left_out() -> None:
    assert decode_record(b'["later", 1]', b"{}") is None
    assert decode_record(b"junk", b"{}") is None
    assert decode_record(b'["schema", 1]', b'{"id": "x"}') is None


def test_guids_follow_from_the_schema() -> None:
    assert guid_of("00112233445566778899aabbccddeeff" + "0" * 32) == "00112233-4455-6677-8899-aabbccddeeff"


Step = tuple[str, str, str, bool]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["register", "delete_version", "delete_subject", "level", "mode"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["int", "long", "string"]),
        st.booleans(),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.integers(0, 29))
def test_any_life_is_the_same_after_a_restart(steps: list[Step], restart_at: int) -> None:
    books = Books()
    ids: dict[int, str] = {}
    versions: dict[tuple[str, int], int] = {}
    for number, (what, subject, text, flag) in enumerate(steps):
        if number == restart_at:
            before = seen(books.registry.table)
            books.restart()
            assert seen(books.registry.table) == before
        try:
            if what == "register":
                books.registry.check_writable(subject)
                held = books.register(subject, text)
                assert ids.setdefault(held.id, text) == text, "an id was given twice"
                assert versions.setdefault((subject, held.version), held.id) == held.id, "a version was given twice"
            elif what == "delete_version":
                books.do(books.registry.delete_version(subject, -1 if text == "int" else 1, flag))
            elif what == "delete_subject":
                books.do(books.registry.delete_subject(subject, flag))
            elif what == "level":
                books.do(books.registry.set_settings(subject, CompatibilitySettings("FULL" if flag else "NONE")))
            else:
                books.do(books.registry.set_mode(subject, "READONLY" if flag else "READWRITE", False))
        except GoQueueError:
            continue


def seen(table: SchemaTable) -> object:
    return (
        table.last_id,
        {name: (table.versions(name, True), table.level(name), table.mode(name)) for name in table.subjects()},
        {name: table.last_version(name) for name in ("a", "b")},
        sorted(table.stored),
    )


def test_every_record_survives_being_written(subtests: object = None) -> None:
    books = Books()
    books.register("a", "int", Reference("x", "a", 1))
    books.do(books.registry.set_settings("a", CompatibilitySettings("FULL", True)))
    books.do(books.registry.set_mode("a", "READWRITE", False))
    written: list[Record] = []
    for key, value in books.kept.items():
        record = decode_record(key, value)
        assert record is not None and encode_record(record) == (key, value)
        written.append(record)
    assert len(written) == 6

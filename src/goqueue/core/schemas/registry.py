"""Decides what a change of the registry means. A decision is records to write and a reply; nothing changes here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goqueue.base.ids import Millis, Offset
from goqueue.core.machine import ASKER, Decision, Reply
from goqueue.core.schemas.errors import (
    InvalidSchema,
    RegistryReadOnly,
    SchemaReferenced,
    SchemaVersionDeleted,
    SchemaVersionNotDeleted,
    SubjectDeleted,
    SubjectNotDeleted,
    UnknownSubject,
)
from goqueue.core.schemas.model import GLOBAL, CompatibilitySettings, Mode, Schema, is_default
from goqueue.core.schemas.records import (
    IdMark,
    ModeGone,
    ModeSet,
    Record,
    SchemaGone,
    SchemaSet,
    SettingsGone,
    SettingsSet,
    SubjectMark,
    VersionGone,
    VersionSet,
)
from goqueue.core.schemas.table import SchemaTable, SchemaVersion


def _decided(records: list[Record], reply: Any) -> Decision[Record]:
    return Decision(records, [Reply(ASKER, reply)])


class Registry:
    """Every question either raises or returns a decision; `table` changes by `apply` alone."""

    def __init__(self) -> None:
        self.table = SchemaTable()

    # --- what the host asks --------------------------------------------------------------------------------

    def apply(self, record: Record, offset: Offset = 0) -> None:
        self.table.apply(record)

    def loaded(self, now: Millis) -> Decision[Record]:
        return Decision()

    def revert(self, records: Sequence[Record], now: Millis) -> Sequence[int]:
        """Nothing is volatile and nobody waits."""
        return ()

    def tick(self, now: Millis) -> Decision[Record]:
        return Decision()

    def next_deadline(self) -> Millis | None:
        """A registry has no deadlines."""
        return None

    def shift(self, by_ms: Millis, now: Millis) -> Decision[Record]:
        return Decision()

    # --- register ------------------------------------------------------------------------------------------

    def check_writable(self, subject: str) -> None:
        if self.table.mode(subject) in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryReadOnly(f"Subject {subject or 'null'} in context . is in read-only mode", field="mode")

    def check_import(self, subject: str, schema_id: int | None, version: int | None) -> None:
        """Ids are chosen by the caller in mode IMPORT only, and there they must be; a version may be the next."""
        importing = self.table.mode(subject) == "IMPORT"
        if importing and schema_id is None:
            raise RegistryReadOnly(f"Subject {subject} in context . is not in read-write mode", field="id")
        if not importing and schema_id is not None:
            raise RegistryReadOnly(f"Subject {subject} in context . is not in import mode", field="id")
        if not importing and version is not None and 0 < version != self.table.last_version(subject) + 1:
            raise InvalidSchema("Version is not one more than previous version", field="version")

    def register(
        self, subject: str, schema: Schema, fingerprint: str, schema_id: int | None = None, version: int | None = None
    ) -> Decision[Record]:
        """The schema as the subject's next version; one that the subject has already stays as it is."""
        table = self.table
        known = table.id_of(fingerprint)
        if known is not None and schema_id in (None, known):
            held = table.holding(subject, known)
            if held is not None and version in (None, -1, held.version):
                return _decided([], held)
        if schema_id is not None:
            self._check_free(subject, schema_id, fingerprint, version)
        chosen = schema_id or known or table.last_id + 1
        records: list[Record] = []
        if chosen not in table.stored:
            records += [SchemaSet(chosen, fingerprint, schema), IdMark(max(chosen, table.last_id))]
        number = version if version is not None and version > 0 else table.last_version(subject) + 1
        records += [VersionSet(subject, number, chosen), SubjectMark(subject, max(number, table.last_version(subject)))]
        return _decided(records, SchemaVersion(subject, number, chosen, False))

    def _check_free(self, subject: str, schema_id: int, fingerprint: str, version: int | None) -> None:
        stored = self.table.stored.get(schema_id)
        if stored is not None and stored.fingerprint != fingerprint:
            message = f"Overwrite new schema with id {schema_id} in context . is not permitted."
            raise RegistryReadOnly(message, field="id")
        if stored is None and schema_id <= 0:
            raise InvalidSchema("An id is a number from 1 on.", field="id")
        if version is not None and version <= self.table.last_version(subject) and version > 0:
            raise RegistryReadOnly(f"Subject {subject!r} had a version {version} already.", field="version")

    # --- delete --------------------------------------------------------------------------------------------

    def delete_version(self, subject: str, number: int, permanent: bool) -> Decision[Record]:
        self.check_writable(subject)
        version = self.table.version(subject, number, deleted=number != -1)
        self._check_unreferenced(version)
        if permanent and not version.deleted:
            message = (
                f"Subject '{subject}' Version {version.version} was not deleted first before being permanently deleted"
            )
            raise SchemaVersionNotDeleted(message, field="version")
        if not permanent and version.deleted:
            message = (
                f"Subject '{subject}' Version {version.version} was soft deleted."
                "Set permanent=true to delete permanently"
            )
            raise SchemaVersionDeleted(message, field="version")
        return _decided(self._removal([version], permanent), version.version)

    def delete_subject(self, subject: str, permanent: bool) -> Decision[Record]:
        self.check_writable(subject)
        versions = self.table.versions(subject, deleted=True)
        live = [one for one in versions if not one.deleted]
        if permanent and live:
            message = f"Subject '{subject}' was not deleted first before being permanently deleted"
            raise SubjectNotDeleted(message, field="subject")
        if not permanent and not live:
            message = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
            raise SubjectDeleted(message, field="subject")
        chosen = versions if permanent else live
        for one in chosen:
            self._check_unreferenced(one)
        records = self._removal(chosen, permanent)
        if permanent:
            records += [SettingsGone(subject)] if self.table.own_settings(subject) is not None else []
            records += [ModeGone(subject)] if self.table.own_mode(subject) is not None else []
        return _decided(records, [one.version for one in chosen])

    def _removal(self, versions: list[SchemaVersion], permanent: bool) -> list[Record]:
        if not permanent:
            return [VersionSet(one.subject, one.version, one.id, True) for one in versions]
        records: list[Record] = [VersionGone(one.subject, one.version) for one in versions]
        gone = {(one.subject, one.version) for one in versions}
        unused = (
            schema_id
            for schema_id in sorted({one.id for one in versions})
            if all((use.subject, use.version) in gone for use in self.table.uses(schema_id))
        )
        return [*records, *map(SchemaGone, unused)]

    def _check_unreferenced(self, version: SchemaVersion) -> None:
        referrers = self.table.referrers(version.subject, version.version)
        if referrers:
            message = (
                "One or more references exist to the schema {magic=1,keytype=SCHEMA,"
                f"subject={version.subject},version={version.version}}}."
            )
            raise SchemaReferenced(message, field="version")

    # --- levels and modes ----------------------------------------------------------------------------------

    def set_settings(self, subject: str, settings: CompatibilitySettings) -> Decision[Record]:
        self.check_writable(subject)
        before = self.table.own_settings(subject) or CompatibilitySettings()
        merged = CompatibilitySettings(
            settings.compatibility or before.compatibility,
            before.normalize if settings.normalize is None else settings.normalize,
        )
        return _decided([SettingsSet(subject, merged)], merged)

    def delete_settings(self, subject: str) -> Decision[Record]:
        """Back to the registry's, or to the default; the reply is what held before."""
        self.check_writable(subject)
        before = self.table.own_settings(subject)
        if before is None and not is_default(subject):
            raise UnknownSubject(f"Subject '{subject}' not found.", field="subject")
        level = self.table.level(subject)
        return _decided([] if before is None else [SettingsGone(subject)], level)

    def set_mode(self, subject: str, mode: Mode, force: bool) -> Decision[Record]:
        """To import into what is not empty needs force: its ids may clash."""
        used = self._has_any(subject) if is_default(subject) else self.table.has_live(subject)
        if mode == "IMPORT" and used and not force:
            raise RegistryReadOnly("Cannot import since found existing subjects", field="mode")
        return _decided([ModeSet(subject, mode)], mode)

    def _has_any(self, default: str) -> bool:
        """Whether there is something that it is the default of."""
        if default == GLOBAL:
            return bool(self.table.stored)
        return any(one.startswith(default) and self.table.has_live(one) for one in self.table.subjects())

    def delete_mode(self, subject: str) -> Decision[Record]:
        before = self.table.own_mode(subject)
        if before is None and not is_default(subject):
            raise UnknownSubject(f"Subject '{subject}' not found.", field="subject")
        return _decided([] if before is None else [ModeGone(subject)], before or "READWRITE")

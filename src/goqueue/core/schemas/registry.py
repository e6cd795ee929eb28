"""Decides what a change of the registry means. A decision is records to write and a reply; nothing changes here."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.core.schemas.errors import (
    InvalidSchema,
    NoSubjectConfig,
    NoSubjectMode,
    RegistryReadOnly,
    SchemaReferenced,
    SchemaVersionDeleted,
    SchemaVersionNotDeleted,
    SubjectDeleted,
    SubjectNotDeleted,
)
from goqueue.core.schemas.model import GLOBAL, Mode, Schema, Settings
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
from goqueue.core.schemas.table import SchemaTable, Version


class Decision(msgspec.Struct, frozen=True):
    """Records first; when they are safe, the reply."""

    records: list[Record]
    reply: Any


class Registry:
    """Every method either raises or answers with a decision; `table` is brought up to date by whoever writes it."""

    def __init__(self) -> None:
        self.table = SchemaTable()

    # --- register ------------------------------------------------------------------------------------------

    def check_writable(self, subject: str) -> None:
        mode = self.table.mode(subject)
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryReadOnly(f"Subject {subject or 'registry'!r} is in mode {mode}.", field="mode")

    def check_import(self, subject: str, schema_id: int | None, version: int | None) -> None:
        """Ids and versions are chosen by the caller in mode IMPORT only, and there the id must be."""
        importing = self.table.mode(subject) == "IMPORT"
        if importing and schema_id is None:
            raise RegistryReadOnly(f"Subject {subject!r} is in mode IMPORT: give the schema's id.", field="id")
        if not importing and (schema_id is not None or (version or -1) > 0):
            raise RegistryReadOnly(f"Subject {subject!r} is not in mode IMPORT: the registry gives ids.", field="id")

    def register(
        self, subject: str, schema: Schema, fingerprint: str, schema_id: int | None = None, version: int | None = None
    ) -> Decision:
        """The schema as the subject's next version; one that the subject has already stays as it is."""
        table = self.table
        known = table.id_of(fingerprint)
        if known is not None and schema_id in (None, known):
            held = table.holding(subject, known)
            if held is not None and version in (None, -1, held.version):
                return Decision([], held)
        if schema_id is not None:
            self._check_free(subject, schema_id, fingerprint, version)
        chosen = schema_id or known or table.last_id + 1
        records: list[Record] = []
        if chosen not in table.stored:
            records += [SchemaSet(chosen, fingerprint, schema), IdMark(max(chosen, table.last_id))]
        number = version if version is not None and version > 0 else table.last_version(subject) + 1
        records += [VersionSet(subject, number, chosen), SubjectMark(subject, max(number, table.last_version(subject)))]
        return Decision(records, Version(subject, number, chosen, False))

    def _check_free(self, subject: str, schema_id: int, fingerprint: str, version: int | None) -> None:
        stored = self.table.stored.get(schema_id)
        if stored is not None and stored.fingerprint != fingerprint:
            raise RegistryReadOnly(f"The id {schema_id} is another schema's.", field="id")
        if stored is None and schema_id <= 0:
            raise InvalidSchema("An id is a number from 1 on.", field="id")
        if version is not None and version <= self.table.last_version(subject) and version > 0:
            raise RegistryReadOnly(f"Subject {subject!r} had a version {version} already.", field="version")

    # --- delete --------------------------------------------------------------------------------------------

    def delete_version(self, subject: str, number: int, permanent: bool) -> Decision:
        self.check_writable(subject)
        version = self.table.version(subject, number, deleted=number != -1)
        self._check_unreferenced(version)
        if permanent and not version.deleted:
            told = f"Version {version.version} of subject {subject!r} must be deleted softly first."
            raise SchemaVersionNotDeleted(told, field="version")
        if not permanent and version.deleted:
            told = f"Version {version.version} of subject {subject!r} is deleted; permanent=true removes it for ever."
            raise SchemaVersionDeleted(told, field="version")
        return Decision(self._removal([version], permanent), version.version)

    def delete_subject(self, subject: str, permanent: bool) -> Decision:
        self.check_writable(subject)
        versions = self.table.versions(subject, deleted=True)
        live = [one for one in versions if not one.deleted]
        if permanent and live:
            raise SubjectNotDeleted(f"Subject {subject!r} must be deleted softly first.", field="subject")
        if not permanent and not live:
            told = f"Subject {subject!r} is deleted; add permanent=true to remove it for ever."
            raise SubjectDeleted(told, field="subject")
        chosen = versions if permanent else live
        for one in chosen:
            self._check_unreferenced(one)
        records = self._removal(chosen, permanent)
        if permanent:
            records += [SettingsGone(subject)] if self.table.own_settings(subject) is not None else []
            records += [ModeGone(subject)] if self.table.own_mode(subject) is not None else []
        return Decision(records, [one.version for one in chosen])

    def _removal(self, versions: list[Version], permanent: bool) -> list[Record]:
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

    def _check_unreferenced(self, version: Version) -> None:
        referrers = self.table.referrers(version.subject, version.version)
        if referrers:
            told = (
                f"Version {version.version} of subject {version.subject!r} is referred to by the schemas "
                f"{', '.join(map(str, referrers[:10]))}; delete those first."
            )
            raise SchemaReferenced(told, field="version")

    # --- levels and modes ----------------------------------------------------------------------------------

    def set_settings(self, subject: str, settings: Settings) -> Decision:
        self.check_writable(subject)
        before = self.table.own_settings(subject) or Settings()
        merged = Settings(
            settings.compatibility or before.compatibility,
            before.normalize if settings.normalize is None else settings.normalize,
        )
        return Decision([SettingsSet(subject, merged)], merged)

    def delete_settings(self, subject: str) -> Decision:
        """Back to the registry's, or to the default; the reply is what held before."""
        self.check_writable(subject)
        before = self.table.own_settings(subject)
        if before is None and subject != GLOBAL:
            raise NoSubjectConfig(f"Subject {subject!r} has no compatibility level of its own.", field="subject")
        level = self.table.level(subject)
        return Decision([] if before is None else [SettingsGone(subject)], level)

    def set_mode(self, subject: str, mode: Mode, force: bool) -> Decision:
        """To import into what is not empty needs force: its ids may clash."""
        used = self.table.has_live(subject) if subject != GLOBAL else bool(self.table.stored)
        if mode == "IMPORT" and used and not force:
            told = f"{'The registry' if subject == GLOBAL else f'Subject {subject!r}'} is not empty; add force=true."
            raise RegistryReadOnly(told, field="mode")
        return Decision([ModeSet(subject, mode)], mode)

    def delete_mode(self, subject: str) -> Decision:
        before = self.table.own_mode(subject)
        if before is None and subject != GLOBAL:
            raise NoSubjectMode(f"Subject {subject!r} has no mode of its own.", field="subject")
        return Decision([] if before is None else [ModeGone(subject)], before or "READWRITE")

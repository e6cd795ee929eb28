"""What is registered. It changes in `apply` alone, so a restart that replays the records comes to the same state."""

from __future__ import annotations

import msgspec

from goqueue.core.schemas.errors import UnknownSchema, UnknownSchemaVersion, UnknownSubject
from goqueue.core.schemas.model import GLOBAL, CompatibilitySettings, Level, Mode, Reference, Schema, guid_of, scopes_of
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


class SchemaVersion(msgspec.Struct, frozen=True):
    """A subject's schema under a number."""

    subject: str
    version: int
    id: int
    deleted: bool


class SubjectVersions:
    """All versions, also softly deleted ones, and the highest number ever given."""

    __slots__ = ("last_version", "versions")

    def __init__(self) -> None:
        self.versions: dict[int, SchemaVersion] = {}
        self.last_version = 0

    def live(self) -> list[SchemaVersion]:
        return [self.versions[number] for number in sorted(self.versions) if not self.versions[number].deleted]

    def all(self) -> list[SchemaVersion]:
        return [self.versions[number] for number in sorted(self.versions)]


class SchemaTable:
    """Lookups answer for what is live, unless deleted versions are asked for."""

    def __init__(self) -> None:
        self.last_id = 0
        self.stored: dict[int, SchemaSet] = {}
        self._ids: dict[str, int] = {}  # by fingerprint
        self._guids: dict[str, int] = {}
        self._subjects: dict[str, SubjectVersions] = {}
        self._latest: dict[str, SchemaVersion] = {}
        self._uses: dict[int, dict[tuple[str, int], SchemaVersion]] = {}
        self._referrers: dict[tuple[str, int], set[int]] = {}
        self._settings: dict[str, CompatibilitySettings] = {}
        self._modes: dict[str, Mode] = {}

    # --- change --------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        if isinstance(record, SchemaSet | SchemaGone):
            self._apply_schema(record)
        elif isinstance(record, VersionSet | VersionGone):
            self._apply_version(record)
        elif isinstance(record, IdMark):
            self.last_id = max(self.last_id, record.last)
        elif isinstance(record, SubjectMark):
            subject = self._subjects.setdefault(record.subject, SubjectVersions())
            subject.last_version = max(subject.last_version, record.last)
        elif isinstance(record, SettingsSet):
            self._settings[record.subject] = record.settings
        elif isinstance(record, SettingsGone):
            self._settings.pop(record.subject, None)
        elif isinstance(record, ModeSet):
            self._modes[record.subject] = record.mode
        elif isinstance(record, ModeGone):
            self._modes.pop(record.subject, None)

    def _apply_schema(self, record: SchemaSet | SchemaGone) -> None:
        before = self.stored.pop(record.id, None)
        if before is not None:
            self._ids.pop(before.fingerprint, None)
            self._guids.pop(guid_of(before.fingerprint), None)
            for one in before.schema.references:
                self._referrers[one.subject, one.version].discard(record.id)
        if isinstance(record, SchemaSet):
            self.stored[record.id] = record
            self._ids[record.fingerprint] = record.id
            self._guids[guid_of(record.fingerprint)] = record.id
            self.last_id = max(self.last_id, record.id)
            for one in record.schema.references:
                self._referrers.setdefault((one.subject, one.version), set()).add(record.id)

    def _apply_version(self, record: VersionSet | VersionGone) -> None:
        subject = self._subjects.setdefault(record.subject, SubjectVersions())
        subject.last_version = max(subject.last_version, record.version)
        place = (record.subject, record.version)
        before = subject.versions.pop(record.version, None)
        if before is not None:
            self._uses[before.id].pop(place, None)
        if isinstance(record, VersionSet):
            version = SchemaVersion(record.subject, record.version, record.id, record.deleted)
            subject.versions[record.version] = version
            self._uses.setdefault(record.id, {})[place] = version
        live = subject.live()
        if live:
            self._latest[record.subject] = live[-1]
        else:
            self._latest.pop(record.subject, None)

    # --- schemas -------------------------------------------------------------------------------------------

    def schema(self, schema_id: int) -> SchemaSet:
        found = self.stored.get(schema_id)
        if found is None:
            raise UnknownSchema(f"Schema {schema_id} not found", field="id")
        return found

    def id_of(self, fingerprint: str) -> int | None:
        return self._ids.get(fingerprint)

    def id_of_guid(self, guid: str) -> int | None:
        return self._guids.get(guid)

    def uses(self, schema_id: int) -> list[SchemaVersion]:
        """Every version of every subject that has the schema, deleted ones too."""
        return [version for _, version in sorted(self._uses.get(schema_id, {}).items())]

    def referred(self, reference: Reference) -> Schema:
        """The schema that a reference means; softly deleted versions still serve those that refer to them."""
        subject = self._subjects.get(reference.subject)
        version = subject.versions.get(reference.version) if subject else None
        if version is None:
            message = f"No version {reference.version} of subject {reference.subject!r}, which the reference names."
            raise UnknownSchemaVersion(message, field="references")
        return self.schema(version.id).schema

    def referrers(self, subject: str, version: int) -> list[int]:
        """Ids of the schemas that refer to a version and are in use."""
        found = self._referrers.get((subject, version), set())
        return sorted(one for one in found if any(not use.deleted for use in self.uses(one)))

    # --- subjects ------------------------------------------------------------------------------------------

    def subjects(self) -> list[str]:
        """Also those whose versions are all deleted softly."""
        return sorted(name for name, subject in self._subjects.items() if subject.versions)

    def has_live(self, subject: str) -> bool:
        return subject in self._latest

    def latest(self, subject: str) -> SchemaVersion | None:
        return self._latest.get(subject)

    def versions(self, subject: str, deleted: bool = False) -> list[SchemaVersion]:
        """By number; `UnknownSubject` if there are none."""
        held = self._subjects.get(subject)
        found = [] if held is None else held.all() if deleted else held.live()
        if not found:
            raise UnknownSubject(f"Subject '{subject}' not found.", field="subject")
        return found

    def version(self, subject: str, number: int, deleted: bool = False) -> SchemaVersion:
        """Number -1 is the latest."""
        found = self.versions(subject, deleted)
        if number == -1:
            return found[-1]
        for one in found:
            if one.version == number:
                return one
        raise UnknownSchemaVersion(f"Version {number} not found.", field="version")

    def holding(self, subject: str, schema_id: int, deleted: bool = False) -> SchemaVersion | None:
        """The subject's newest version with the schema."""
        own = [
            use
            for use in self._uses.get(schema_id, {}).values()
            if use.subject == subject and (deleted or not use.deleted)
        ]
        return max(own, key=lambda use: use.version) if own else None

    def last_version(self, subject: str) -> int:
        held = self._subjects.get(subject)
        return 0 if held is None else held.last_version

    # --- levels and modes ----------------------------------------------------------------------------------

    def own_settings(self, subject: str) -> CompatibilitySettings | None:
        return self._settings.get(subject)

    def level(self, subject: str) -> Level:
        """The one that holds: the subject's, else its tenant's, else the registry's."""
        for name in scopes_of(subject):
            settings = self._settings.get(name)
            if settings is not None and settings.compatibility is not None:
                return settings.compatibility
        return "BACKWARD"

    def normalizes(self, subject: str) -> bool:
        """Whether schemas are brought into their normal form: as the subject says, else the registry."""
        for name in scopes_of(subject):
            settings = self._settings.get(name)
            if settings is not None and settings.normalize is not None:
                return settings.normalize
        return False

    def own_mode(self, subject: str) -> Mode | None:
        return self._modes.get(subject)

    def mode(self, subject: str) -> Mode:
        if self._modes.get(GLOBAL) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((mode for name in scopes_of(subject) if (mode := self._modes.get(name))), "READWRITE")

"""What can be wrong about schemas. The REST door gives each word its number in Confluent's list of error codes."""

from __future__ import annotations

from goqueue.base.errors import Conflict, Invalid, NotFound, Unavailable


class UnknownSubject(NotFound):
    """Nothing is registered under that name."""


class UnknownSchemaVersion(NotFound):
    """The subject has no such version."""


class UnknownSchema(NotFound):
    """No schema has that id, or the subject does not hold that schema."""


class SubjectDeleted(NotFound):
    """The subject was deleted (softly) already."""


class SubjectNotDeleted(NotFound):
    """A subject is deleted softly first, then for ever."""


class SchemaVersionDeleted(NotFound):
    """The version was deleted (softly) already."""


class SchemaVersionNotDeleted(NotFound):
    """A version is deleted softly first, then for ever."""


class NoSubjectConfig(NotFound):
    """The subject has no compatibility level of its own."""


class NoSubjectMode(NotFound):
    """The subject has no mode of its own."""


class InvalidSchema(Invalid):
    """The text is not a schema, or one that is not accepted here."""


class SchemaTooLarge(InvalidSchema):
    """The text has more bytes than a schema may have."""


class InvalidSchemaVersion(Invalid):
    """A version is a number from 1 on, or `latest`."""


class InvalidCompatibility(Invalid):
    """No such compatibility level."""


class InvalidMode(Invalid):
    """No such mode."""


class RegistryReadOnly(Invalid):
    """The mode of the registry or subject forbids this."""


class SchemaReferenced(Invalid):
    """Another schema refers to it, so it cannot be deleted."""


class InvalidSubject(Invalid):
    """A subject's name is 1 to 1,000 printable characters."""


class IncompatibleSchema(Conflict):
    """The schema breaks what the subject promises; `detail` has the list of breaks."""


class SchemaMismatch(Invalid):
    """A message does not fit its schema; `field` says where, and of a batch `failures` which records."""


class SchemaNotReady(Unavailable):
    """The schema is large and is being made ready; the same message is checked in a moment."""


class SchemaSupportMissing(Unavailable):
    """The packages for this kind of schema are not installed."""

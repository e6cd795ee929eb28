"""The schemas that one caller may see: those of subjects that it may describe. An id of others is an unknown one."""

from __future__ import annotations

from goqueue.base.access import CLUSTER, Access, AclOperation, AclResource, Need, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.tenants import tenant_of
from goqueue.core.schemas.errors import UnknownSchema
from goqueue.core.schemas.model import CompatibilitySettings, Level, Mode
from goqueue.core.schemas.records import SchemaSet
from goqueue.core.schemas.table import SchemaTable, SchemaVersion


def mode_needs(subject: str, mode: str, *_: object) -> list[Need]:
    """What it takes to set a mode. Ids, which an import chooses, are those of all tenants."""
    needs: list[Need] = [(AclOperation.ALTER, AclResource(ResourceKind.SUBJECT, subject))]
    return [*needs, (AclOperation.ALTER, CLUSTER)] if mode == "IMPORT" and tenant_of(subject) else needs


class VisibleSchemas:
    """Answers what the REST door asks of the table."""

    def __init__(self, table: SchemaTable, access: Access, caller: Caller) -> None:
        self._table = table
        self._access = access
        self._caller = caller

    def _sees(self, subject: str) -> bool:
        return self._access.allows(self._caller, AclOperation.DESCRIBE, AclResource(ResourceKind.SUBJECT, subject))

    def _checked(self, subject: str) -> SchemaTable:
        self._access.admit(self._caller, AclOperation.DESCRIBE, AclResource(ResourceKind.SUBJECT, subject))
        return self._table

    # --- by subject ------------------------------------------------------------------------------------------

    def subjects(self) -> list[str]:
        return [name for name in self._table.subjects() if self._sees(name)]

    def has_live(self, subject: str) -> bool:
        return self._checked(subject).has_live(subject)

    def versions(self, subject: str, deleted: bool = False) -> list[SchemaVersion]:
        return self._checked(subject).versions(subject, deleted)

    def version(self, subject: str, number: int, deleted: bool = False) -> SchemaVersion:
        return self._checked(subject).version(subject, number, deleted)

    def own_settings(self, subject: str) -> CompatibilitySettings | None:
        return self._checked(subject).own_settings(subject)

    def level(self, subject: str) -> Level:
        return self._checked(subject).level(subject)

    def own_mode(self, subject: str) -> Mode | None:
        return self._checked(subject).own_mode(subject)

    def mode(self, subject: str) -> Mode:
        return self._checked(subject).mode(subject)

    # --- by id -----------------------------------------------------------------------------------------------

    def schema(self, schema_id: int) -> SchemaSet:
        found = self._table.schema(schema_id)
        if not self.uses(schema_id):
            raise UnknownSchema(f"Schema {schema_id} not found", field="id")
        return found

    def uses(self, schema_id: int) -> list[SchemaVersion]:
        return [use for use in self._table.uses(schema_id) if self._sees(use.subject)]

    def referrers(self, subject: str, version: int) -> list[int]:
        return [one for one in self._checked(subject).referrers(subject, version) if self.uses(one)]

    def id_of_guid(self, guid: str) -> int | None:
        found = self._table.id_of_guid(guid)
        return found if found is not None and self.uses(found) else None

    @property
    def last_id(self) -> int:
        return self._table.last_id

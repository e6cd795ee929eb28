"""Asked for everything that a caller does: may it? Decisions are remembered until a rule changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from goqueue.base.access import CHANGES, CLUSTER, AclOperation, AclResource, AclRuling, Need, ResourceKind
from goqueue.base.commands import INTERNAL_DOOR, Caller
from goqueue.base.errors import (
    AccessDenied,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    SubjectAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from goqueue.base.limits import ACL_DECISIONS_KNOWN_MAX
from goqueue.base.metadata import Change
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.tenant_errors import NamelessGroup, NamelessTopic
from goqueue.base.tenants import is_within
from goqueue.core.acls import AclTable
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import ACLS
from goqueue.service.audit import AuditLog

_DENIED: Final[dict[ResourceKind, type[AccessDenied]]] = {
    ResourceKind.TOPIC: TopicAuthorizationFailed,
    ResourceKind.GROUP: GroupAuthorizationFailed,
    ResourceKind.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceKind.CLUSTER: ClusterAuthorizationFailed,
    ResourceKind.SUBJECT: SubjectAuthorizationFailed,
}
_NAMELESS: Final[dict[ResourceKind, type[AccessDenied]]] = {
    ResourceKind.TOPIC: NamelessTopic,
    ResourceKind.GROUP: NamelessGroup,
}


class AccessControl:
    """The rules of the metadata store, as this node knows them. Decides where a request comes in, and once."""

    def __init__(
        self,
        settings: SecuritySettings,
        image: Image,
        audit: AuditLog | None = None,
        count: Callable[[str, str], None] = lambda operation, resource: None,
    ) -> None:
        """`count` is told what each refusal was asked for: the operation, and the kind of resource."""
        self._count = count
        self._audit = audit
        self.is_on = settings.authorization == "acl"
        self._asks_everybody = self.is_on or audit is not None
        self._super_users = settings.super_user_names
        self._image = image
        self._table = AclTable((), self._super_users)
        self._known: dict[tuple[str, str, AclOperation, AclResource], bool] = {}

    def metadata_changed(self, change: Change) -> None:
        """Rules hold at once, and for connections that are open too."""
        if any(key.startswith(ACLS) for key in (*change.deletes, *(entry.key for entry in change.puts))):
            self._table = AclTable(self._image.acls(), self._super_users)
            self._known.clear()

    def decide(self, user: str, host: str, operation: AclOperation, resource: AclResource) -> AclRuling:
        return self._table.decide(user, host, operation, resource)

    def asks(self, caller: Caller) -> bool:
        return self._asks_everybody or bool(caller.tenant)

    def allows(self, caller: Caller, operation: AclOperation, resource: AclResource) -> bool:
        if caller.tenant and not _reaches(caller.tenant, operation, resource):
            return False
        asked = (caller.principal, caller.host, operation, resource)
        allowed = self._known.get(asked)
        return allowed or self._decide(caller, asked)

    def _decide(self, caller: Caller, asked: tuple[str, str, AclOperation, AclResource]) -> bool:
        if caller.door == INTERNAL_DOOR or not self.is_on:  # what the broker does for itself nobody has to allow
            return True
        allowed = self._known.get(asked)
        if allowed is None:
            if len(self._known) >= ACL_DECISIONS_KNOWN_MAX:
                self._known.clear()
            allowed = self._known[asked] = self._table.decide(*asked).is_allowed
        return allowed

    def admit(self, caller: Caller, operation: AclOperation, resource: AclResource) -> None:
        if not self.allows(caller, operation, resource):
            if caller.tenant and not resource.name and resource.kind in _NAMELESS:
                raise _NAMELESS[resource.kind](f"The {resource.kind.value} has no name; give it one.")
            self._count(operation.value, resource.kind.value)
            if self._audit is not None:
                self._audit.note("refused", caller, "", ((operation, resource),), "refused")
            # Without the name: a caller that gave an id must not learn it.
            what = f"{operation.value} this {resource.kind.value}".replace("_", " ")
            raise _DENIED[resource.kind](f"{caller.principal[:80]} has no right to {what}.")

    def record(self, caller: Caller, verb: str, needs: Sequence[Need], outcome: str) -> None:
        if self._audit is not None:
            is_change = any(operation in CHANGES for operation, _ in needs)
            self._audit.note("change" if is_change else "read", caller, verb, needs, outcome)


def _reaches(tenant: str, operation: AclOperation, resource: AclResource) -> bool:
    """Whatever the rules say: what is not the tenant's is not there for it, and the cluster belongs to none."""
    if resource.kind is ResourceKind.CLUSTER:
        return operation is AclOperation.IDEMPOTENT_WRITE and resource == CLUSTER
    return is_within(tenant, resource.name)

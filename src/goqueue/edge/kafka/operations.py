"""What a caller may do (KIP-430), as bits, one for each of Kafka's operations; and what handlers ask by themselves."""

from __future__ import annotations

from typing import Final

from goqueue.base.access import CLUSTER as CLUSTER_RESOURCE
from goqueue.base.access import Access, AclOperation, AclResource, ResourceKind
from goqueue.base.commands import Caller

TOPIC: Final = 0x0DF8  # everything, where nobody is refused
CLUSTER: Final = 0x1FA0
GROUP: Final = 0x0D48
_UNSAID: Final = -(1 << 31)

# Kafka's number of each operation.
OPERATION_CODES: Final = {
    AclOperation.ALL: 2,
    AclOperation.READ: 3,
    AclOperation.WRITE: 4,
    AclOperation.CREATE: 5,
    AclOperation.DELETE: 6,
    AclOperation.ALTER: 7,
    AclOperation.DESCRIBE: 8,
    AclOperation.CLUSTER_ACTION: 9,
    AclOperation.DESCRIBE_CONFIGS: 10,
    AclOperation.ALTER_CONFIGS: 11,
    AclOperation.IDEMPOTENT_WRITE: 12,
}


class Rights:
    """Of callers at this door. Without access control everybody has all of them."""

    def __init__(self, access: Access | None = None) -> None:
        self._access = access

    def check(self, caller: Caller, operation: AclOperation, kind: ResourceKind, name: str) -> None:
        """Raises if the caller may not."""
        if self._access is not None:
            self._access.admit(caller, operation, AclResource(kind, name))

    def check_cluster(self, caller: Caller, operation: AclOperation) -> None:
        if self._access is not None:
            self._access.admit(caller, operation, CLUSTER_RESOURCE)

    def allows(self, caller: Caller, operation: AclOperation, kind: ResourceKind, name: str) -> bool:
        return self._access is None or self._access.allows(caller, operation, AclResource(kind, name))

    def allows_cluster(self, caller: Caller, operation: AclOperation) -> bool:
        return self._access is None or self._access.allows(caller, operation, CLUSTER_RESOURCE)

    def topic(self, caller: Caller, name: str, is_asked: bool = True) -> int:
        return self._bits(caller, TOPIC, AclResource(ResourceKind.TOPIC, name)) if is_asked else _UNSAID

    def group(self, caller: Caller, name: str, is_asked: bool) -> int:
        return self._bits(caller, GROUP, AclResource(ResourceKind.GROUP, name)) if is_asked else _UNSAID

    def cluster(self, caller: Caller, is_asked: bool) -> int:
        return self._bits(caller, CLUSTER, CLUSTER_RESOURCE) if is_asked else _UNSAID

    def _bits(self, caller: Caller, everything: int, resource: AclResource) -> int:
        access = self._access
        if access is None:
            return everything
        asked = ((1 << code, operation) for operation, code in OPERATION_CODES.items() if everything & 1 << code)
        return sum(bit for bit, operation in asked if access.allows(caller, operation, resource))

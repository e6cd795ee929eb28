"""Access control of tests: a function that raises decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goqueue.base.access import AclOperation, AclResource, Need
from goqueue.base.commands import Caller


class AskedBy:
    """`admit` decides; what was noted for the audit log is in `recorded`."""

    def __init__(self, admit: Callable[[Caller, AclOperation, AclResource], None]) -> None:
        self._admit = admit
        self.recorded: list[tuple[str, list[str], str]] = []

    def asks(self, caller: Caller) -> bool:
        return True

    def admit(self, caller: Caller, operation: AclOperation, resource: AclResource) -> None:
        self._admit(caller, operation, resource)

    def allows(self, caller: Caller, operation: AclOperation, resource: AclResource) -> bool:
        try:
            self._admit(caller, operation, resource)
        except Exception:
            return False
        return True

    def record(self, caller: Caller, verb: str, needs: Sequence[Need], outcome: str) -> None:
        self.recorded.append((verb, [f"{operation.value} {resource}" for operation, resource in needs], outcome))

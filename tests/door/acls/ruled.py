"""A node whose rules a test sets, and what it needs to walk over all requests with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

from goqueue.base.access import AclOperation, AclPermission, AclRule, parse_pattern
from goqueue.base.commands import Caller
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.settings import load_settings
from goqueue.base.started import Started
from goqueue.core.acls import AclTable
from goqueue.core.cluster.image import Image
from goqueue.node import Node
from goqueue.service.access import AccessControl

# Where doors find who did not say who it is.
ANONYMOUS = [
    f"goqueue.edge.{module}.anonymous" for module in ("rest.callers", "sqs.calls", "grpc.serving", "kafka.calls")
]
ALL = ["all topic:*", "all group:*", "all transactional_id:*", "all subject:*", "all cluster"]
# Written instead of rights: everybody may; the answer has only what the caller may see.
FREE = ("free",)
LISTED = ("listed",)


def rules_of(rights: Iterable[str]) -> list[AclRule]:
    """`read topic:orders`, of everybody."""
    found = []
    for right in rights:
        operation, resource = right.split()
        kind, name, pattern = parse_pattern(resource)
        found.append(AclRule("User:*", AclPermission.ALLOW, AclOperation(operation), kind, name, pattern))
    return found


class Ruled(AccessControl):
    """Access control whose rules are set by the test."""

    def __init__(self) -> None:
        super().__init__(SecuritySettings(authorization="acl"), Image())
        self.set(ALL)

    def set(self, rights: Iterable[str]) -> None:
        self._table = AclTable(rules_of(rights))
        self._known.clear()


@contextmanager
def as_tenant(tenant: str) -> Iterator[None]:
    """Everybody who comes is of this tenant."""
    with ExitStack() as stack:
        for place in ANONYMOUS:
            caller = lambda door, host: Caller(door=door, host=host, tenant=tenant)  # noqa: E731
            stack.enter_context(patch(place, caller))
        yield


def too_little(needed: Sequence[str]) -> list[list[str]]:
    """Rights that are not enough: one is missing, is of another thing, or is to look only."""
    found: list[list[str]] = []
    for at, right in enumerate(needed):
        others = [*needed[:at], *needed[at + 1 :]]
        operation, resource = right.split()
        kind, _, name = resource.partition(":")
        found.append(others)
        if name and name != "*":
            found.append([*others, f"all {kind}:other"])
        if operation not in ("describe", "all"):
            found.append([*others, f"describe {resource}"])
    return found


@asynccontextmanager
async def ruled_node(directory: Path) -> AsyncIterator[tuple[Ruled, Started]]:
    access = Ruled()
    flags = {"data.dir": str(directory), "topics.partitions": "1", "node.shards": "1", "topics.auto_create": "kafka"}
    flags |= {f"{door}.listen": "127.0.0.1:0" for door in ("rest", "kafka", "sqs", "grpc")}
    node = Node(load_settings(None, {}, flags), access=access)
    started = await node.start()
    try:
        yield access, started
    finally:
        await node.stop()

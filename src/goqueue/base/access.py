"""Who may do what to which thing: the words of Kafka's access control, and one more kind of thing for schemas."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidField
from goqueue.base.limits import ACL_NAME_CHARS_MAX, HOST_CHARS_MAX, PRINCIPAL_CHARS_MAX


class AclOperation(enum.Enum):
    """Kafka's operations; `ALL` stands in rules alone."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"
    ALL = "all"

    __hash__ = object.__hash__  # Enum's own is ten times as slow, and these are looked up for every request


class ResourceKind(enum.Enum):
    """Kafka's resources; `SUBJECT` (schemas) is ours. Leases, delayed messages and dead letters are their topic's."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"
    SUBJECT = "subject"

    __hash__ = object.__hash__


class AclResource(msgspec.Struct, frozen=True):
    """One thing, by its kind and name; the name `*` stands for all of a kind."""

    kind: ResourceKind
    name: str = "*"

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


CLUSTER_NAME: Final = "kafka-cluster"
CLUSTER: Final = AclResource(ResourceKind.CLUSTER, CLUSTER_NAME)
ALL_NAMES: Final = "*"
USER: Final = "User:"
EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"

# Who asks for one of these changes something that outlasts the request.
CHANGES: Final = frozenset(
    {
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
        AclOperation.CLUSTER_ACTION,
    }
)

Need: TypeAlias = tuple[AclOperation, AclResource]


class Access(Protocol):
    """What doors and verbs ask."""

    def asks(self, caller: Caller) -> bool:
        """Whether anything that this caller does has to be asked about."""
        ...

    def admit(self, caller: Caller, operation: AclOperation, resource: AclResource) -> None:
        """Raises if the caller may not."""
        ...

    def allows(self, caller: Caller, operation: AclOperation, resource: AclResource) -> bool:
        """The same as an answer, of which nobody is told."""
        ...

    def record(self, caller: Caller, verb: str, needs: Sequence[Need], outcome: str) -> None:
        """An administrator did something, or looked at messages."""
        ...


# --- rules ------------------------------------------------------------------------------------------------


class AclPermission(enum.Enum):
    ALLOW = "allow"
    DENY = "deny"


class AclPattern(enum.Enum):
    """How a rule names things: by a whole name (`*` is every name), or by how names begin."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class AclRule(msgspec.Struct, frozen=True):
    """`principal` is `User:alice`, or `User:*` for everybody; `host` an address, or `*` for all of them."""

    principal: str
    permission: AclPermission
    operation: AclOperation
    kind: ResourceKind
    name: str
    pattern: AclPattern = AclPattern.LITERAL
    host: str = ANY_HOST

    def __str__(self) -> str:
        named = f"{self.kind.value}:{self.name}" + ("*" if self.pattern is AclPattern.PREFIXED else "")
        return f"{self.permission.value} {self.principal} {self.operation.value} {named} from {self.host}"


class AclFilter(msgspec.Struct, frozen=True):
    """Which rules are meant: None is any. With `matches_name` those that hold for a thing of that name."""

    kind: ResourceKind | None = None
    name: str | None = None
    pattern: AclPattern | None = None
    matches_name: bool = False
    principal: str | None = None
    host: str | None = None
    operation: AclOperation | None = None
    permission: AclPermission | None = None


class AclRuling(msgspec.Struct, frozen=True):
    """What was decided, and why: the rule, if one decided."""

    is_allowed: bool
    reason: str
    rule: AclRule | None = None


def mistake_in(rule: AclRule) -> str:
    """What is wrong with a rule, or nothing."""
    if not rule.principal.startswith(USER) or not 0 < len(rule.principal) - len(USER) <= PRINCIPAL_CHARS_MAX:
        return f"A principal is User:NAME or User:*, with at most {PRINCIPAL_CHARS_MAX} characters of name."
    if not 0 < len(rule.name) <= ACL_NAME_CHARS_MAX:
        return f"A rule names things, by 1 to {ACL_NAME_CHARS_MAX} characters."
    if rule.kind is ResourceKind.CLUSTER and (rule.name, rule.pattern) != (CLUSTER_NAME, AclPattern.LITERAL):
        return f"The only resource of the kind cluster is {CLUSTER_NAME}."
    if not 0 < len(rule.host) <= HOST_CHARS_MAX or any(letter in rule.host for letter in " ,/"):
        return "A host is one address, or * for all of them."
    return ""


def parse_operation(text: str) -> AclOperation:
    """As people write it: `alter-configs`, `ALTER_CONFIGS`."""
    try:
        return AclOperation(text.strip().lower().replace("-", "_"))
    except ValueError:
        words = ", ".join(one.value.replace("_", "-") for one in AclOperation)
        raise InvalidField(f"{text[:40]!r} is no operation; use one of {words}.", field="operation") from None


def parse_resource(text: str) -> AclResource:
    """`topic:orders`, `group:billing`; `cluster` needs no name."""
    kind, colon, name = text.partition(":")
    try:
        found = ResourceKind(kind.strip().lower().replace("-", "_"))
    except ValueError:
        words = ", ".join(one.value.replace("_", "-") for one in ResourceKind)
        raise InvalidField(
            f"{text[:80]!r} is no resource; write KIND:NAME, KIND is {words}.", field="resource"
        ) from None
    if found is ResourceKind.CLUSTER:
        return CLUSTER
    if not colon or not name:
        raise InvalidField(f"{text[:80]!r} names nothing; write {kind}:NAME.", field="resource")
    return AclResource(found, name)


def parse_pattern(text: str) -> tuple[ResourceKind, str, AclPattern]:
    """The same for rules: `topic:*` is every topic, `topic:orders-*` each whose name begins with `orders-`."""
    found = parse_resource(text)
    if found.name.endswith("*") and found.name != ALL_NAMES:
        return found.kind, found.name[:-1], AclPattern.PREFIXED
    return found.kind, found.name, AclPattern.LITERAL

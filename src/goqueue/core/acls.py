"""Decides who may do what. Deny wins; without a rule that allows it nobody may; super users may everything.

What a principal's rules say is sorted once, when that principal first asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from goqueue.base.access import (
    ALL_NAMES,
    ANY_HOST,
    CLUSTER,
    EVERYBODY,
    USER,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclRule,
    AclRuling,
    ResourceKind,
)
from goqueue.base.limits import ACL_PRINCIPALS_KNOWN_MAX

# Who may one of these may look, too.
_DESCRIBING: Final = frozenset(
    {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: _DESCRIBING | {AclOperation.ALL},
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL}
    ),
}
_ALLOWED_BY: Final = {one: _IMPLIED_BY.get(one, frozenset({one, AclOperation.ALL})) for one in AclOperation}
_TOPIC_CREATE: Final = (AclOperation.CREATE, ResourceKind.TOPIC)


class _Rules:
    """Rules of one principal and permission, by kind."""

    def __init__(self, rules: Iterable[AclRule]) -> None:
        self._named: dict[tuple[ResourceKind, str], list[AclRule]] = {}
        self._prefixed: dict[ResourceKind, list[AclRule]] = {}
        for rule in rules:
            if rule.pattern is AclPattern.PREFIXED:
                self._prefixed.setdefault(rule.kind, []).append(rule)
            else:
                self._named.setdefault((rule.kind, rule.name), []).append(rule)

    def of(self, kind: ResourceKind, name: str) -> Iterator[AclRule]:
        """Those that hold for the thing; the most specific first."""
        yield from self._named.get((kind, name), ())
        yield from (rule for rule in self._prefixed.get(kind, ()) if name.startswith(rule.name))
        if name != ALL_NAMES:
            yield from self._named.get((kind, ALL_NAMES), ())

    def kind(self, kind: ResourceKind) -> Iterator[AclRule]:
        yield from (rule for (held, _), rules in self._named.items() if held is kind for rule in rules)
        yield from self._prefixed.get(kind, ())


class AclTable:
    """All rules. Made anew when one of them changes."""

    def __init__(self, rules: Iterable[AclRule] = (), super_users: Iterable[str] = ()) -> None:
        self.rules = tuple(sorted(rules, key=str))
        self._super_users = frozenset(super_users)
        self._by_principal: dict[str, list[AclRule]] = {}
        for rule in self.rules:
            self._by_principal.setdefault(rule.principal, []).append(rule)
        self._sorted: dict[str, tuple[_Rules, _Rules]] = {}

    def decide(self, user: str, host: str, operation: AclOperation, resource: AclResource) -> AclRuling:
        if user in self._super_users:
            return AclRuling(True, f"{user} is a super user")
        ruling = self._decide(user, host, operation, resource)
        if ruling.is_allowed or ruling.rule is not None:
            return ruling
        if (operation, resource.kind) == _TOPIC_CREATE:  # who may create in the cluster may create any topic
            wider = self._decide(user, host, operation, CLUSTER)
            return wider if wider.is_allowed else ruling
        if operation is AclOperation.IDEMPOTENT_WRITE:  # and who may write at all may do so idempotently
            rule = self._any_allowed(user, host, AclOperation.WRITE, ResourceKind.TOPIC)
            return ruling if rule is None else AclRuling(True, "a rule allows writing to a topic", rule)
        return ruling

    def _decide(self, user: str, host: str, operation: AclOperation, resource: AclResource) -> AclRuling:
        denied, allowed = self._of(user)
        kind, name = resource.kind, resource.name
        for rule in denied.of(kind, name):
            if rule.operation in (operation, AclOperation.ALL) and rule.host in (host, ANY_HOST):
                return AclRuling(False, "a rule denies it", rule)
        wanted = _ALLOWED_BY[operation]
        for rule in allowed.of(kind, name):
            if rule.operation in wanted and rule.host in (host, ANY_HOST):
                return AclRuling(True, "a rule allows it", rule)
        return AclRuling(False, "no rule allows it")

    def _any_allowed(self, user: str, host: str, operation: AclOperation, kind: ResourceKind) -> AclRule | None:
        """A rule by which something of the kind is allowed that no other denies."""
        denied, allowed = self._of(user)
        wanted = _ALLOWED_BY[operation]
        for rule in allowed.kind(kind):
            if rule.operation not in wanted or rule.host not in (host, ANY_HOST):
                continue
            against = (one for one in denied.of(kind, rule.name) if one.host in (host, ANY_HOST))
            if not any(one.operation in (operation, AclOperation.ALL) for one in against):
                return rule
        return None

    def _of(self, user: str) -> tuple[_Rules, _Rules]:
        found = self._sorted.get(user)
        if found is None:
            if len(self._sorted) >= ACL_PRINCIPALS_KNOWN_MAX:
                self._sorted.clear()
            rules = [*self._by_principal.get(USER + user, ()), *self._by_principal.get(EVERYBODY, ())]
            parted = {
                permission: _Rules(one for one in rules if one.permission is permission) for permission in AclPermission
            }
            found = self._sorted[user] = parted[AclPermission.DENY], parted[AclPermission.ALLOW]
        return found


def matches(wanted: AclFilter, rule: AclRule) -> bool:
    """Whether a filter means the rule."""
    if not _names(wanted, rule):
        return False
    pairs = (
        (wanted.kind, rule.kind),
        (wanted.principal, rule.principal),
        (wanted.host, rule.host),
        (wanted.operation, rule.operation),
        (wanted.permission, rule.permission),
    )
    return all(asked is None or asked == held for asked, held in pairs)


def _names(wanted: AclFilter, rule: AclRule) -> bool:
    if wanted.pattern is not None and rule.pattern is not wanted.pattern:
        return False
    if wanted.name is None:
        return True
    if not wanted.matches_name:
        return rule.name == wanted.name
    if rule.pattern is AclPattern.PREFIXED:
        return wanted.name.startswith(rule.name)
    return rule.name in (wanted.name, ALL_NAMES)

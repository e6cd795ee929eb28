"""The rules of access control, for administrators: add, list, delete, and ask which of them decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from goqueue.base.access import AclFilter, AclOperation, AclResource, AclRule, AclRuling, mistake_in
from goqueue.base.errors import InvalidField, TooManyRules
from goqueue.base.limits import ACLS_MAX, ACLS_OF_REQUEST_MAX, METADATA_COMMIT_KEYS_MAX
from goqueue.base.metadata import Commit
from goqueue.core.acls import matches
from goqueue.core.cluster.records import ACLS, AclRecord, encode
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.access import AccessControl


class Acls:
    """The verbs. A change is durable, and holds at this node, when a verb returns; the others follow in a moment."""

    def __init__(self, metadata: ImageFollower, access: AccessControl) -> None:
        self._metadata = metadata
        self._access = access

    @property
    def is_on(self) -> bool:
        """Whether the rules are asked."""
        return self._access.is_on

    def list(self, wanted: AclFilter) -> list[AclRule]:
        """Those that the filter means."""
        return sorted((rule for rule in self._metadata.image.acls() if matches(wanted, rule)), key=str)

    def check(self, rule: AclRule) -> None:
        """Raises if it is no rule."""
        if mistake := mistake_in(rule):
            raise InvalidField(mistake)

    async def add(self, rules: Sequence[AclRule]) -> None:
        """All of them; those that are there already stay."""
        for rule in rules:
            self.check(rule)
        known = set(self._metadata.image.acls())
        fresh = [rule for rule in dict.fromkeys(rules) if rule not in known]
        if len(rules) > ACLS_OF_REQUEST_MAX:
            raise TooManyRules(f"One request adds at most {ACLS_OF_REQUEST_MAX} rules.")
        if len(known) + len(fresh) > ACLS_MAX:
            raise TooManyRules(f"There are {len(known)} rules; at most {ACLS_MAX} are kept.")
        for some in _parted(fresh):
            await self._metadata.commit(Commit({_key(rule): encode(AclRecord(rule)) for rule in some}))

    async def delete(self, wanted: AclFilter) -> Sequence[AclRule]:
        """All that the filter means; they are returned."""
        found = self.list(wanted)
        for some in _parted(found):
            await self._metadata.commit(Commit(deletes=[_key(rule) for rule in some]))
        return found

    def explain(self, user: str, host: str, operation: AclOperation, resource: AclResource) -> AclRuling:
        """What is decided for a user, and by which rule, as if the rules were asked."""
        return self._access.decide(user, host, operation, resource)


def _key(rule: AclRule) -> str:
    return ACLS + hashlib.sha256(msgspec.json.encode(rule)).hexdigest()[:40]


def _parted(rules: Sequence[AclRule]) -> Iterable[Sequence[AclRule]]:
    for begin in range(0, len(rules), METADATA_COMMIT_KEYS_MAX):
        yield rules[begin : begin + METADATA_COMMIT_KEYS_MAX]

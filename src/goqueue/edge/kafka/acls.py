"""Kafka's requests about rules of access control: describe, create, delete."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from goqueue.base.access import AclFilter, AclPattern, AclPermission, AclRule, ResourceKind
from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.edge.kafka.operations import OPERATION_CODES
from goqueue.service.acls import Acls
from goqueue.service.front import Front
from goqueue.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from goqueue.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from goqueue.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_ANY: Final = 1
_MATCH: Final = 2  # patterns: those that hold for a name
# Schemas have no number in Kafka; rules about them are told to nobody here.
_KINDS: Final = {
    ResourceKind.TOPIC: 2,
    ResourceKind.GROUP: 3,
    ResourceKind.CLUSTER: 4,
    ResourceKind.TRANSACTIONAL_ID: 5,
}
_PERMISSIONS: Final = {AclPermission.DENY: 2, AclPermission.ALLOW: 3}
_PATTERNS: Final = {AclPattern.LITERAL: 3, AclPattern.PREFIXED: 4}
_KIND_OF: Final = {code: kind for kind, code in _KINDS.items()}
_OPERATION_OF: Final = {code: operation for operation, code in OPERATION_CODES.items()}
_PERMISSION_OF: Final = {code: permission for permission, code in _PERMISSIONS.items()}
_PATTERN_OF: Final = {code: pattern for pattern, code in _PATTERNS.items()}


class AclHandler:
    def __init__(self, acls: Front[Acls]) -> None:
        self._acls = acls

    def describe(self, call: KafkaCall, request: DescribeAclsRequest) -> DescribeAclsResponse:
        try:
            found = [rule for rule in self._acls.by(call.caller).list(_filter(request)) if rule.kind in _KINDS]
        except GoQueueError as error:
            return DescribeAclsResponse(error_code=code_of(error), error_message=error.message)
        by_thing: dict[tuple[ResourceKind, str, AclPattern], list[AclDescription]] = {}
        for rule in found:
            told = AclDescription(
                rule.principal, rule.host, OPERATION_CODES[rule.operation], _PERMISSIONS[rule.permission]
            )
            by_thing.setdefault((rule.kind, rule.name, rule.pattern), []).append(told)
        return DescribeAclsResponse(
            error_message=None,
            resources=[
                DescribeAclsResource(_KINDS[kind], name, _PATTERNS[pattern], acls)
                for (kind, name, pattern), acls in by_thing.items()
            ],
        )

    async def create(self, call: KafkaCall, request: CreateAclsRequest) -> CreateAclsResponse:
        """What is no rule is one error; the others are made together."""
        results = [AclCreationResult(error_message=None) for _ in request.creations]
        sound: dict[int, AclRule] = {}
        for place, one in enumerate(request.creations):
            try:
                sound[place] = rule = _rule(one)
                self._acls.by(call.caller).check(rule)
            except GoQueueError as error:
                sound.pop(place, None)
                results[place] = AclCreationResult(code_of(error), error.message)
        try:
            if sound:
                await self._acls.by(call.caller).add(list(sound.values()))
        except GoQueueError as error:
            for place in sound:
                results[place] = AclCreationResult(code_of(error), error.message)
        return CreateAclsResponse(results=results)

    async def delete(self, call: KafkaCall, request: DeleteAclsRequest) -> DeleteAclsResponse:
        return DeleteAclsResponse(filter_results=[await self._delete(call, one) for one in request.filters])

    async def _delete(self, call: KafkaCall, asked: DeleteAclsFilter) -> DeleteAclsFilterResult:
        """Rules that Kafka has no words for stay."""
        found: list[AclRule] = []
        try:
            wanted = _filter(asked)
            for kind in _KINDS if wanted.kind is None else (wanted.kind,):
                found += await self._acls.by(call.caller).delete(replace(wanted, kind=kind))
        except GoQueueError as error:
            return DeleteAclsFilterResult(code_of(error), error.message, [])
        return DeleteAclsFilterResult(0, None, [_deleted(rule) for rule in found])


def _deleted(rule: AclRule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=_KINDS[rule.kind],
        resource_name=rule.name,
        pattern_type=_PATTERNS[rule.pattern],
        principal=rule.principal,
        host=rule.host,
        operation=OPERATION_CODES[rule.operation],
        permission_type=_PERMISSIONS[rule.permission],
    )


def _rule(asked: AclCreation) -> AclRule:
    try:
        return AclRule(
            asked.principal,
            _PERMISSION_OF[asked.permission_type],
            _OPERATION_OF[asked.operation],
            _KIND_OF[asked.resource_type],
            asked.resource_name,
            _PATTERN_OF[asked.resource_pattern_type],
            asked.host,
        )
    except KeyError as error:
        raise InvalidField(f"A rule has no kind, operation, permission or pattern {error.args[0]}.") from None


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Of rules that Kafka knows."""
    try:
        pattern = asked.pattern_type_filter
        return AclFilter(
            None if asked.resource_type_filter == _ANY else _KIND_OF[asked.resource_type_filter],
            asked.resource_name_filter,
            None if pattern in (_ANY, _MATCH) else _PATTERN_OF[pattern],
            pattern == _MATCH,
            asked.principal_filter,
            asked.host_filter,
            None if asked.operation == _ANY else _OPERATION_OF[asked.operation],
            None if asked.permission_type == _ANY else _PERMISSION_OF[asked.permission_type],
        )
    except KeyError as error:
        raise InvalidField(f"No rule has a kind, operation, permission or pattern {error.args[0]}.") from None

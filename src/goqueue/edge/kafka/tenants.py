"""Requests and answers of a tenant's clients: names get the tenant's prefix on the way in, and lose it on the way out.

This is the only place of Kafka's door where that happens. Which fields are names is in one table, for all messages; a
test sees to it that every field of text is in one of the lists. What is not the tenant's, access control refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from goqueue.base.tenants import SEPARATOR, full_name, is_within
from goqueue.core.groups.consumer_protocol import renamed_assignment, renamed_subscription
from goqueue.core.patterns import tenant_pattern
from goqueue.edge.kafka.calls import Answer, Exclusive, Handler, KafkaCall
from goqueue.wire.messages.join_group import JoinGroupRequestProtocol

# Names of topics, groups and transactional ids: they all get the same prefix.
NAMES: Final = frozenset(
    {
        "topic",
        "topic_name",
        "topic_names",
        "subscribed_topic_names",
        "group_id",
        "group_ids",
        "groups_names",
        "groups",
        "transactional_id",
        "v3_and_below_transactional_id",
        "transactional_ids",
        "key",
        "coordinator_keys",
        "name",
    }
)
# Where `name` is something else.
NOT_NAMED: Final = frozenset(
    {
        "AlterableConfig",
        "CreatableTopicConfig",
        "CreatableTopicConfigs",
        "DescribeConfigsSynonym",
        "DescribeConfigsResourceResult",
        "JoinGroupRequestProtocol",
        "SupportedFeatureKey",
        "FinalizedFeatureKey",
        "ScramCredentialDeletion",
        "ScramCredentialUpsertion",
        "UserName",
    }
)
# Sentences, in which names can stand.
SENTENCES: Final = frozenset({"error_message", "batch_index_error_message", "acknowledge_error_message"})
PATTERNS: Final = frozenset({"subscribed_topic_regex", "transactional_id_pattern"})
SUBSCRIPTIONS: Final = frozenset({"metadata", "member_metadata"})  # of classic consumers, as bytes
ASSIGNMENTS: Final = frozenset({"assignment", "member_assignment"})
OF_A_KIND: Final = "resource_name"  # a name if the resource is a topic or a group
OF_A_SETTING: Final = "value"  # a name if the setting is one
NAME_SETTINGS: Final = frozenset({"queue.dead.letter.topic"})
NAMED_RESOURCES: Final = frozenset({2, 32})  # topics and groups, in Kafka's numbers
CONSUMERS: Final = "consumer"  # the protocol type of classic consumers


class _Renaming:
    """One direction: what happens to a name, a sentence and a pattern."""

    def __init__(self, tenant: str, is_inward: bool) -> None:
        self._tenant = tenant
        self._prefix = tenant + SEPARATOR
        self._is_inward = is_inward

    def name(self, name: str) -> str:
        if not name:
            return name
        if self._is_inward:
            return full_name(self._tenant, name)
        return name[len(self._prefix) :] if is_within(self._tenant, name) else ""

    def names(self, value: Any, _: Any) -> Any:
        return self.name(value) if isinstance(value, str) else [self.name(one) for one in value]

    def sentence(self, text: str, _: Any) -> str:
        return text if self._is_inward else text.replace(self._prefix, "")

    def pattern(self, pattern: str, _: Any) -> str:
        """Not touched: the tenant before it is compared by itself, and the pattern matched with what follows."""
        if self._is_inward:
            return tenant_pattern(self._tenant, pattern)
        begin = tenant_pattern(self._tenant, "")
        return pattern.removeprefix(begin) if pattern.startswith(begin) else ""

    def subscription(self, data: bytes, _: Any) -> bytes:
        return renamed_subscription(bytes(data), self._name_in_bytes)

    def assignment(self, data: bytes, _: Any) -> bytes:
        return renamed_assignment(bytes(data), self._name_in_bytes)

    def _name_in_bytes(self, name: str) -> str:
        """What a member of the same tenant wrote."""
        return self.name(name) or name

    def offered(self, protocols: Any, request: Any) -> Any:
        """Of a member that joins: only consumers write names."""
        return self.structs(protocols, request) if request.protocol_type == CONSUMERS else protocols

    def of_a_kind(self, name: str, struct: Any) -> str:
        return self.name(name) if struct.resource_type in NAMED_RESOURCES else name

    def of_a_setting(self, value: str, struct: Any) -> str:
        return self.name(value) if struct.name in NAME_SETTINGS else value

    # --- whole messages --------------------------------------------------------------------------------------

    def message(self, struct: msgspec.Struct) -> msgspec.Struct:
        changes = {}
        for field, kind in _plan(type(struct)).items():
            value = getattr(struct, field)
            if value:
                changes[field] = getattr(self, kind)(value, struct)
        return replace(struct, **changes) if changes else struct

    def structs(self, value: Any, _: Any) -> Any:
        return self.message(value) if isinstance(value, msgspec.Struct) else [self.message(one) for one in value]


@lru_cache(maxsize=1_000)
def _plan(kind: type) -> Mapping[str, str]:
    """What is done to which field; of structs, to those that have something to be done."""
    found: dict[str, str] = {}
    for field, hint in get_type_hints(kind).items():
        inner = _struct_in(hint)
        if inner is not None:
            if _plan(inner):
                found[field] = "offered" if inner is JoinGroupRequestProtocol else "structs"
        elif change := changed_by(kind, field, hint):
            found[field] = change
    return found


def changed_by(struct: type, field: str, hint: object) -> str:
    """What is done to a field of text or bytes, or nothing."""
    if _holds(hint, bytes):
        return {**dict.fromkeys(SUBSCRIPTIONS, "subscription"), **dict.fromkeys(ASSIGNMENTS, "assignment")}.get(
            field, ""
        )
    if not _holds(hint, str) or (field == "name" and struct.__name__ in NOT_NAMED):
        return ""
    kinds = ((NAMES, "names"), (SENTENCES, "sentence"), (PATTERNS, "pattern"))
    if found := next((change for fields, change in kinds if field in fields), ""):
        return found
    return {OF_A_KIND: "of_a_kind", OF_A_SETTING: "of_a_setting"}.get(field, "")


def _struct_in(hint: Any) -> type | None:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for one in get_args(hint) if (found := _struct_in(one)) is not None), None)


def _holds(hint: Any, kind: type) -> bool:
    return hint is kind or any(_holds(one, kind) for one in get_args(hint))


def for_tenant(handler: Handler) -> Handler:
    """The handler, for a client of a tenant."""

    def translated(call: KafkaCall, request: Any) -> Answer:
        tenant = call.caller.tenant
        inward, outward = _Renaming(tenant, is_inward=True), _Renaming(tenant, is_inward=False)
        answer = handler(call, None if request is None else inward.message(request))
        if not inspect.isawaitable(answer):
            return None if answer is None else outward.message(answer)
        later = _later(answer, outward)
        return Exclusive(later) if isinstance(answer, Exclusive) else later

    return translated


async def _later(answer: Awaitable[Any], outward: _Renaming) -> Any:
    found = await answer
    return None if found is None else outward.message(found)

"""Arguments and answers of verbs as somebody of a tenant says them: names get the tenant's prefix on the way in, and
lose it on the way out.

This is the only place where that happens for the doors that have commands (REST, the registry, SQS, gRPC); Kafka's has
messages of its own (`edge/kafka/tenants.py`). What is a name is told by what a field or an argument is called, in one
table; a test sees to it that every text of every verb is in one of the lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from goqueue.base.errors import GoQueueError
from goqueue.base.tenants import SEPARATOR, full_name, is_within
from goqueue.core.patterns import tenant_pattern
from goqueue.drive.topic_table import Topic

# Topics, groups, transactional ids, owners of staged sets and subjects, and lists and tables of them.
NAMES: Final = frozenset(
    {
        "topic",
        "topics",
        "subscribed_topics",
        "group",
        "groups",
        "subject",
        "transactional_id",
        "owner",
        "source",
        "to",
        "name",
        "partitions",
        "assignment",
        "revoking",
        "revoke",
        "gained",
        "target",
        "by_group",
        "by_origin",
    }
)
# Where such a word means something else.
NOT_NAMED: Final = frozenset(
    {
        ("Reference", "name"),  # how a schema calls another one
        ("Take", "owner"),  # who holds the leases
        ("Span", "name"),
        ("ExporterStats", "name"),
        ("JoinReply", "assignment"),
        ("SyncReply", "assignment"),
        ("Check", "name"),
    }
)
NEEDED: Final = frozenset({"topic", "subject", "name", "owner"})  # where they cannot be left out
RECEIPTS: Final = frozenset({"receipt", "receipts"})
SENTENCES: Final = frozenset({"reason", "failure", "text", "detail", "more", "example"})
PATTERNS: Final = frozenset({"regex"})
CONFIGS: Final = frozenset({"config", "overrides"})
NAME_SETTINGS: Final = frozenset({"queue.dead.letter.topic"})
REQUIRED: Final = "required"  # what is done to a name that is needed
# Verbs that answer with nothing but a name, or names.
NAME_ANSWERS: Final = frozenset({"name_of", "home_of", "configured", "subjects"})
# Texts that clients of the tenant, or of nobody, have made: not looked at.
PLAIN: Final = frozenset(
    {
        "id",
        "field",
        "topic_id",
        "headers",
        "cron",
        "reasons",
        "timezone",
        "deduplication_id",
        "replaced",
        "sender",
        "trace",
        "types",
        "message_id",
        "place",
        "principal",
        "door",
        "host",
        "tenant",
        "metadata",
        "member_id",
        "new_member_id",
        "instance_id",
        "client_host",
        "client_id",
        "rack",
        "assignor",
        "protocol",
        "protocol_type",
        "leader",
        "state",
        "kind",
        "mode",
        "prefix",
        "nonce",
        "attempt_id",
        "by_reason",
        "skipped",
        "share",
        "source_id",
        "task_id",
        "dead_letters",
        "lane",
        "form",
        "by_type",
        "compatibility",
        "rule_set",
        "path",
        "writer",
        "guid",
        "fingerprint",
        "version",
        "accept",
        "key",
        "parent_id",
        "span_id",
        "trace_id",
        "changes",
        "status",
        "marks",
    }
)


class TenantNames:
    """One direction."""

    def __init__(self, tenant: str, is_inward: bool) -> None:
        self.tenant = tenant
        self._prefix = tenant + SEPARATOR
        self._is_inward = is_inward

    def name(self, name: str) -> str:
        if not name:
            return name
        if self._is_inward:
            return full_name(self.tenant, name)
        return name[len(self._prefix) :] if is_within(self.tenant, name) else ""

    def required(self, name: str) -> str:
        """A name that is missing is one of the tenant's too: of subjects, that of what holds for all of them."""
        return self._prefix if self._is_inward and not name else self.name(name)

    def receipts(self, receipts: Any) -> Any:
        """They begin with a topic."""
        if not isinstance(receipts, str):
            return [self.receipts(one) for one in receipts]
        return receipts if receipts.startswith(":") else self.name(receipts)

    def names(self, value: Any) -> Any:
        """A name, or whatever has names in it."""
        if isinstance(value, str):
            return self.name(value)
        if isinstance(value, Mapping):
            return {self.names(key): self.names(one) for key, one in value.items()}
        if isinstance(value, list | tuple | set):
            return type(value)(self.names(one) for one in value)
        return self.anything(value)

    def sentence(self, text: Any) -> Any:
        if isinstance(text, Mapping):
            return {name: self.sentence(one) for name, one in text.items()}
        return text if self._is_inward or not isinstance(text, str) else text.replace(self._prefix, "")

    def pattern(self, pattern: str) -> str:
        begin = tenant_pattern(self.tenant, "")
        return begin + pattern if self._is_inward else pattern.removeprefix(begin) if pattern else ""

    def config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.name(one) if name in NAME_SETTINGS and one else one for name, one in config.items()}

    def error(self, error: GoQueueError) -> GoQueueError:
        """The same in the tenant's words."""
        told = copy(error)
        told.message = self.sentence(error.message)
        told.detail = self.sentence(error.detail)
        told.args = (told.message, *error.args[1:])
        return told

    def topic(self, topic: Topic) -> Topic:
        record, config = topic.record, topic.config
        record = replace(record, name=self.name(record.name), overrides=self.config(record.overrides))
        config = replace(config, queue_dead_letter_topic=self.name(config.queue_dead_letter_topic))
        return Topic(record, config, topic.partitions)

    def anything(self, value: Any) -> Any:
        """What is no name itself, but may have some in it."""
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, GoQueueError):
            return self.error(value)
        if isinstance(value, Topic):
            return self.topic(value)
        if isinstance(value, list | tuple | set):
            return type(value)(self.anything(one) for one in value) if value else value
        if isinstance(value, dict):
            return {self.anything(key): self.anything(one) for key, one in value.items()}
        return value

    def _struct(self, struct: msgspec.Struct) -> msgspec.Struct:
        changes = {}
        for field, change in _plan(type(struct)).items():
            value = getattr(struct, field)
            if value or change == REQUIRED:
                changes[field] = getattr(self, change)(value)
        return replace(struct, **changes) if changes else struct


@lru_cache(maxsize=1_000)
def _plan(kind: type) -> Mapping[str, str]:
    """What is done to which field."""
    hints = get_type_hints(kind)
    found = {field: changed_by(kind.__name__, field, hint) for field, hint in hints.items()}
    return {field: change for field, change in found.items() if change}


def changed_by(owner: str, field: str, hint: Any) -> str:
    """What is done to a field of a struct, or to an argument of a verb; nothing if there is nothing in it."""
    if holds_text(hint) and (owner, field) not in NOT_NAMED:
        if hint is str and field in NEEDED:
            return REQUIRED
        kinds = (
            (NAMES, "names"),
            (RECEIPTS, "receipts"),
            (SENTENCES, "sentence"),
            (PATTERNS, "pattern"),
            (CONFIGS, "config"),
        )
        if found := next((change for fields, change in kinds if field in fields), ""):
            return found
    return "anything" if _has_more(hint) else ""


def holds_text(hint: Any) -> bool:
    return hint is str or any(holds_text(one) for one in get_args(hint))


def _has_more(hint: Any) -> bool:
    if isinstance(hint, type):
        if issubclass(hint, msgspec.Struct):
            return bool(_plan(hint))
        if issubclass(hint, GoQueueError | Topic):
            return True
    return any(_has_more(one) for one in get_args(hint))

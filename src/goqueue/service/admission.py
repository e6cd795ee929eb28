"""What every verb asks of access control before it does anything: one table for all services that doors are handed.

An ask gets the arguments of its verb and names operations and resources in the words of Kafka's access control; other
forms are in `service/asking.py`. Verbs that concern all of a kind ask for `*`. `anybody` asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from goqueue.base.access import CLUSTER, AclOperation, AclResource, Need, ResourceKind
from goqueue.base.commands import Browse, PublishBatch, PublishMessages, PublishOnce
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take, parse_receipt, parse_receipt_run
from goqueue.core.groups.requests import CommitRequest, ConsumerHeartbeat, RestJoin, ShareHeartbeat
from goqueue.core.txn.records import TxnAnswer
from goqueue.service.acls import Acls
from goqueue.service.admission_letters import LETTERS, dead_letter_needs
from goqueue.service.admission_looks import LOOKS
from goqueue.service.asking import (
    Ask,
    Attribute,
    Delivering,
    Hidden,
    Listed,
    LookedUp,
    Noted,
    Verbs,
    Viewed,
    always,
    anybody,
    named,
    topic_needs,
)
from goqueue.service.browse import Browsing
from goqueue.service.consume import Consuming, PollResult
from goqueue.service.credentials import Credentials
from goqueue.service.departure import Departure
from goqueue.service.fetch import Fetching
from goqueue.service.groups import Groups
from goqueue.service.leasing import Leasing
from goqueue.service.node_config import NodeConfig
from goqueue.service.producers import ProducerIds
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.queue_stats import QueueStats
from goqueue.service.quotas import Quotas
from goqueue.service.reassignment import Reassignments
from goqueue.service.reset import Reset, ResetOffsets
from goqueue.service.scheduling import Scheduling
from goqueue.service.schemas import Schemas
from goqueue.service.share_offsets import ShareOffsets
from goqueue.service.sharing import ShareTake, Sharing
from goqueue.service.staged import StagedVerbs
from goqueue.service.storage import Storage
from goqueue.service.tenants import Tenants
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_publish import PublishInTransaction, TransactionalPublish
from goqueue.service.visible_schemas import VisibleSchemas, mode_needs

READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE, ALTER, DESCRIBE = AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
TXN, SUBJECT = ResourceKind.TRANSACTIONAL_ID, ResourceKind.SUBJECT
IDEMPOTENT: Final[Need] = (AclOperation.IDEMPOTENT_WRITE, CLUSTER)


def of_group(operation: AclOperation) -> Ask:
    """The first argument is a request of a group."""
    return lambda request, *_, **__: ((operation, AclResource(GROUP, request.group)),)


def listed(kind: ResourceKind, attribute: str, operation: AclOperation = DESCRIBE) -> Listed:
    """Each element has the thing's name in an attribute, or is it."""
    if not attribute:
        return Listed(lambda name: ((operation, AclResource(kind, name)),))
    return Listed(lambda one: ((operation, AclResource(kind, getattr(one, attribute))),))


def any_of(operation: AclOperation, kind: ResourceKind) -> Ask:
    return always(operation, AclResource(kind))


def _commit(request: CommitRequest) -> list[Need]:
    return [(READ, AclResource(GROUP, request.group)), *topic_needs(READ, (one.topic for one in request.offsets))]


def _shared_answers(group: str, _: str, places: Iterable[TopicPartition]) -> list[Need]:
    return [(READ, AclResource(GROUP, group)), *topic_needs(READ, (at.topic for at in places))]


def _take(take: Take | ShareTake, *_: object, **__: object) -> list[Need]:
    return [(READ, AclResource(GROUP, take.group)), *topic_needs(READ, (at.topic for at in take.partitions))]


def _receipts(receipts: Sequence[str], *_: object, **__: object) -> list[Need]:
    """What is no receipt is told by the verb."""
    if receipts and (run := parse_receipt_run(receipts)) is not None:
        return topic_needs(READ, [run.topic])
    found: dict[str, None] = {}
    for text in receipts:
        try:
            found[parse_receipt(text).topic] = None
        except GoQueueError:
            continue
    return topic_needs(READ, found)


def _changed(name: str, config: Mapping[str, object], partitions: int | None, *_: object, **__: object) -> list[Need]:
    resource = AclResource(TOPIC, name)
    widens = [(ALTER, resource)] * (partitions is not None)
    return [(ALTER_CONFIGS, resource)] * bool(config) + widens + dead_letter_needs(config)


def _created(name: str, _: int | None, config: Mapping[str, object], *__: object, **___: object) -> list[Need]:
    return [(CREATE, AclResource(TOPIC, name)), *dead_letter_needs(config)]


def _init(transactional_id: str, *_: object, **__: object) -> list[Need]:
    return [(WRITE, AclResource(TXN, transactional_id)) if transactional_id else IDEMPOTENT]


def _add_partitions(name: str, _: int, __: int, partitions: Sequence[TopicPartition], **___: object) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), *topic_needs(WRITE, (at.topic for at in partitions))]


def _add_group(name: str, _: int, __: int, group: str) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), (READ, AclResource(GROUP, group))]


def _add_offsets(name: str, _: int, __: int, request: CommitRequest, **___: object) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), *_commit(request)]


def _add_answers(name: str, _: int, __: int, answers: Sequence[TxnAnswer]) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), *_receipts([one.receipt for one in answers])]


def _in_transaction(command: PublishInTransaction) -> list[Need]:
    needs = topic_needs(WRITE, (part.topic for part in command.parts))
    return [(WRITE, AclResource(TXN, command.transactional_id)), *needs]


def _batch(command: PublishBatch, *_: object, **__: object) -> tuple[Need]:
    return ((WRITE, AclResource(TOPIC, command.at.topic)),)


def _written(at: TopicPartition, *_: object) -> tuple[Need]:
    return ((WRITE, AclResource(TOPIC, at.topic)),)


def _messages(command: PublishMessages) -> tuple[Need]:
    return ((WRITE, AclResource(TOPIC, command.topic)),)


def _once(command: PublishOnce) -> tuple[Need]:
    return ((WRITE, AclResource(TOPIC, command.scope.topic)),)


def _browse(command: Browse) -> tuple[Need]:
    return ((READ, AclResource(TOPIC, command.topic)),)


def _reset(command: Reset) -> list[Need]:
    return [(READ, AclResource(GROUP, command.group)), *topic_needs(READ, [command.topic])]


def _join(request: RestJoin, *_: object) -> list[Need]:
    return [(READ, AclResource(GROUP, request.group)), *topic_needs(READ, request.topics)]


def _subscribe(request: ConsumerHeartbeat | ShareHeartbeat) -> list[Need]:
    return [(READ, AclResource(GROUP, request.group)), *topic_needs(DESCRIBE, request.subscribed_topics or ())]


def _polled(found: PollResult) -> list[Need]:
    return topic_needs(READ, (run.at.topic for run in found.runs))


def _of_txn(operation: AclOperation) -> Callable[[str], tuple[Need]]:
    return lambda name: ((operation, AclResource(TXN, name)),)


_QUEUE = Listed(lambda one: ((DESCRIBE, AclResource(GROUP, one.group)), (DESCRIBE, AclResource(TOPIC, one.topic))))


def _of_group_and_topic(operation: AclOperation) -> Ask:
    return lambda group, topic, *_: ((operation, AclResource(GROUP, group)), (operation, AclResource(TOPIC, topic)))


# --- the table --------------------------------------------------------------------------------------------

ADMISSION: Final[Mapping[type, Verbs]] = {
    Topics: {
        "require": named(DESCRIBE, TOPIC),
        "require_users": named(DESCRIBE, TOPIC),
        "find": Hidden(named(DESCRIBE, TOPIC)),
        "describe": named(DESCRIBE, TOPIC),
        "require_readable": named(READ, TOPIC),
        "settings_of": named(DESCRIBE_CONFIGS, TOPIC),
        "all": listed(TOPIC, "name"),
        "everything": listed(TOPIC, "name"),
        "list": listed(TOPIC, "name"),
        "name_of": anybody,  # what is done to the topic then asks by its name
        "kafka_may_create": Attribute(),
        "create": _created,
        "check_new": _created,
        "check_placing": named(CREATE, TOPIC),
        "check_config": anybody,  # looks at its argument alone
        "alter": _changed,
        "check_partitions": named(ALTER, TOPIC),
        "delete": named(DELETE, TOPIC),
    },
    Publish: {
        "append": _batch,
        "append_any": _batch,
        "batch": _batch,
        "messages": _messages,
        "is_durable": anybody,  # of what the caller has appended
        "wait_durable": anybody,
        "settle": named(DESCRIBE, TOPIC),
    },
    DeduplicatedPublish: {
        "messages": _once,
        "last_sequence": lambda scope: ((DESCRIBE, AclResource(TOPIC, scope.topic)),),
    },
    Fetching: {
        "fetch": anybody,
        "fetch_now": anybody,  # they ask for each partition themselves: one refused is one error
        "partition": lambda command: ((READ, AclResource(TOPIC, command.at.topic)),),
    },
    Browsing: {
        "offsets_from": named(DESCRIBE, TOPIC),
        "high_watermark": named(DESCRIBE, TOPIC),
        "check_partition": named(DESCRIBE, TOPIC),
        "check_readable": named(READ, TOPIC),
        "read": Noted(_browse),
    },
    Groups: {
        "new_member_id": anybody,
        "resolve_pattern": anybody,  # looks at its argument alone
        "join": of_group(READ),
        "sync": of_group(READ),
        "heartbeat": of_group(READ),
        "leave": of_group(READ),
        "consumer_heartbeat": _subscribe,
        "share_heartbeat": _subscribe,
        "commit": _commit,
        "check_member": named(DESCRIBE, GROUP),
        "offsets": named(DESCRIBE, GROUP),
        "delete_offsets": named(DELETE, GROUP),
        "configure": named(ALTER_CONFIGS, GROUP),
        "check_config": named(ALTER_CONFIGS, GROUP),
        "config": named(DESCRIBE_CONFIGS, GROUP),
        "config_defaults": anybody,  # those of every group
        "configured": listed(GROUP, "", DESCRIBE_CONFIGS),
        "lag": named(DESCRIBE, GROUP),
        "describe": named(DESCRIBE, GROUP),
        "stats": named(DESCRIBE, GROUP),
        "list": listed(GROUP, "group"),
        "delete": named(DELETE, GROUP),
    },
    Consuming: {
        "join": _join,
        "heartbeat": named(READ, GROUP),
        "revoke": named(READ, GROUP),
        "leave": named(READ, GROUP),
        "poll": Delivering(of_group(READ), _polled),
        "commit": _commit,
    },
    ResetOffsets: {"reset": _reset},
    Leasing: {
        "take": _take,
        "ack": _receipts,
        "nack": _receipts,
        "reject": _receipts,
        "extend": _receipts,
        "counts": _of_group_and_topic(DESCRIBE),
        "held_of": _of_group_and_topic(DESCRIBE),
        "skip_all": lambda group, topic: ((DELETE, AclResource(TOPIC, topic)),),  # SQS purges a queue
    },
    Sharing: {
        "acquire": _take,
        "acknowledge": _shared_answers,
        "release": named(READ, GROUP),
        "release_now": named(READ, GROUP),
        "check_member": named(READ, GROUP),
        "lock_ms": named(READ, GROUP),
    },
    ShareOffsets: {
        "known": named(DESCRIBE, GROUP),
        "start": lambda group, at: ((DESCRIBE, AclResource(GROUP, group)), (DESCRIBE, AclResource(TOPIC, at.topic))),
        "check_empty": named(DESCRIBE, GROUP),
        "check_reset": named(DESCRIBE, GROUP),
        "alter": lambda group, offsets: _shared_answers(group, "", offsets),
        "delete": lambda group, topics: ((DELETE, AclResource(GROUP, group)), *topic_needs(READ, topics)),
    },
    QueueStats: {
        "look": anybody,  # tells nothing
        **dict.fromkeys(("reliability", "lanes"), _QUEUE),
        **dict.fromkeys(("leases", "peek"), Noted(_of_group_and_topic(READ))),
    },
    Scheduling: {
        **dict.fromkeys(("pending", "due_ends", "due_counts"), named(DESCRIBE, TOPIC)),
        "show": Noted(named(READ, TOPIC)),
        **dict.fromkeys(("list", "entering"), Noted(named(READ, TOPIC))),
        "cancel": named(WRITE, TOPIC),
        "cancel_all": named(DELETE, TOPIC),  # the same
        "stats": any_of(DESCRIBE, TOPIC),
    },
    Schemas: {
        "table": Viewed(VisibleSchemas),
        **dict.fromkeys(("text", "document"), anybody),  # of an id that the table told
        "stats": any_of(DESCRIBE, SUBJECT),
        "lookup": named(DESCRIBE, SUBJECT),
        "test": named(DESCRIBE, SUBJECT),
        "register": named(WRITE, SUBJECT),
        "delete_version": named(DELETE, SUBJECT),
        "delete_subject": named(DELETE, SUBJECT),
        "set_settings": named(ALTER, SUBJECT),
        "delete_settings": named(ALTER, SUBJECT),
        "set_mode": mode_needs,
        "delete_mode": named(ALTER, SUBJECT),
    },
    ProducerIds: {"next_id": always(*IDEMPOTENT)},
    TransactionVerbs: {
        "init": _init,
        "beat": LookedUp("name_of", _of_txn(WRITE)),
        "begin": named(WRITE, TXN),
        "add_partitions": _add_partitions,
        "turn": named(WRITE, TXN),
        "add_group": _add_group,
        "add_offsets": _add_offsets,
        "add_answers": _add_answers,
        "may_write": lambda question: ((WRITE, AclResource(TOPIC, question.topic)),),
        "writes_to": lambda producer_id, at, *_: _written(at),
        "end": named(WRITE, TXN),
        "abort_any": always(ALTER, CLUSTER),
        "mark": always(AclOperation.CLUSTER_ACTION, CLUSTER),
        "unstable": named(DESCRIBE, GROUP),
        "describe": named(DESCRIBE, TXN),
        "name_of": LookedUp("name_of", _of_txn(DESCRIBE)),
        "all": listed(TXN, "transactional_id"),
        "open": listed(TXN, "transactional_id"),
        "runs_for_ms": anybody,  # looks at its argument alone
        "tally": Attribute([(DESCRIBE, AclResource(TXN))]),
    },
    TransactionalPublish: {"publish": _in_transaction},
    StagedVerbs: {
        "stage": named(WRITE, TXN),
        "commit": named(WRITE, TXN),
        "abort": named(WRITE, TXN),
        "owner": named(DESCRIBE, TXN),
        "owners": listed(TXN, "owner"),
    },
    Storage: {
        "usage": Attribute([(DESCRIBE, CLUSTER)]),
        "data_dir": Attribute([(DESCRIBE, CLUSTER)]),
        "delete_records": named(DELETE, TOPIC),
    },
    NodeConfig: {
        "static": Attribute(),  # and "dynamic": what every topic has that leaves something unsaid
        "check": always(ALTER_CONFIGS, CLUSTER),
        "alter": always(ALTER_CONFIGS, CLUSTER),
        "set_log_levels": always(ALTER_CONFIGS, CLUSTER),
        "dynamic": Attribute(),
    },
    Quotas: {"list": always(DESCRIBE_CONFIGS, CLUSTER), "alter": always(ALTER_CONFIGS, CLUSTER)},
    Acls: {
        "is_on": Attribute([(DESCRIBE, CLUSTER)]),
        "list": always(DESCRIBE, CLUSTER),
        "explain": always(DESCRIBE, CLUSTER),
        "check": always(ALTER, CLUSTER),
        "add": always(ALTER, CLUSTER),
        "delete": always(ALTER, CLUSTER),
    },
    Tenants: {
        **dict.fromkeys(("list", "show", "usage"), always(DESCRIBE, CLUSTER)),
        **dict.fromkeys(("create", "delete"), always(ALTER, CLUSTER)),
        "own_usage": anybody,  # of the caller's own, which the door names
    },
    Credentials: {
        **dict.fromkeys(("users", "user", "keys", "key", "last_used_ms"), always(DESCRIBE, CLUSTER)),
        **dict.fromkeys(("add_user", "set_password", "set_disabled", "delete_user"), always(ALTER, CLUSTER)),
        **dict.fromkeys(("alter_scram", "create_key", "rotate_key", "revoke_key"), always(ALTER, CLUSTER)),
    },
    Departure: dict.fromkeys(("leave", "stay"), always(ALTER, CLUSTER)),
    Reassignments: {
        **dict.fromkeys(("plan", "moves", "restart_safe", "led_by", "throttled"), always(DESCRIBE, CLUSTER)),
        **dict.fromkeys(
            ("begin", "cancel", "fill", "remove", "throttle", "elect", "check_change"), always(ALTER, CLUSTER)
        ),
    },
    **LETTERS,
    **LOOKS,
}

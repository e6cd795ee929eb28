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
from goqueue.base.topic_config import DEAD_LETTER_TOPIC
from goqueue.core.dead_letter import EVERYTHING, DeadLetterFilter
from goqueue.core.groups.requests import CommitRequest, ConsumerHeartbeat, RestJoin, ShareHeartbeat
from goqueue.core.redrive import RedriveRequest
from goqueue.core.txn.records import TxnAnswer
from goqueue.service.acls import Acls
from goqueue.service.admission_looks import LOOKS
from goqueue.service.asking import (
    Ask,
    Attribute,
    Delivering,
    Hidden,
    Listed,
    LookedUp,
    Noted,
    ToldCaller,
    Verbs,
    Viewed,
    always,
    anybody,
)
from goqueue.service.browse import Browsing
from goqueue.service.consume import Consuming, PollResult
from goqueue.service.credentials import Credentials
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
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


def named(operation: AclOperation, kind: ResourceKind) -> Ask:
    """The first argument is the thing's name."""
    return lambda name, *_, **__: ((operation, AclResource(kind, name)),)


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


def _topics(operation: AclOperation, names: Iterable[str]) -> list[Need]:
    return [(operation, AclResource(TOPIC, name)) for name in dict.fromkeys(names)]


def _commit(request: CommitRequest) -> list[Need]:
    return [(READ, AclResource(GROUP, request.group)), *_topics(READ, (one.topic for one in request.offsets))]


def _shared_answers(group: str, _: str, places: Iterable[TopicPartition]) -> list[Need]:
    return [(READ, AclResource(GROUP, group)), *_topics(READ, (at.topic for at in places))]


def _take(take: Take | ShareTake, *_: object, **__: object) -> list[Need]:
    return [(READ, AclResource(GROUP, take.group)), *_topics(READ, (at.topic for at in take.partitions))]


def _receipts(receipts: Sequence[str], *_: object, **__: object) -> list[Need]:
    """What is no receipt is told by the verb."""
    if receipts and (run := parse_receipt_run(receipts)) is not None:
        return _topics(READ, [run.topic])
    found: dict[str, None] = {}
    for text in receipts:
        try:
            found[parse_receipt(text).topic] = None
        except GoQueueError:
            continue
    return _topics(READ, found)


def _changed(name: str, config: Mapping[str, object], partitions: int | None, *_: object, **__: object) -> list[Need]:
    resource = AclResource(TOPIC, name)
    widens = [(ALTER, resource)] * (partitions is not None)
    return [(ALTER_CONFIGS, resource)] * bool(config) + widens + _dead_letters(config)


def _created(name: str, _: int | None, config: Mapping[str, object], *__: object, **___: object) -> list[Need]:
    return [(CREATE, AclResource(TOPIC, name)), *_dead_letters(config)]


def _dead_letters(config: Mapping[str, object]) -> list[Need]:
    """Who may read, redrive and delete a topic's dead letters is asked of the topic: whoever says that they lie in
    another one has to be allowed as much there."""
    target = config.get(DEAD_LETTER_TOPIC)
    return [need for operation in (READ, WRITE, DELETE) for need in _topics(operation, [str(target)] if target else [])]


def _init(transactional_id: str, *_: object, **__: object) -> list[Need]:
    return [(WRITE, AclResource(TXN, transactional_id)) if transactional_id else IDEMPOTENT]


def _add_partitions(name: str, _: int, __: int, partitions: Sequence[TopicPartition], **___: object) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), *_topics(WRITE, (at.topic for at in partitions))]


def _add_group(name: str, _: int, __: int, group: str) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), (READ, AclResource(GROUP, group))]


def _add_offsets(name: str, _: int, __: int, request: CommitRequest, **___: object) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), *_commit(request)]


def _add_answers(name: str, _: int, __: int, answers: Sequence[TxnAnswer]) -> list[Need]:
    return [(WRITE, AclResource(TXN, name)), *_receipts([one.receipt for one in answers])]


def _in_transaction(command: PublishInTransaction) -> list[Need]:
    needs = _topics(WRITE, (part.topic for part in command.parts))
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
    return [(READ, AclResource(GROUP, command.group)), *_topics(READ, [command.topic])]


def _join(request: RestJoin, *_: object) -> list[Need]:
    return [(READ, AclResource(GROUP, request.group)), *_topics(READ, request.topics)]


def _subscribe(request: ConsumerHeartbeat | ShareHeartbeat) -> list[Need]:
    return [(READ, AclResource(GROUP, request.group)), *_topics(DESCRIBE, request.subscribed_topics or ())]


def _polled(found: PollResult) -> list[Need]:
    return _topics(READ, (run.at.topic for run in found.runs))


def _redrive(
    name: str,
    to: str | None = None,
    _: int | None = None,
    filter: DeadLetterFilter = EVERYTHING,  # noqa: A002
    *__: object,
    **___: object,
) -> list[Need]:
    """Messages leave one topic and enter others. Where it is not known which, the verb asks for each letter."""
    target = to or filter.topic
    return [(ALTER, AclResource(TOPIC, name)), *_topics(WRITE, [target] if target else [])]


def _preview(asked: RedriveRequest, **_: object) -> list[Need]:
    return [(DESCRIBE, AclResource(TOPIC, asked.source)), *_topics(WRITE, [asked.to] if asked.to else [])]


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
        "delete": named(DELETE, TOPIC),
    },
    Publish: {
        "append": _batch,
        "append_any": _batch,
        "batch": _batch,
        "messages": _messages,
        "is_durable": anybody,  # of what the caller has appended
        "wait_durable": anybody,
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
        "alter": lambda group, offsets: _shared_answers(group, "", offsets),
        "delete": lambda group, topics: ((DELETE, AclResource(GROUP, group)), *_topics(READ, topics)),
    },
    DeadLetterView: {
        "home_of": named(DESCRIBE, TOPIC),
        "page": Noted(named(READ, TOPIC)),
        "show": Noted(named(READ, TOPIC)),
        "stats": named(DESCRIBE, TOPIC),
        "delete": named(DELETE, TOPIC),
    },
    Redrives: {
        "start": ToldCaller(_redrive),
        "preview": ToldCaller(_preview),
        "tasks": named(DESCRIBE, TOPIC),
        "find": LookedUp("find", lambda task: ((DESCRIBE, AclResource(TOPIC, task.source)),)),
        "cancel": LookedUp("find", lambda task: ((ALTER, AclResource(TOPIC, task.source)),)),
    },
    QueueStats: {
        "look": anybody,  # tells nothing
        **dict.fromkeys(("reliability", "lanes"), _QUEUE),
        **dict.fromkeys(("leases", "peek"), Noted(_of_group_and_topic(READ))),
    },
    Scheduling: {
        **dict.fromkeys(("pending", "due_ends", "due_counts"), named(DESCRIBE, TOPIC)),
        "show": Noted(named(READ, TOPIC)),
        "list": Noted(named(READ, TOPIC)),
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
    Reassignments: {
        **dict.fromkeys(("plan", "moves", "restart_safe", "throttled"), always(DESCRIBE, CLUSTER)),
        **dict.fromkeys(
            ("begin", "cancel", "fill", "remove", "throttle", "elect", "check_change"), always(ALTER, CLUSTER)
        ),
    },
    **LOOKS,
}

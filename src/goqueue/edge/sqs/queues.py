"""Operations on queues: create, find, list, change, tag, share, purge, delete."""

from __future__ import annotations

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.commands import Caller
from goqueue.base.errors import AccessDenied, TopicExists
from goqueue.base.ids import Millis
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs import schema
from goqueue.edge.sqs.attributes import (
    DEFAULTS,
    KEPT,
    KNOWN,
    Kept,
    changed,
    check_attributes,
    check_throughput,
    config_of,
    deduplication_scope,
    invalid_attribute,
    is_fifo,
    kept_of,
    kept_text,
    modified_s,
    settled,
)
from goqueue.edge.sqs.calls import Handler, Reply, SqsCall
from goqueue.edge.sqs.contents import QueueContents
from goqueue.edge.sqs.errors import SqsError, invalid, invalid_value, missing, no_queue
from goqueue.edge.sqs.names import Arns, check_queue_name, is_queue_name, name_of_url, queue_url
from goqueue.edge.sqs.policies import NO_REDRIVE, Policies
from goqueue.service.front import Front
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.topics import Topics

RESULTS_MAX: Final = 1_000
TAGS_MAX: Final = 50
PURGE_EVERY_MS: Final = 60_000
_THROUGHPUT: Final = frozenset({"FifoThroughputLimit", "DeduplicationScope"})
# A queue made here gives a message back when its lease ends, at once and for ever, unless a RedrivePolicy is set.
_AS_SQS_DOES: Final = {"queue.max.failures": 0, "queue.max.redrives": 0, "queue.retry.ms": 0, "queue.retry.max.ms": 0}


class Queues:
    def __init__(
        self,
        topics: Front[Topics],
        contents: QueueContents,
        publish_once: Front[DeduplicatedPublish],
        arns: Arns,
        clock: SteadyClock,
    ) -> None:
        self._topics = topics
        self._contents = contents
        self._publish_once = publish_once
        self._arns = arns
        self._clock = clock
        self._policies = Policies(topics, arns)
        self._changing = asyncio.Lock()
        self._purged: dict[str, Millis] = {}  # when, by topic id

    def handlers(self) -> dict[type[schema.SqsRequest], Handler]:
        return {
            schema.CreateQueue: self.create,
            schema.DeleteQueue: self.delete,
            schema.GetQueueUrl: self.url,
            schema.ListQueues: self.list,
            schema.ListDeadLetterSourceQueues: self.sources,
            schema.GetQueueAttributes: self.attributes,
            schema.SetQueueAttributes: self.set_attributes,
            schema.TagQueue: self.tag,
            schema.UntagQueue: self.untag,
            schema.ListQueueTags: self.tags,
            schema.AddPermission: self.add_permission,
            schema.RemovePermission: self.remove_permission,
            schema.PurgeQueue: self.purge,
        }

    def find(self, caller: Caller, url: str) -> Topic:
        """The topic behind a queue's URL."""
        return self.named(caller, name_of_url(url))

    def named(self, caller: Caller, name: str) -> Topic:
        topic = self._topics.by(caller).find(name)
        if topic is None or topic.is_internal:
            raise no_queue()
        return topic

    # --- create and delete ---------------------------------------------------------------------------------

    async def create(self, asked: schema.CreateQueue, call: SqsCall) -> Reply:
        name, given = asked.queue_name, asked.attributes or {}
        fifo = given.get("FifoQueue", "").lower() == "true"
        check_queue_name(name, fifo)
        values = check_attributes(given, fifo)
        topic = self._topics.by(call.caller).find(name)
        if topic is None:
            config = self._new_config(call.caller, name, values, asked.tags or {}, fifo)
            try:
                await self._topics.by(call.caller).create(name, _partitions(values, fifo), config)
            except TopicExists:
                topic = self.named(call.caller, name)  # somebody was faster
        if topic is not None:
            self._compare(call.caller, self._topics.by(call.caller).require_users(topic.name), values)
        return {"QueueUrl": queue_url(call.base_url, name)}

    def _new_config(
        self, caller: Caller, name: str, values: dict[str, str], tags: dict[str, str], fifo: bool
    ) -> dict[str, object]:
        check_throughput(values)
        config: dict[str, object] = {**config_of(DEFAULTS | values), **_AS_SQS_DOES}
        if fifo:
            config["queue.order"] = "key"
        if values.get("RedrivePolicy"):
            config |= self._policies.redrive(caller, values["RedrivePolicy"], name).config()
        if values.get("RedriveAllowPolicy"):
            self._policies.check_allow(values["RedriveAllowPolicy"])
        kept = _new_kept(values, _checked_tags(tags, {}), self._clock.now_ms())
        return config | {"sqs.attributes": kept}

    def _compare(self, caller: Caller, topic: Topic, values: Mapping[str, str]) -> None:
        """A queue that exists may be created again, if what is asked for is what it has."""
        held = settled(topic)
        for name, value in values.items():
            if name == "RedrivePolicy":
                same = not value or self._policies.redrive(caller, value, topic.name) == self._policies.redrive_of(
                    topic
                )
            else:
                same = held.get(name, "") == value
            if not same:
                raise SqsError(
                    "QueueNameExists",
                    f"A queue already exists with the same name and a different value for attribute {name}",
                )

    async def delete(self, asked: schema.DeleteQueue, call: SqsCall) -> Reply:
        topic = self.find(call.caller, asked.queue_url)
        await self._topics.by(call.caller).delete(topic.name)
        self._purged.pop(topic.record.id, None)
        return None

    # --- look ----------------------------------------------------------------------------------------------

    async def url(self, asked: schema.GetQueueUrl, call: SqsCall) -> Reply:
        return {"QueueUrl": queue_url(call.base_url, self.named(call.caller, asked.queue_name).name)}

    async def list(self, asked: schema.ListQueues, call: SqsCall) -> Reply:
        prefix = asked.queue_name_prefix or ""
        names = [
            one.name
            for one in self._topics.by(call.caller).all()
            if one.name.startswith(prefix) and is_queue_name(one.name)
        ]
        return _paged("QueueUrls", names, asked.max_results, asked.next_token, call)

    async def sources(self, asked: schema.ListDeadLetterSourceQueues, call: SqsCall) -> Reply:
        names = self._policies.sources(call.caller, self.find(call.caller, asked.queue_url).name)
        return {"queueUrls": []} | _paged("queueUrls", names, asked.max_results, asked.next_token, call)

    async def attributes(self, asked: schema.GetQueueAttributes, call: SqsCall) -> Reply:
        topic = self.find(call.caller, asked.queue_url)
        names = asked.attribute_names or []
        for name in names:
            if name not in KNOWN and name != "All":
                raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:100]}.")
        if not names:
            return {}
        held = await self._held(call.caller, topic)
        shown = held if "All" in names else {name: held[name] for name in names if name in held}
        return {"Attributes": shown} if shown else {}

    async def _held(self, caller: Caller, topic: Topic) -> dict[str, str]:
        held = {
            **settled(topic),
            "QueueArn": self._arns.of(topic.name),
            **await self._contents.attributes(caller, topic.name),
            "CreatedTimestamp": str(topic.record.created_ms // 1000),
            "LastModifiedTimestamp": str(modified_s(topic)),
        }
        if (redrive := self._policies.redrive_text(topic)) is not None:
            held["RedrivePolicy"] = redrive
        return held

    # --- change --------------------------------------------------------------------------------------------

    async def set_attributes(self, asked: schema.SetQueueAttributes, call: SqsCall) -> Reply:
        async with self._changing:
            topic = self.find(call.caller, asked.queue_url)
            values = check_attributes(asked.attributes, is_fifo(topic))
            if values.get("FifoQueue", "true") != "true":
                raise invalid_attribute("FifoQueue", "Modifying queue type is not supported.")
            if not values:
                raise missing("Attributes")
            check_throughput({**settled(topic), **values} if values.keys() & _THROUGHPUT else {})
            config: dict[str, object | None] = {**config_of(values)}
            if (redrive := values.get("RedrivePolicy")) is not None:
                config |= self._policies.redrive(call.caller, redrive, topic.name).config() if redrive else NO_REDRIVE
            if values.get("RedriveAllowPolicy"):
                self._policies.check_allow(values["RedriveAllowPolicy"])
            cleared = frozenset(name for name, value in values.items() if not value)
            kept = changed(topic, self._clock.now_ms(), {n: v for n, v in values.items() if v}, cleared)
            await self._alter(topic, {**config, "sqs.attributes": kept_text(kept)}, call)
        return None

    async def _alter(self, topic: Topic, config: Mapping[str, object | None], call: SqsCall) -> None:
        await self._topics.by(call.caller).alter(topic.name, config, None)

    async def _keep(
        self, topic: Topic, call: SqsCall, *, tags: dict[str, str] | None = None, policy: str = "", purged: int = 0
    ) -> None:
        kept = kept_of(topic)
        if purged:
            kept = msgspec.structs.replace(kept, purged=purged)
        elif tags is not None:
            kept = msgspec.structs.replace(kept, tags=tags)
        else:
            values = {"Policy": policy} if policy else {}
            kept = changed(topic, self._clock.now_ms(), values, frozenset({"Policy"}))
        await self._alter(topic, {"sqs.attributes": kept_text(kept)}, call)

    async def tag(self, asked: schema.TagQueue, call: SqsCall) -> Reply:
        async with self._changing:
            topic = self.find(call.caller, asked.queue_url)
            if not asked.tags:
                raise missing("Tags")
            await self._keep(topic, call, tags=_checked_tags(asked.tags, kept_of(topic).tags))
        return None

    async def untag(self, asked: schema.UntagQueue, call: SqsCall) -> Reply:
        async with self._changing:
            topic = self.find(call.caller, asked.queue_url)
            if not asked.tag_keys:
                raise missing("TagKeys")
            left = {key: value for key, value in kept_of(topic).tags.items() if key not in asked.tag_keys}
            await self._keep(topic, call, tags=left)
        return None

    async def tags(self, asked: schema.ListQueueTags, call: SqsCall) -> Reply:
        tags = kept_of(self.find(call.caller, asked.queue_url)).tags
        return {"Tags": tags} if tags else {}

    async def add_permission(self, asked: schema.AddPermission, call: SqsCall) -> Reply:
        async with self._changing:
            topic = self.find(call.caller, asked.queue_url)
            if not asked.actions:
                raise missing("Actions")
            if not asked.accounts:
                raise missing("AWSAccountIds")
            policy = self._policies.with_label(topic, asked.label, asked.accounts, asked.actions)
            await self._keep(topic, call, policy=policy)
        return None

    async def remove_permission(self, asked: schema.RemovePermission, call: SqsCall) -> Reply:
        async with self._changing:
            topic = self.find(call.caller, asked.queue_url)
            await self._keep(topic, call, policy=self._policies.without_label(topic, asked.label))
        return None

    async def purge(self, asked: schema.PurgeQueue, call: SqsCall) -> Reply:
        topic, now = self.find(call.caller, asked.queue_url), self._clock.monotonic_ms()
        if now - self._purged.get(topic.record.id, -PURGE_EVERY_MS) < PURGE_EVERY_MS:
            message = f"Only one PurgeQueue operation on {topic.name} is allowed every 60 seconds."
            raise SqsError("PurgeQueueInProgress", message)
        self._purged = {key: when for key, when in self._purged.items() if now - when < PURGE_EVERY_MS}
        self._purged[topic.record.id] = now
        try:
            await self._contents.purge(call.caller, topic.name)
        except AccessDenied:
            del self._purged[topic.record.id]  # who may not purge keeps nobody from it
            raise
        if is_fifo(topic):
            async with self._changing:
                topic = self.find(call.caller, asked.queue_url)
                last = await self._publish_once.by(call.caller).last_sequence(deduplication_scope(topic))
                await self._keep(topic, call, purged=last)
        return None


def _partitions(values: Mapping[str, str], fifo: bool) -> int | None:
    """One keeps the order of a FIFO queue over all groups; a queue for high throughput has as many as others."""
    return 1 if fifo and values.get("FifoThroughputLimit") != "perMessageGroupId" else None


def _new_kept(values: Mapping[str, str], tags: dict[str, str], now: Millis) -> str:
    attributes = {name: value for name, value in values.items() if name in KEPT and value}
    return kept_text(Kept(now // 1000, attributes, tags))


def _checked_tags(given: dict[str, str], held: dict[str, str]) -> dict[str, str]:
    for key, value in given.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise invalid_value(key, "Tags", "A key has 1 to 128 characters, a value at most 256.")
    tags = held | given
    if len(tags) > TAGS_MAX:
        raise invalid(f"Too many tags added for the queue. A queue has at most {TAGS_MAX} tags.")
    return tags


def _paged(field: str, names: list[str], limit: int | None, token: str | None, call: SqsCall) -> dict[str, object]:
    """A page after the name in the token; a token only if a limit was asked for and more is there."""
    if limit is not None and not 1 <= limit <= RESULTS_MAX:
        raise invalid_value(limit, "MaxResults", f"Must be between 1 and {RESULTS_MAX}, if provided.")
    if token:
        after = _name_in(token)
        names = [name for name in names if name > after]
    shown = names[: limit or RESULTS_MAX]
    page: dict[str, object] = {field: [queue_url(call.base_url, name) for name in shown]} if shown else {}
    if limit is not None and len(names) > len(shown):
        page["NextToken"] = urlsafe_b64encode(shown[-1].encode()).decode()
    return page


def _name_in(token: str) -> str:
    try:
        return urlsafe_b64decode(token).decode()
    except (binascii.Error, ValueError):
        raise invalid("Invalid or expired next token.") from None

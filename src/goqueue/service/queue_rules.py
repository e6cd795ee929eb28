"""The rules of a topic's queue, and which of its messages retention no longer keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from goqueue.base.ids import Millis
from goqueue.base.names import INTERNAL
from goqueue.base.topic_config import TopicConfig
from goqueue.core.delivery.policy import DeadLetterTarget, Policy
from goqueue.core.delivery.records import ViewId
from goqueue.core.groups.share_config import ShareRules
from goqueue.drive.topic_table import Topic
from goqueue.service.topics import Topics

DEAD_LETTER_SUFFIX: Final = ".dlq"


class QueueRules:
    """Read from the topics' settings whenever something is decided, so that a change holds at once."""

    def __init__(
        self, topics: Topics, shares: Callable[[str], ShareRules | None], keeps_order: Callable[[str], bool]
    ) -> None:
        """`shares` has the rules of those groups that are share groups; `keeps_order` of which groups each gets the
        messages of a key in order."""
        self._topics = topics
        self._shares = shares
        self._keeps_order = keeps_order

    def policy(self, view: ViewId) -> Policy:
        topic = self._topics.find(view.topic)
        if topic is None:
            return Policy(failures_max=0)
        config, target = topic.config, self._grave(topic, view.partition)
        share = self._shares(view.group)
        deliveries_max = 0 if target is None else config.queue_max_deliveries
        return Policy(
            lease_ms=config.queue_lease_ms,
            failures_max=0 if target is None or share is not None else config.queue_max_failures,
            deliveries_max=deliveries_max or (0 if share is None else share.deliveries_max),
            retry_ms=config.queue_retry_ms,
            retry_ms_max=config.queue_retry_max_ms,
            dead_letter_target=target,
            ordered=self.is_ordered(config, view.group),
        )

    def is_ordered(self, config: TopicConfig, group: str) -> bool:
        """Whether the group gets messages of a key in order."""
        return config.queue_order == "key" or self._keeps_order(group)

    def grave_topic(self, topic: Topic) -> str | None:
        """Dead letters of dead letters would have nowhere sensible to go."""
        named = topic.config.queue_dead_letter_topic
        if named and named not in INTERNAL:
            return named if named != topic.name else None
        return None if topic.name.endswith(DEAD_LETTER_SUFFIX) else dead_letter_topic(topic.name)

    def _grave(self, topic: Topic, partition: int) -> DeadLetterTarget | None:
        name = self.grave_topic(topic)
        if name is None:
            return None
        found = self._topics.find(name)
        if found is None:
            return DeadLetterTarget(name, partition, 0)
        number = partition % len(found.partitions)
        return DeadLetterTarget(name, number, found.partitions[number].sure_end)


def dead_letter_topic(topic: str) -> str:
    """Where a topic's dead letters go unless its settings say otherwise."""
    return topic[: 249 - len(DEAD_LETTER_SUFFIX)] + DEAD_LETTER_SUFFIX


def oldest_ms(topic: Topic, now: Millis) -> Millis:
    """What was published before this is not handed out: a queue made through SQS keeps its retention to the message,
    where the log deletes whole segments."""
    config = topic.config
    return now - config.retention_ms if config.sqs_attributes and config.retention_ms >= 0 else 0

"""Which logs are waited for before a batch is acknowledged."""

from __future__ import annotations

from typing import cast

from goqueue.base.ids import TopicPartition
from goqueue.drive.partition import Partition
from goqueue.service.acknowledging import StoredIn


class Log:
    def __init__(self, topic: str) -> None:
        self.at = TopicPartition(topic, 0)
        self.is_durable = False


def log(topic: str) -> Partition:
    return cast(Partition, Log(topic))


def test_a_topic_that_is_made_again_has_nothing_in_the_schedule_of_the_last_one() -> None:
    """That one may belong to another shard, which this node does not lead any more: it would be waited for in vain."""
    logs, before, schedule = StoredIn(), log("t"), log("schedule")
    logs.also(before, schedule)
    assert logs.of(before) == [before, schedule]
    again = log("t")
    assert logs.of(again) == [again]
    logs.also(again, other := log("schedule"))
    assert logs.of(again) == [again, other]


def test_what_is_safe_is_not_waited_for_again() -> None:
    logs, partition, schedule = StoredIn(), log("t"), Log("schedule")
    logs.also(partition, cast(Partition, schedule))
    logs.settled(partition)
    assert len(logs.of(partition)) == 2
    schedule.is_durable = True
    logs.settled(partition)
    assert logs.of(partition) == [partition]

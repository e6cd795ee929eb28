"""What share consumers say became of records, as it stands in requests: checked, and with topics by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, InvalidField, StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Outcome
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.share_sessions import PartitionKey
from goqueue.service.sharing import REJECT, RENEW, AnswerRange
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages import share_fetch as fetching

_Topic = fetching.FetchTopic | acking.AcknowledgeTopic
_Partition = fetching.FetchPartition | acking.AcknowledgePartition
_Batch = fetching.AcknowledgementBatch | acking.AcknowledgementBatch


class ShareAnswers:
    """The answers of one request, and the outcomes of those that cannot be meant."""

    def __init__(self, topics: Iterable[_Topic], names: TopicNames, is_renewing: bool, caller: Caller) -> None:
        self._keys: dict[TopicPartition, PartitionKey] = {}
        self._most = RENEW if is_renewing else REJECT
        self.answers: dict[TopicPartition, list[AnswerRange]] = {}
        self.outcomes: dict[PartitionKey, Outcome] = {}
        for topic in topics:
            name = names.by_id(topic.topic_id, caller)
            for one in topic.partitions:
                key = (bytes(topic.topic_id), one.partition_index)
                if one.acknowledgement_batches:
                    self._add(key, None if name is None else TopicPartition(name, key[1]), one, names)

    def _add(self, key: PartitionKey, at: TopicPartition | None, one: _Partition, names: TopicNames) -> None:
        try:
            if at is None:
                raise names.unknown_id()
            self.answers[at] = list(_ranges(one.acknowledgement_batches, self._most))
            self._keys[at] = key
        except GoQueueError as error:
            self.outcomes[key] = error

    def __bool__(self) -> bool:
        return bool(self.answers or self.outcomes)

    def done(self, outcomes: Mapping[TopicPartition, Outcome]) -> None:
        self.outcomes.update((self._keys[at], outcome) for at, outcome in outcomes.items())


def _ranges(batches: Sequence[_Batch], most: int) -> Iterator[AnswerRange]:
    end = -1
    for one in batches:
        count = one.last_offset - one.first_offset + 1
        if one.first_offset < end or count < 1:
            raise InvalidField("Ranges of records that are answered for ascend.")
        if one.first_offset == end:  # Kafka tells this from the others
            raise StaleReceipt("A record can be answered for once.")
        if len(one.acknowledge_types) not in (1, count):
            raise InvalidField("A range has one acknowledge type for all its records, or one for each.")
        if not all(0 <= kind <= most for kind in one.acknowledge_types):
            raise InvalidField(f"An acknowledge type is from 0 to {most}.")
        end = one.last_offset
        yield AnswerRange(one.first_offset, end, tuple(one.acknowledge_types))

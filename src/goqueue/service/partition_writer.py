"""Puts a batch into its partition and counts it. What may be written was decided before."""

from __future__ import annotations

from goqueue.base.clock import Clock
from goqueue.base.commands import Appended
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import SCHEDULE_PRODUCER_ID, BatchHeader, Buffer, read_header
from goqueue.format.compression import CODECS
from goqueue.format.records import NewRecord, build
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.tracing import Moments, Tracing


class PartitionWriter:
    """For publishes and for what the schedule delivers."""

    def __init__(self, clock: Clock, metrics: BrokerMetrics, trace: Tracing | None) -> None:
        self.clock = clock
        self.metrics = metrics
        self._trace = trace

    def write(
        self,
        topic: Topic,
        partition: Partition,
        batch: Buffer,
        header: BatchHeader,
        moments: Moments | None = None,
    ) -> Appended:
        """With `moments`, a producer's own batch: it may have to be traced."""
        trace, now = self._trace, self.clock.now_ms()
        append_time = topic.config.message_timestamp_type == "LogAppendTime"
        base_offset = partition.append(batch, header, now, append_time)
        counters = self.metrics.topic(topic.name)
        counters.published(header.record_count, header.size)
        if trace is not None and moments is not None:
            trace.wrote(topic, partition.at, base_offset, header, batch, moments)
        return Appended(
            partition.at,
            base_offset,
            base_offset + header.last_offset_delta,
            now if append_time else -1,
            partition.start_offset,
            partition.leader_epoch,
        )

    def deliver(self, topic: Topic, partition: Partition, records: list[NewRecord]) -> None:
        """Delayed messages that are due, in one batch. What a publish checks was checked when they were taken in."""
        batch = build(records, CODECS.get(topic.config.compression_type, 0), producer_id=SCHEDULE_PRODUCER_ID)
        self.write(topic, partition, batch, read_header(batch))

"""The partitions of a topic, for commands that read up to where they end."""

from __future__ import annotations

from goqueue.api.topics import UNKNOWN, PartitionInfo
from goqueue.cli.failures import Failed
from goqueue.client import Client


def whole_topic(client: Client, topic: str) -> list[PartitionInfo]:
    """All of them. `Failed` if the leader of one cannot say where it ends: it would be taken for empty."""
    found = client.topic(topic).partitions
    silent = [one.partition for one in found if one.high_watermark == UNKNOWN]
    if silent:
        raise Failed(
            f"Partition {silent[0]} of topic {topic!r} has no leader that answers, so its end is not known. Try again "
            "in a moment; `goqueue cluster status` shows what is missing. (not-leader)"
        )
    return found

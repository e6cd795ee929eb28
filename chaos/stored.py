"""Where values stand in the logs on the disks of nodes, and who wrote them: for who looks for the cause of a double."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from bench.cluster_process import ClusterProcess
from goqueue.format.batch import read_header, split
from goqueue.format.records import decode
from tests.cluster.clients import Cluster


def where_stored(cluster: Cluster, topic: str, values: Collection[bytes]) -> list[str]:
    """On the first node that has the topic: replicas are equal. The values alone where the disks are elsewhere."""
    for node in cluster.nodes if isinstance(cluster, ClusterProcess) else ():
        files = sorted((node.data_dir / "logs" / topic).glob("*/*.log"))
        if found := [f"{path.parent.name}: {line}" for path in files for line in _in_file(path, values)]:
            return found
    return [value.decode() for value in values]


def _in_file(path: Path, values: Collection[bytes]) -> Iterator[str]:
    for batch in split(path.read_bytes()):
        header = read_header(batch)
        for record in () if header.is_control else decode(batch):
            if record.value in values:
                by = f"producer {header.producer_id}, its epoch {header.producer_epoch}"
                yield (
                    f"{(record.value or b'').decode()} at {record.offset} in epoch {header.leader_epoch}, by {by}, "
                    f"in a batch of sequence {header.base_sequence} with {header.record_count} messages"
                )

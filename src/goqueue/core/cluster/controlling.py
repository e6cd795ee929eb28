"""What the controller does about the cluster as it is: one change after the other, each of one shard or one node.

Pure: from an image to commits. Every commit expects the record as the image has it, and the controller's key as it was
made, so that whoever decides from an old image, or was deposed, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from goqueue.base.metadata import Commit, Revision
from goqueue.core.cluster.elections import (
    admitted,
    as_of,
    elected,
    handed_over,
    needs_leader,
    without_damaged,
)
from goqueue.core.cluster.features import raised
from goqueue.core.cluster.formation import Formation, forming
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.moving import begun, ended, grown
from goqueue.core.cluster.records import (
    CONTROLLER,
    FEATURES,
    MEMBERS,
    NOBODY,
    SHARDS,
    MemberRecord,
    NodeRecord,
    ShardRecord,
    encode,
)
from goqueue.core.cluster.unclean import UNCLEAN, led_uncleanly


class Controlling:
    """Made with the revision that made this controller's key."""

    def __init__(
        self, created: Revision, formation: Formation | None = None, cluster_id: str = "", unclean: bool = False
    ) -> None:
        """`cluster_id` is what a new cluster is called; `unclean`: shards whose topics do not say may get a leader that
        lacks something."""
        self._created = created
        self._unclean = unclean
        self._formation = formation
        self._cluster_id = cluster_id

    def commits(
        self, image: Image, suspected: Set[int] = frozenset(), steady: Set[int] = frozenset()
    ) -> Iterator[Commit]:
        """What is to be done, in any order. Starts are written down for all shards before the node is a member with its
        new disk: until then the old one is what its shards are held against."""
        living = {node: found for node, found in image.nodes().items() if node not in suspected}
        if self._formation is not None:
            commit = forming(image, living, self._formation, self._cluster_id, self._created)
            if commit is not None:
                yield commit
        growing = grown(image, {node: found for node, found in living.items() if node in steady})
        for number in image.shards():
            before = image.shard(number)
            record = self._led(number, self._admitted(image, number, living), living, steady)
            record = ended(record, living) or record
            if number in growing:
                record = begun(record, growing[number]) or record
            if record.leader == NOBODY:
                record = self._led_uncleanly(image, number, record, living) or record
            if record != before:
                yield self._commit(image, f"{SHARDS}{number}", encode(record))
        if (levels := raised(image, living)) is not None and image.members():
            yield self._commit(image, FEATURES, encode(levels))
        for node, found in living.items():
            known = image.member(node)
            if (known is None or known.disk != found.disk) and self._is_written_down(image, node, found):
                yield self._commit(image, f"{MEMBERS}{node}", encode(_member(known, found)))

    def _admitted(self, image: Image, shard: int, living: Mapping[int, NodeRecord]) -> ShardRecord:
        record = image.shard(shard)
        for node, found in living.items():
            known = image.member(node)
            if not found.opening:
                record = admitted(record, node, as_of(found, shard), found.disk if known is None else known.disk)
        return record

    def _led(self, shard: int, record: ShardRecord, living: Mapping[int, NodeRecord], steady: Set[int]) -> ShardRecord:
        here = {node: as_of(found, shard) for node, found in living.items()}
        if not needs_leader(record, here):
            return handed_over(record, here, steady) or record
        staying = {node: found for node, found in here.items() if not found.leaving}
        able = any(record.counts(node, found.incarnation) for node, found in staying.items())
        return elected(record, staying if able else without_damaged(record, here, shard)) or record

    def _led_uncleanly(
        self, image: Image, number: int, record: ShardRecord, living: Mapping[int, NodeRecord]
    ) -> ShardRecord | None:
        default = image.settings().get(UNCLEAN, str(self._unclean).lower()) == "true"
        return led_uncleanly(image, number, record, living, default)

    def _is_written_down(self, image: Image, node: int, found: NodeRecord) -> bool:
        """No shard still waits for a word about this start."""
        records = map(image.shard, image.shards())
        return all(
            one.starts.get(node) in (None, found.incarnation)
            for one in records
            if node in (*one.in_sync, *one.eligible)
        )

    def _commit(self, image: Image, key: str, value: str) -> Commit:
        return Commit({key: value}, modified={key: image.modified(key)}, created={CONTROLLER: self._created})


def _member(known: MemberRecord | None, found: NodeRecord) -> MemberRecord:
    """Another disk does not bring a node back that was drained."""
    return MemberRecord(found.disk, found.rack, known is not None and known.is_drained)

"""A node's image of the metadata: told what changed, it answers questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from zlib import crc32

import msgspec

from goqueue.base.access import AclRule
from goqueue.base.errors import NotLeader
from goqueue.base.ids import Epoch, Millis
from goqueue.base.metadata import Change, Entry, Revision, Snapshot
from goqueue.base.names import is_name
from goqueue.base.quotas import Quota
from goqueue.core.cluster.records import (
    ACLS,
    ALL_NODES,
    CLUSTER,
    CONTROLLER,
    COPY_LIMIT,
    FEATURES,
    GONE_TOPICS,
    KEY_USES,
    KEYS,
    MACHINE,
    MEMBERS,
    NODES,
    PRODUCER_IDS,
    QUOTAS,
    SECURITY_SEED,
    SETTINGS,
    SHARDS,
    SLOTS,
    TENANTS,
    TOPICS,
    USERS,
    AclRecord,
    ChangedSettings,
    ClusterRecord,
    ControllerRecord,
    CopyLimit,
    FeatureLevels,
    GoneTopic,
    KeyRecord,
    KeyUse,
    MachineRecord,
    MemberRecord,
    NodeRecord,
    QuotaRecord,
    ReservedIds,
    SecuritySeed,
    ShardRecord,
    SlotTable,
    TenantRecord,
    TopicRecord,
    UserRecord,
    decode,
)

_KINDS: Final[Mapping[str, type[msgspec.Struct]]] = {
    TOPICS: TopicRecord,
    SHARDS: ShardRecord,
    NODES: NodeRecord,
    MEMBERS: MemberRecord,
    CONTROLLER: ControllerRecord,
    SETTINGS: ChangedSettings,
    SLOTS: SlotTable,
    CLUSTER: ClusterRecord,
    PRODUCER_IDS: ReservedIds,
    ACLS: AclRecord,
    USERS: UserRecord,
    TENANTS: TenantRecord,
    KEYS: KeyRecord,
    KEY_USES: KeyUse,
    SECURITY_SEED: SecuritySeed,
    QUOTAS: QuotaRecord,
    COPY_LIMIT: CopyLimit,
    FEATURES: FeatureLevels,
    MACHINE: MachineRecord,
    GONE_TOPICS: GoneTopic,
}


_HASHES_KEPT: Final = 1_024
_HASHED_CHARS_MAX: Final = 256
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")  # of a node or a shard, in one way of writing only


def slot_of(given_id: str, slots: int) -> int:
    """Stable for ever: what an id owns is where its slot is."""
    return _kept_hash(given_id) % slots if len(given_id) <= _HASHED_CHARS_MAX else _hash(given_id) % slots


def _hash(given_id: str) -> int:
    return crc32(given_id.encode())


_kept_hash: Final = lru_cache(_HASHES_KEPT)(_hash)  # groups are asked for again and again


class Image:
    """Changes by `load` and `apply` alone."""

    def __init__(self) -> None:
        self.revision: Revision = 0
        self.unreadable: set[str] = set()  # keys whose values are none that this version knows
        self._records: dict[str, msgspec.Struct] = {}
        self._modified: dict[str, Revision] = {}
        self._created: dict[str, Revision] = {}
        self._names: dict[str, str] = {}  # of topics, by id
        self._shards: dict[int, ShardRecord] = {}
        self._nodes: dict[int, NodeRecord] = {}
        self._partitions: Counter[int] = Counter()  # by shard
        self._tenants: set[str] = set()  # their keys

    # --- changes -------------------------------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> Change:
        """Takes all from a reading of the store; returns what that changed here. A store that was set back to a backup
        has written other things under the same revisions since."""
        is_set_back = snapshot.revision < self.revision
        gone = [key for key in sorted(self._modified) if key not in snapshot.entries]
        news = [one for key, one in snapshot.entries.items() if is_set_back or self._modified.get(key) != one.modified]
        change = Change(snapshot.revision, news, gone)
        self.apply(change)
        self.revision = snapshot.revision
        return change

    def apply(self, change: Change) -> None:
        for key in change.deletes:
            self._remove(key)
        for entry in change.puts:
            self._put(entry)
        self.revision = max(self.revision, change.revision)

    def _put(self, entry: Entry) -> None:
        record = _decoded(entry)
        if not isinstance(record, ShardRecord):
            self._remove(entry.key)
        # Threads that open partitions ask for shards meanwhile: one that changes is never gone in between.
        self._modified[entry.key] = entry.modified
        self._created[entry.key] = entry.created
        self.unreadable.discard(entry.key)
        if record is None:
            self.unreadable.add(entry.key)
            return
        self._records[entry.key] = record
        if isinstance(record, TopicRecord):
            self._names[record.id] = record.name
            self._partitions.update(self._placed(record))
        elif isinstance(record, ShardRecord):
            self._shards[_number(entry.key, SHARDS)] = record
        elif isinstance(record, NodeRecord):
            self._nodes[_number(entry.key, NODES)] = record
        elif isinstance(record, TenantRecord):
            self._tenants.add(entry.key)

    def _remove(self, key: str) -> None:
        self._modified.pop(key, None)
        self._created.pop(key, None)
        self.unreadable.discard(key)
        record = self._records.pop(key, None)
        if isinstance(record, TopicRecord):
            self._names.pop(record.id, None)
            self._partitions.subtract(self._placed(record))
        elif isinstance(record, ShardRecord):
            del self._shards[_number(key, SHARDS)]
        elif isinstance(record, NodeRecord):
            del self._nodes[_number(key, NODES)]
        elif isinstance(record, TenantRecord):
            self._tenants.discard(key)

    @staticmethod
    def _placed(record: TopicRecord) -> Iterable[int]:
        return (record.shard_of(partition) for partition in range(record.partitions))

    # --- topics --------------------------------------------------------------------------------------------

    def modified(self, key: str) -> Revision:
        """When the key was last written; `ABSENT` if it is not there."""
        return self._modified.get(key, 0)

    def created(self, key: str) -> Revision:
        """When the key was made; `ABSENT` if it is not there."""
        return self._created.get(key, 0)

    def topics(self) -> list[TopicRecord]:
        """By name."""
        return [one for key in sorted(self._records) if isinstance(one := self._records[key], TopicRecord)]

    def topic(self, name: str) -> TopicRecord | None:
        record = self._records.get(TOPICS + name)
        return record if isinstance(record, TopicRecord) else None

    def topic_name(self, topic_id: str) -> str | None:
        return self._names.get(topic_id)

    def gone_topics(self) -> list[str]:
        """The ids of those that were deleted last, the oldest first."""
        keys = [key for key, record in self._records.items() if isinstance(record, GoneTopic)]
        return [key.removeprefix(GONE_TOPICS) for key in sorted(keys, key=self.created)]

    def partitions_in(self, shard: int) -> int:
        return self._partitions[shard]

    # --- shards --------------------------------------------------------------------------------------------

    def shards(self) -> list[int]:
        return sorted(self._shards)

    def shard(self, number: int) -> ShardRecord:
        """`NotLeader` if this node does not know who leads it."""
        record = self._shards.get(number)
        if record is None:
            raise NotLeader(f"Nobody is known to lead shard {number}; try again.")
        return record

    def epoch(self, shard: int) -> Epoch:
        return self.shard(shard).epoch

    def shard_of_id(self, given_id: str) -> int:
        """Who keeps a group, a transactional id or the owner of staged sets."""
        record = self._records.get(SLOTS)
        if not isinstance(record, SlotTable):
            raise NotLeader("It is not known which shard keeps what; try again.")
        return record.shards[slot_of(given_id, len(record.shards))]

    def id_shards(self) -> frozenset[int]:
        """Those that keep groups, transactional ids and owners of staged sets."""
        record = self._records.get(SLOTS)
        return frozenset(record.shards) if isinstance(record, SlotTable) else frozenset()

    # --- the rest ------------------------------------------------------------------------------------------

    def nodes(self) -> dict[int, NodeRecord]:
        """Those that live, by their numbers."""
        return dict(sorted(self._nodes.items()))

    def member(self, node: int) -> MemberRecord | None:
        """A node that belongs to the cluster, whether it lives or not."""
        record = self._records.get(f"{MEMBERS}{node}")
        return record if isinstance(record, MemberRecord) else None

    def members(self) -> list[int]:
        """Those that belong to the cluster, whether they live or not."""
        return [_number(key, MEMBERS) for key, record in self._records.items() if isinstance(record, MemberRecord)]

    @property
    def controller(self) -> ControllerRecord | None:
        record = self._records.get(CONTROLLER)
        return record if isinstance(record, ControllerRecord) else None

    def settings(self, name: str = ALL_NODES) -> Mapping[str, str]:
        """What was changed of a node's settings, by its id, or of all nodes'."""
        record = self._records.get(SETTINGS + name)
        return record.values if isinstance(record, ChangedSettings) else {}

    def quotas(self) -> list[Quota]:
        return [record.quota for record in self._records.values() if isinstance(record, QuotaRecord)]

    def copy_limit(self) -> int:
        """Bytes a second; 0 without a limit."""
        found = self._records.get(COPY_LIMIT)
        return found.bytes_per_s if isinstance(found, CopyLimit) else 0

    def features(self) -> Mapping[str, int]:
        """Those that are on, with their levels."""
        found = self._records.get(FEATURES)
        return found.levels if isinstance(found, FeatureLevels) else {}

    @property
    def processes(self) -> int:
        """How many processes of one machine all nodes are; 0 if each has a machine of its own."""
        found = self._records.get(MACHINE)
        return found.processes if isinstance(found, MachineRecord) else 0

    def acls(self) -> list[AclRule]:
        return [record.rule for record in self._records.values() if isinstance(record, AclRecord)]

    # --- who there is --------------------------------------------------------------------------------------

    def user(self, name: str) -> UserRecord | None:
        record = self._records.get(USERS + name)
        return record if isinstance(record, UserRecord) else None

    def users(self) -> list[UserRecord]:
        """By name."""
        return [one for key in sorted(self._records) if isinstance(one := self._records[key], UserRecord)]

    def tenant(self, name: str) -> TenantRecord | None:
        record = self._records.get(TENANTS + name)
        return record if isinstance(record, TenantRecord) else None

    def tenants(self) -> list[TenantRecord]:
        """By name."""
        return [one for key in sorted(self._tenants) if isinstance(one := self._records[key], TenantRecord)]

    @property
    def has_tenants(self) -> bool:
        return bool(self._tenants)

    def key(self, key_id: str) -> KeyRecord | None:
        record = self._records.get(KEYS + key_id)
        return record if isinstance(record, KeyRecord) else None

    def api_keys(self) -> list[KeyRecord]:
        """By id."""
        return [one for key in sorted(self._records) if isinstance(one := self._records[key], KeyRecord)]

    def key_used_ms(self, key_id: str) -> Millis | None:
        record = self._records.get(KEY_USES + key_id)
        return record.last_ms if isinstance(record, KeyUse) else None

    @property
    def security_seed(self) -> bytes:
        record = self._records.get(SECURITY_SEED)
        return bytes.fromhex(record.seed) if isinstance(record, SecuritySeed) else b""

    @property
    def cluster_id(self) -> str:
        record = self._records.get(CLUSTER)
        return record.cluster_id if isinstance(record, ClusterRecord) else ""

    @property
    def producer_ids_below(self) -> int:
        record = self._records.get(PRODUCER_IDS)
        return record.below if isinstance(record, ReservedIds) else 0


def _number(key: str, prefix: str) -> int:
    return int(key.removeprefix(prefix))


def _decoded(entry: Entry) -> msgspec.Struct | None:
    prefix = entry.key if entry.key in _KINDS else entry.key.partition("/")[0] + "/"
    kind = _KINDS.get(prefix)
    record = None if kind is None else decode(entry.value, kind)
    name = entry.key.removeprefix(prefix)
    if isinstance(record, TopicRecord):
        return record if record.name == name and is_name(name) and record.partitions >= 1 else None
    if isinstance(record, UserRecord | TenantRecord):
        return record if record.name == name else None
    if isinstance(record, KeyRecord):
        return record if record.id == name else None
    if isinstance(record, SlotTable):
        return record if record.shards else None
    if isinstance(record, ShardRecord | NodeRecord | MemberRecord):
        return record if _NUMBER.fullmatch(name) else None
    return record

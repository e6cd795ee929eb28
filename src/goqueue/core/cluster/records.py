"""What the keys of the metadata store hold, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from goqueue.base.access import AclRule
from goqueue.base.decoders import from_json
from goqueue.base.ids import Epoch, Millis
from goqueue.base.quotas import Quota

TOPICS: Final = "topics/"
SHARDS: Final = "shards/"
NODES: Final = "nodes/"
SETTINGS: Final = "settings/"
SLOTS: Final = "slots"
MEMBERS: Final = "members/"
CONTROLLER: Final = "controller"
CLUSTER: Final = "cluster"
ACLS: Final = "acls/"
QUOTAS: Final = "quotas/"
COPY_LIMIT: Final = "copy-limit"
FEATURES: Final = "features"
MACHINE: Final = "machine"
PRODUCER_IDS: Final = "producer-ids/next"
USERS: Final = "users/"
TENANTS: Final = "tenants/"
KEYS: Final = "keys/"
KEY_USES: Final = "key-uses/"
SECURITY_SEED: Final = "security-seed"
GONE_TOPICS: Final = "gone-topics/"
ALL_NODES: Final = "cluster"  # the name under `settings/` that stands for every node

T = TypeVar("T")


class TopicRecord(msgspec.Struct, frozen=True):
    """What is durable about a topic."""

    name: str
    id: str
    partitions: int
    overrides: dict[str, str]
    created_ms: Millis
    deleting: bool = False
    shards: tuple[int, ...] = ()  # of each partition; those that are not named are in shard 0

    def shard_of(self, partition: int) -> int:
        return self.shards[partition] if partition < len(self.shards) else 0


class GoneTopic(msgspec.Struct, frozen=True):
    """One that was deleted, by its id: nodes that were away give back what they have of it."""

    name: str


NOBODY: Final = -1  # leads a shard that waits


class ShardRecord(msgspec.Struct, frozen=True):
    """Who leads a shard, in which epoch, and who holds it.

    `starts` names the start (incarnation) of each node that counts: of the leader, of those in sync and of those that
    are eligible because they fell out while too few were in sync. Another start of the same node does not count.

    A shard that moves has a `target`, the replicas that it is to have, and those that it had `before`; its `replicas`
    are all of them. One that has fewer than its `factor` gets more as nodes join.

    `unclean` is how often a leader was elected that may lack something acknowledged, `unclean_epoch` the last epoch
    that began so.
    """

    leader: int
    epoch: Epoch
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    starts: dict[int, str] = {}
    target: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    factor: int = 0
    unclean: int = 0
    unclean_epoch: Epoch = -1

    @property
    def wanted(self) -> int:
        """How many replicas it has when nothing moves and enough nodes are there."""
        return max(self.factor, len(self.target or self.replicas))

    def needed(self, minimum: int) -> int:
        """How many have to be in sync: a shard that has not grown to its factor yet asks for no more than it has."""
        held = len(self.before or self.replicas)
        return min(minimum, held) if held < self.factor else minimum

    def counts(self, node: int, start: str) -> bool:
        """Whether this start of a node is in sync."""
        return node in self.in_sync and self.starts.get(node) == start


class NodeRecord(msgspec.Struct, frozen=True):
    """A node that lives; the key ends with its session."""

    version: str
    incarnation: str  # another one for every start
    addresses: dict[str, str] = {}
    rack: str = ""
    disk: str = ""  # the id of its data directory
    lost_tail: bool = False  # the machine went down since the last clean stop, and not every write was synced
    leaving: bool = False  # it is about to stop, and leads only what nobody else can
    closing: bool = False  # it stops next: nobody is to wait for it
    opening: bool = False  # it has not looked at its logs yet, and counts for nothing
    short: tuple[int, ...] = ()  # shards whose logs lack their ends since this start
    damaged: tuple[int, ...] = ()  # shards of which it cannot read everything
    features: dict[str, int] = {}  # that its version knows, each with a level


class MemberRecord(msgspec.Struct, frozen=True):
    """A node that belongs to the cluster, alive or not, and the disk that its data is on."""

    disk: str
    rack: str = ""
    is_drained: bool = False  # it is to hold nothing, and gets nothing


class ControllerRecord(msgspec.Struct, frozen=True):
    """Who decides about shards; the key ends with that node's session."""

    node: int
    incarnation: str


class ClusterRecord(msgspec.Struct, frozen=True):
    cluster_id: str


class SlotTable(msgspec.Struct, frozen=True):
    """The shard of each slot that ids hash to. Shards that are added take no slot away."""

    shards: tuple[int, ...]


class ReservedIds(msgspec.Struct, frozen=True):
    """Every producer id below is taken or lost."""

    below: int


class ChangedSettings(msgspec.Struct, frozen=True):
    """Of one node or of all, by Kafka's name: they hold over what a node was started with."""

    values: Mapping[str, str] = {}


class MachineRecord(msgspec.Struct, frozen=True):
    """All nodes are processes of one machine, so many: a second replica would protect nothing."""

    processes: int


class CopyLimit(msgspec.Struct, frozen=True):
    """How much a node sends a second to replicas that moves add."""

    bytes_per_s: int


class FeatureLevels(msgspec.Struct, frozen=True):
    """Features that are on, for all nodes and for good."""

    levels: dict[str, int] = {}


class AclRecord(msgspec.Struct, frozen=True):
    """One rule of access control. Its key is made from what it says, so that no rule is there twice."""

    rule: AclRule


class ScramVerifier(msgspec.Struct, frozen=True):
    """What proves a password without being one (RFC 5802); all but the count in base64."""

    salt: str
    stored_key: str
    server_key: str
    iterations: int


class UserRecord(msgspec.Struct, frozen=True):
    """Somebody who can show who it is. A password is checked against one of the verifiers too."""

    name: str
    created_ms: Millis
    scram: Mapping[str, ScramVerifier] = {}  # by mechanism
    disabled: bool = False
    tenant: str = ""  # for ever: its own and that of its keys


class TenantRecord(msgspec.Struct, frozen=True):
    """People whose topics, groups, transactional ids and schemas nobody of another tenant sees or names."""

    name: str
    created_ms: Millis


class KeyRecord(msgspec.Struct, frozen=True):
    """An API key of a user. `sha256` is of its secret; a key that signs has none stored: it is made from the node's."""

    id: str
    owner: str
    owner_ms: Millis  # when the owner was made: another user of the same name does not inherit its keys
    created_ms: Millis
    sha256: str = ""
    signs: bool = False
    expires_ms: Millis | None = None
    note: str = ""


class KeyUse(msgspec.Struct, frozen=True):
    """When a key was last used, give or take some minutes."""

    last_ms: Millis


class SecuritySeed(msgspec.Struct, frozen=True):
    """Random bytes in hex, the same for all nodes and for ever."""

    seed: str


class QuotaRecord(msgspec.Struct, frozen=True):
    """The limits of a user or a client id. The key is made from their names."""

    quota: Quota


def encode(record: msgspec.Struct) -> str:
    return msgspec.json.encode(record).decode()


def decode(value: str, kind: type[T]) -> T | None:
    """None of what this version cannot read."""
    try:
        return from_json(value, kind)
    except msgspec.DecodeError:
        return None

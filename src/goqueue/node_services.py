"""What there is one of in a node, however many shards it holds: clock, threads, disk space, the group commit, metrics,
traces, the image of the metadata, and the schemas that messages are checked with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from goqueue import __version__
from goqueue.base.access import Access
from goqueue.base.clock import Clock, SteadyClock
from goqueue.base.descriptors import DescriptorPlan
from goqueue.base.entropy import Entropy
from goqueue.base.metadata import Change
from goqueue.base.settings import Settings
from goqueue.core.schemas.registry import Registry
from goqueue.drive.cluster_member import ClusterMember, ClusterPorts
from goqueue.drive.coordinators import SCHEMAS_CODEC
from goqueue.drive.decoding import Decoding
from goqueue.drive.disk_note import check_alone
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.flusher import Flusher
from goqueue.drive.identity import Identity, join
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.offload import Offload
from goqueue.drive.old_files import take_over_old_files
from goqueue.drive.partition import Partition
from goqueue.drive.partition_opener import OpenerParts, PartitionOpener
from goqueue.drive.peers import Peers, PeerVerb
from goqueue.drive.per_shard import ShardMap
from goqueue.drive.schema_follower import SchemaHost
from goqueue.drive.space_watch import SpaceWatch
from goqueue.log.disk import Disk
from goqueue.log.journal import LogJournal
from goqueue.log.journal_entries import KEY_BYTES
from goqueue.log.journal_replay import JournalReplay
from goqueue.log.space import SpaceGuard
from goqueue.log.stats import StorageStats
from goqueue.service.access import AccessControl
from goqueue.service.audit import AuditLog
from goqueue.service.authentication import Authentication
from goqueue.service.coordinator_events import SchemaEvents
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.producers import ProducerIds
from goqueue.service.quotas import ClientQuotas
from goqueue.service.read_replicas import ClusterReadReplicas
from goqueue.service.schemas import Schemas
from goqueue.service.trace_building import TraceRecording
from goqueue.service.traces import TraceCollector
from goqueue.service.validation import Validation

logger = logging.getLogger(__name__)


class Ports(NamedTuple):
    """The world outside. A simulation has its own."""

    disk: Disk
    offload: Offload
    clock: Clock
    entropy: Entropy


class NodeServices:
    """Made once, handed to every shard."""

    def __init__(
        self,
        settings: Settings,
        ports: Ports,
        trace_dir: str = "",
        descriptors: DescriptorPlan | None = None,
        access: Access | None = None,
        cluster: ClusterPorts | None = None,
    ) -> None:
        """`cluster` if the node is one of several; `access` is asked instead of the rules in the metadata."""
        self.settings = settings
        self.disk, self.offload, wall, self.entropy = ports
        self.clock = SteadyClock(wall)
        self.storage_stats = StorageStats()
        self.metrics = BrokerMetrics()
        self.decoding = Decoding(self.offload)
        self.space = SpaceGuard(self.disk, settings.log.disk_used_percent_max)
        self.recording = TraceRecording(
            settings.traces, trace_dir, lambda: self.space.is_full, self.clock, self.entropy, self.offload
        )
        self.metrics.registry.register(TraceCollector(self.recording.recorder))
        self.journal = LogJournal(self.disk, settings.log.journal_bytes, self.storage_stats)
        self.replay = JournalReplay(self.disk, self.storage_stats)
        self.flusher = Flusher(settings.log, self.offload, self.journal, self.metrics.sync_seconds.observe)
        self.opener = PartitionOpener(
            OpenerParts(
                self.disk,
                self.flusher,
                self.offload,
                self.storage_stats,
                self.clock,
                self.replay,
                lambda: self.member is not None and self.member.had_power_cut,
            ),
            settings.log,
            descriptors or DescriptorPlan(0),
        )
        events = SchemaEvents(self._schemas_changed)
        self.schema_host = SchemaHost(Registry, SCHEMAS_CODEC, events, self.clock, self.offload)
        self.schemas = Schemas(self.schema_host, self.offload)
        self.validation = Validation(self.schemas, self.metrics)
        self._space_watch = SpaceWatch(self.space, self.offload)
        self._embedded = EmbeddedMetadata(self.disk, self.offload) if cluster is None else None
        self._followers: list[Callable[[Change], None]] = []
        store = self._embedded if cluster is None else cluster.store
        assert store is not None
        metrics = self.metrics
        self.metadata = ImageFollower(
            store, self._metadata_changed, metrics.store_seconds.observe, metrics.store_failures.inc
        )
        self._audit = AuditLog(settings.security, self.clock, self.offload) if settings.security.audit_log else None
        self.access_control = AccessControl(
            settings.security,
            self.metadata.image,
            self._audit,
            lambda operation, resource: metrics.denied.labels(operation, resource).inc(),
        )
        self.follow_metadata(self.access_control.metadata_changed)
        is_asked = self.access_control.is_on or self._audit is not None or settings.security.is_on
        self.access = access or (self.access_control if is_asked else None)
        self.quotas = ClientQuotas(self.metadata.image, self.clock, self.metrics)
        self.follow_metadata(self.quotas.metadata_changed)
        self.shard_map = ShardMap(self.metadata.image, settings.node.id)
        self.follow_metadata(self.shard_map.metadata_changed)
        self.producer_ids = ProducerIds(self.metadata)
        self.authentication = Authentication(
            settings.security, self.metadata, self.clock, self.entropy, self.offload, self.quotas
        )
        self.follow_metadata(self.authentication.sessions.metadata_changed)
        self.identity = Identity(settings.node.id)
        self.member = (
            None
            if cluster is None
            else ClusterMember(settings, cluster, self.metadata, self.disk, self.offload, self.entropy)
        )
        self.read_replicas: ClusterReadReplicas | None = None
        if self.member is not None:
            member = self.member
            self.follow_metadata(lambda _: member.metadata_changed())
            if settings.cluster.nearest_replica:
                self.read_replicas = ClusterReadReplicas(self.metadata.image, self.shard_map, member.me)

    @property
    def own_metadata(self) -> EmbeddedMetadata | None:
        """The store in the data directory; None if the node is one of several, which share one elsewhere."""
        return self._embedded

    @property
    def peers(self) -> Peers | None:
        """The other nodes, if there are any."""
        return None if self.member is None else self.member.peers

    @property
    def peer_verbs(self) -> dict[str, PeerVerb]:
        """What other nodes may call, by name: to be filled before the start."""
        return {} if self.member is None else self.member.verbs

    def _schemas_changed(self, registry: Registry) -> None:
        self.validation.changed()
        self.metrics.schemas.set(len(registry.table.stored))

    def follow_metadata(self, follower: Callable[[Change], None], first: bool = False) -> None:
        """It hears of every change, from the start on; before the others, if they build on what it does."""
        self._followers.insert(0 if first else len(self._followers), follower)

    def _metadata_changed(self, change: Change) -> None:
        """One that fails does not keep the others from hearing of it."""
        for follower in self._followers:
            try:
                follower(change)
            except Exception:
                logger.exception("a change of the metadata is not followed by a part of this node")

    async def start(self) -> None:
        """Before any partition is opened; takes the node's place in the metadata."""
        self.flusher.start()
        self._space_watch.start()
        if self._audit is not None:
            self._audit.start()
        await self.offload(self.replay.read)
        node_id = self.settings.node.id
        if self.member is not None:
            await self.metadata.start()
            self.identity = Identity(node_id, await self.member.join())
            return
        assert self._embedded is not None
        await self.offload(lambda: check_alone(self.disk))
        await self._embedded.open()
        await take_over_old_files(self.disk, self.offload, self._embedded, node_id)
        await self.metadata.start()
        self.identity = await join(self.metadata, self.entropy, node_id, __version__, self.settings.node.shards)

    async def begin_journal(self) -> None:
        """After every partition was opened: all that the last journal held is in the logs."""
        await self.offload(self._begin_journal)

    def _begin_journal(self) -> None:
        replay, log = self.replay, self.settings.log
        replay.end()
        if log.fsync == "always" and log.journal_bytes:
            self.journal.open(replay.key or self.entropy.token(KEY_BYTES), replay.next_number, replay.next_file)
        else:
            self.journal.discard()

    async def load_schemas(self, partition: Partition) -> None:
        """From the internal partition of the shard that holds it."""
        await self.schema_host.load(partition)
        await self.schemas.warm()

    async def stop(self) -> None:
        """After every shard has stopped, before their logs are closed: all that was appended is safe then."""
        await self.schema_host.stop()
        await self.recording.traces.stop()
        await self._space_watch.stop()
        await self.flusher.stop()

    async def close(self) -> None:
        """After the logs are closed."""
        if self._audit is not None:
            await self._audit.stop()
        if self.member is not None:
            await self.member.leave()
        await self.metadata.stop()

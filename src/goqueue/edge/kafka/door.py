"""Which handler answers which API. What is not in this table is not advertised."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.edge.kafka.acls import AclHandler
from goqueue.edge.kafka.admin import AdminHandler
from goqueue.edge.kafka.calls import Handler
from goqueue.edge.kafka.cluster import ClusterHandler
from goqueue.edge.kafka.configs import ConfigHandler
from goqueue.edge.kafka.fetch import FetchHandler
from goqueue.edge.kafka.groups import GroupHandler
from goqueue.edge.kafka.leader_elections import LeaderElectionHandler
from goqueue.edge.kafka.lookups import LookupHandler
from goqueue.edge.kafka.offsets import OffsetHandler
from goqueue.edge.kafka.producers import ProducerHandler
from goqueue.edge.kafka.quotas import QuotaHandler
from goqueue.edge.kafka.reassignments import ReassignmentHandler
from goqueue.edge.kafka.sasl import SaslHandler
from goqueue.edge.kafka.scram_users import ScramUserHandler
from goqueue.edge.kafka.share_groups import ShareGroupHandler
from goqueue.edge.kafka.share_hints import ShareHints
from goqueue.edge.kafka.transactions import TransactionHandler
from goqueue.edge.kafka.txn_produce import ProduceApi


def handlers(
    cluster: ClusterHandler,
    produce: ProduceApi,
    fetch: FetchHandler,
    lookups: LookupHandler,
    groups: GroupHandler,
    offsets: OffsetHandler,
    admin: AdminHandler,
    configs: ConfigHandler,
    producers: ProducerHandler,
    transactions: TransactionHandler,
    share_groups: ShareGroupHandler,
    share_fetch: ShareHints,
    acls: AclHandler,
    quotas: QuotaHandler,
    reassignments: ReassignmentHandler,
    scram_users: ScramUserHandler,
    elections: LeaderElectionHandler,
) -> Mapping[int, Handler]:
    """By API key."""
    sasl = SaslHandler()
    table: dict[int, Handler] = {
        0: produce.produce,
        1: fetch.fetch,
        2: lookups.list_offsets,
        3: cluster.metadata,
        8: offsets.commit,
        9: offsets.fetch,
        10: cluster.find_coordinator,
        11: groups.join,
        12: groups.heartbeat,
        13: groups.leave,
        14: groups.sync,
        15: groups.describe,
        16: groups.list,
        17: sasl.handshake,
        18: cluster.api_versions,
        19: admin.create_topics,
        20: admin.delete_topics,
        21: admin.delete_records,
        22: producers.init_producer_id,
        23: lookups.epoch_ends,
        24: transactions.add_partitions,
        25: transactions.add_offsets,
        26: transactions.end,
        27: transactions.write_markers,
        28: transactions.commit_offsets,
        29: acls.describe,
        30: acls.create,
        31: acls.delete,
        32: configs.describe,
        33: configs.alter,
        35: admin.log_dirs,
        36: sasl.authenticate,
        37: admin.create_partitions,
        42: groups.delete,
        44: configs.alter_incrementally,
        43: elections.elect,
        45: reassignments.alter,
        46: reassignments.list,
        47: offsets.delete,
        48: quotas.describe,
        49: quotas.alter,
        50: scram_users.describe,
        51: scram_users.alter,
        60: cluster.cluster,
        61: producers.describe,
        65: transactions.describe,
        66: transactions.list,
        68: groups.consumer_heartbeat,
        69: groups.consumer_describe,
        74: configs.list_resources,
        75: cluster.topic_partitions,
        76: share_groups.heartbeat,
        77: share_groups.describe,
        78: share_fetch.fetch,
        79: share_fetch.acknowledge,
        90: share_groups.describe_offsets,
        91: share_groups.alter_offsets,
        92: share_groups.delete_offsets,
    }
    cluster.advertise(table)
    return table

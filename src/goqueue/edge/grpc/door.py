"""Builds the door's methods from the broker's verbs."""

from __future__ import annotations

from typing import Protocol, TypeVar

from starlette.types import ASGIApp

from goqueue.base.access import Access
from goqueue.base.entropy import Entropy
from goqueue.base.settings import TransactionSettings
from goqueue.edge.grpc.answers import AnswerMethods
from goqueue.edge.grpc.api import ApiMethods
from goqueue.edge.grpc.batches import BatchMethods
from goqueue.edge.grpc.calls import GrpcMethod
from goqueue.edge.grpc.cluster import ClusterMethods
from goqueue.edge.grpc.dead_letters import DeadLetterMethods
from goqueue.edge.grpc.delayed import DelayedMethods
from goqueue.edge.grpc.groups import GroupMethods
from goqueue.edge.grpc.health import SERVICE as HEALTH
from goqueue.edge.grpc.health import HealthMethods
from goqueue.edge.grpc.polling import PollMethods
from goqueue.edge.grpc.publisher import PublisherMethods
from goqueue.edge.grpc.reading import ReadMethods
from goqueue.edge.grpc.reflection import ReflectionMethods
from goqueue.edge.grpc.schemas import SchemaMethods
from goqueue.edge.grpc.subscriber import SubscribeMethods
from goqueue.edge.grpc.topics import TopicMethods
from goqueue.edge.grpc.transactions import TransactionMethods
from goqueue.service.browse import Browsing
from goqueue.service.cluster_view import ClusterView
from goqueue.service.consume import Consuming
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
from goqueue.service.fetch import Fetching
from goqueue.service.front import Front
from goqueue.service.groups import Groups
from goqueue.service.health import Health
from goqueue.service.leasing import Leasing
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.publish import Publish
from goqueue.service.quotas import ClientQuotas
from goqueue.service.reset import ResetOffsets
from goqueue.service.scheduling import Scheduling
from goqueue.service.schemas import Schemas
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_publish import TransactionalPublish
from goqueue.wire import goqueue_pb2 as pb

S = TypeVar("S")


class GrpcVerbs(Protocol):
    """What the door needs of a broker."""

    entropy: Entropy
    topics: Topics
    publish: Publish
    fetching: Fetching
    browsing: Browsing
    groups: Groups
    consuming: Consuming
    reset: ResetOffsets
    leasing: Leasing
    scheduling: Scheduling
    letters: DeadLetterView
    redrives: Redrives
    transactions: TransactionVerbs
    txn_publish: TransactionalPublish
    schemas: Schemas
    health: Health
    metrics: BrokerMetrics
    client_quotas: ClientQuotas

    def routed(self, service: S) -> S: ...


def grpc_methods(
    verbs: GrpcVerbs, access: Access | None, cluster: ClusterView, settings: TransactionSettings, app: ASGIApp
) -> list[GrpcMethod]:
    def front(service: S) -> Front[S]:
        return Front(service, access, verbs.routed(service))

    services = [one.full_name for one in pb.DESCRIPTOR.services_by_name.values()]
    publish, health, consuming = front(verbs.publish), front(verbs.health), front(verbs.consuming)
    groups, answers = front(verbs.groups), AnswerMethods(front(verbs.leasing))
    return [
        *PublisherMethods(publish).methods(),
        *SubscribeMethods(consuming, groups, answers, health).methods(),
        *PollMethods(consuming).methods(),
        *answers.methods(),
        *ReadMethods(front(verbs.browsing)).methods(),
        *BatchMethods(publish, front(verbs.fetching), health).methods(),
        *TopicMethods(front(verbs.topics)).methods(),
        *GroupMethods(groups, consuming, front(verbs.reset)).methods(),
        *DelayedMethods(front(verbs.scheduling)).methods(),
        *DeadLetterMethods(front(verbs.letters), front(verbs.redrives)).methods(),
        *TransactionMethods(front(verbs.transactions), front(verbs.txn_publish), settings, verbs.entropy).methods(),
        *SchemaMethods(front(verbs.schemas)).methods(),
        *ClusterMethods(front(cluster)).methods(),
        *ApiMethods(app).methods(),
        *HealthMethods(health, services).methods(),
        *ReflectionMethods([*services, HEALTH]).methods(),
    ]

"""Builds the door from the broker's verbs."""

from __future__ import annotations

from typing import Protocol, TypeVar

from goqueue.base.access import Access
from goqueue.base.clock import SteadyClock
from goqueue.base.entropy import Entropy
from goqueue.base.settings import SqsSettings
from goqueue.edge.http.guard import DoorGuard
from goqueue.edge.rest.requests import Bodies
from goqueue.edge.sqs.app import SqsDoor
from goqueue.edge.sqs.contents import QueueContents
from goqueue.edge.sqs.moves import Moves
from goqueue.edge.sqs.names import Arns
from goqueue.edge.sqs.operations import operations
from goqueue.edge.sqs.queues import Queues
from goqueue.edge.sqs.quotas import limited
from goqueue.edge.sqs.receive import Receiving
from goqueue.edge.sqs.send import SendHandler
from goqueue.edge.sqs.signatures import SqsLogin
from goqueue.service.dead_letters import Redrives
from goqueue.service.front import Front
from goqueue.service.leasing import Leasing
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.quotas import ClientQuotas
from goqueue.service.scheduling import Scheduling
from goqueue.service.topics import Topics

S = TypeVar("S")


class Verbs(Protocol):
    """What the door needs of a broker."""

    clock: SteadyClock
    entropy: Entropy
    topics: Topics
    publish: Publish
    publish_once: DeduplicatedPublish
    leasing: Leasing
    scheduling: Scheduling
    redrives: Redrives
    metrics: BrokerMetrics
    client_quotas: ClientQuotas

    def routed(self, service: S) -> S: ...


def sqs_door(settings: SqsSettings, verbs: Verbs, access: Access | None, guard: DoorGuard[SqsLogin]) -> SqsDoor:
    arns, clock = Arns(settings.region), verbs.clock

    def front(service: S) -> Front[S]:
        return Front(service, access, verbs.routed(service))

    topics, leasing, once = front(verbs.topics), front(verbs.leasing), front(verbs.publish_once)
    contents = QueueContents(leasing, front(verbs.scheduling), settings.group)
    queues = Queues(topics, contents, once, arns, clock)
    sending = SendHandler(queues, front(verbs.publish), once, clock, verbs.entropy)
    receiving = Receiving(queues, leasing, arns, settings.group)
    moves = Moves(front(verbs.redrives), topics, arns)
    table = operations(queues.handlers(), sending.handlers(), receiving.handlers(), moves.handlers())
    return SqsDoor(
        {name: limited(one, verbs.client_quotas) for name, one in table.items()},
        Bodies(settings, verbs.metrics.http_body_bytes.labels("sqs")),
        verbs.metrics,
        verbs.entropy,
        guard,
    )

"""What most verbs need of the node they run on."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.base.clock import SteadyClock
from goqueue.base.entropy import Entropy
from goqueue.service.metrics import BrokerMetrics


@dataclass(frozen=True)
class Environment:
    clock: SteadyClock
    entropy: Entropy
    metrics: BrokerMetrics

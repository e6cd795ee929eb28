"""The broker's own topics and their settings. Each has a partition in every shard, but for the schemas."""

from __future__ import annotations

from typing import Final

from goqueue.drive.coordinators import (
    GROUPS_CONFIG,
    GROUPS_TOPIC,
    SCHEMAS_CONFIG,
    SCHEMAS_TOPIC,
    TRANSACTIONS_CONFIG,
    TRANSACTIONS_TOPIC,
)
from goqueue.drive.delivery_runner import DELIVERIES_CONFIG, DELIVERIES_TOPIC
from goqueue.drive.schedule_log import SCHEDULE_CONFIG, SCHEDULE_TOPIC

OWN_TOPICS: Final = {
    GROUPS_TOPIC: GROUPS_CONFIG,
    TRANSACTIONS_TOPIC: TRANSACTIONS_CONFIG,
    SCHEDULE_TOPIC: SCHEDULE_CONFIG,
    DELIVERIES_TOPIC: DELIVERIES_CONFIG,
    SCHEMAS_TOPIC: SCHEMAS_CONFIG,
}

"""What everybody is told about a node that is not well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from goqueue.base.clock import SteadyClock, SystemClock
from goqueue.base.ids import TopicPartition
from goqueue.log.stats import StorageStats
from goqueue.service.health import Health


def test_what_tenants_have_is_counted_and_not_named() -> None:
    failed = [TopicPartition("orders", 1), TopicPartition("acme~secret", 0), TopicPartition("acme~secret", 2)]
    partitions = [SimpleNamespace(at=at, failure=OSError("gone")) for at in failed]
    table = SimpleNamespace(all=lambda: [SimpleNamespace(partitions=partitions)])
    space = SimpleNamespace(is_full=False, usage=SimpleNamespace(used_percent=1.0, free_bytes=1))
    checks = Health(cast(Any, table), cast(Any, space), StorageStats(), SteadyClock(SystemClock()), "1").checks()
    (logs,) = [one for one in checks if one.name == "logs"]
    assert (logs.ok, logs.detail) == (False, "read-only after disk errors: orders/1, 2 of tenants")

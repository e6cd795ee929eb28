"""A node on which whoever does not say who it is belongs to a tenant: suites of doors run as one, unchanged.

`NODE_TENANT=a` in the environment: the nodes of tests are started by this program.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from goqueue.base import commands


@lru_cache(maxsize=1024)
def of_a_tenant(door: str, host: str) -> commands.Caller:
    return commands.Caller(door=door, host=host, tenant=os.environ["NODE_TENANT"])


def main() -> None:
    commands.anonymous = of_a_tenant  # before a door is loaded, which takes it from there
    from goqueue.drive.topic_table import TopicTable
    from goqueue.node_services import NodeServices

    begin = NodeServices.__init__

    def with_access(services: NodeServices, *args: Any, **named: Any) -> None:
        begin(services, *args, **named)
        services.access = services.access_control  # which nodes without security have none of

    NodeServices.__init__ = with_access  # type: ignore[assignment,method-assign]
    TopicTable.has_tenant = lambda *_: True  # type: ignore[method-assign]
    from goqueue.cli import main as serve

    serve()


if __name__ == "__main__":
    main()

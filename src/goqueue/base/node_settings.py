"""The settings of a node as a member of its cluster, which may be the only one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.base.limits import SHARDS_DEFAULT, SHARDS_MAX

Doc = msgspec.Meta


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[int, Doc(ge=0, le=2**31 - 1, description="The node's number, as clients see it; it stays.")] = 0
    shards: Annotated[
        int,
        Doc(
            ge=0,
            le=SHARDS_MAX,
            description="How many shards the node has; more can be added, none taken away. 0 leaves it as it is; "
            f"a new data directory gets {SHARDS_DEFAULT}.",
        ),
    ] = 0

"""The settings of a node as a member of its cluster, which may be the only one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.base.limits import PROCESSES_MAX, SHARDS_DEFAULT, SHARDS_MAX

Doc = msgspec.Meta


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[int, Doc(ge=0, le=2**31 - 1, description="The node's number, as clients see it; it stays.")] = 0
    id_from: Annotated[
        Literal["setting", "hostname"],
        Doc(
            description="`hostname` takes the number at the end of the host's name instead of `node.id`, as a "
            "StatefulSet's pods have it: 2 of `goqueue-2`."
        ),
    ] = "setting"
    host: Annotated[
        str,
        Doc(
            description="Name at which others find doors that listen everywhere; empty means the machine's own. `{id}` "
            "in it stands for the node's number."
        ),
    ] = ""
    shards: Annotated[
        int,
        Doc(
            ge=0,
            le=SHARDS_MAX,
            description="How many shards the node has; more can be added, none taken away. 0 leaves it as it is; "
            f"a new data directory gets {SHARDS_DEFAULT}.",
        ),
    ] = 0
    processes: Annotated[
        int,
        Doc(
            ge=1,
            le=PROCESSES_MAX,
            description="How many processes share the work on this machine, one for each core that they may use.",
        ),
    ] = 1
    metric_series_max: Annotated[
        int,
        Doc(
            ge=1,
            description="Series of one metric that name topics, partitions or groups; the largest have their own, "
            "the rest are summed as `(other)`.",
        ),
    ] = 2_000

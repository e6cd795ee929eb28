"""What a node's owner can tell the groups."""

from __future__ import annotations

import msgspec

from goqueue.base.ids import Millis
from goqueue.base.limits import MIB
from goqueue.base.settings import GroupsSection


class GroupSettings(msgspec.Struct, frozen=True):
    """Limits and defaults of all groups.

    `initial_rebalance_delay_ms` is how long the first rebalance of an empty classic group waits for more members.
    Kafka waits 3000; 0 rebalances at once, which suits tests and small groups. Members that come while a rebalance
    is under way are always taken into it.
    """

    session_ms_min: Millis = 6_000
    session_ms_max: Millis = 1_800_000
    session_ms: Millis = 30_000
    heartbeat_ms: Millis = 3_000
    share_session_ms: Millis | None = None  # of share groups; None as for others
    share_heartbeat_ms: Millis | None = None
    rebalance_ms: Millis = 60_000
    initial_rebalance_delay_ms: Millis = 0
    new_member_join_ms: Millis = 300_000
    group_members_max: int = 2_000
    group_bytes_max: int = 16 * MIB
    groups_max: int = 50_000
    offsets_retention_ms: Millis = 7 * 86_400_000
    offsets_check_ms: Millis = 600_000
    offset_metadata_bytes_max: int = 4_096


def group_settings_of(chosen: GroupsSection) -> GroupSettings:
    """What the node's settings say."""
    return GroupSettings(
        session_ms_min=chosen.session_ms_min,
        session_ms_max=chosen.session_ms_max,
        session_ms=chosen.session_ms,
        heartbeat_ms=chosen.heartbeat_ms,
        initial_rebalance_delay_ms=chosen.initial_rebalance_delay_ms,
        group_members_max=chosen.members_max,
        group_bytes_max=chosen.group_bytes_max,
        groups_max=chosen.groups_max,
        offsets_retention_ms=chosen.offsets_retention_ms,
    )

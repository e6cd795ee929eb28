"""What can be asked of groups without changing them: answers from memory, or an error word."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from goqueue.base.ids import TopicPartition
from goqueue.core.groups.commits import check_epoch
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.describe import description, listing
from goqueue.core.groups.records import OffsetCommitted
from goqueue.core.groups.replies import GroupDescription, GroupListing, RebalanceStats
from goqueue.core.groups.table import GroupTable
from goqueue.core.groups.timing import RebalanceTiming


class GroupReads:
    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def offsets(
        self,
        group: str,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> dict[TopicPartition, OffsetCommitted]:
        """What is committed of these partitions (None: of all). A member of a consumer group shows its epoch."""
        machine = self._table.groups.get(group)
        if isinstance(machine, ConsumerGroup) and member_id is not None and epoch >= 0:
            check_epoch(machine, member_id, epoch)
        found = self._table.offsets.of(group)
        return dict(found) if partitions is None else {at: found[at] for at in partitions if at in found}

    def config(self, group: str) -> Mapping[str, str]:
        """What is set for the group."""
        return self._table.configs.get(group, {})

    def is_share(self, group: str) -> bool:
        """Whether it is a share group, with members or without."""
        machine = self._table.groups.get(group)
        return machine is not None and machine.kind == "share"

    def member_ids(self, group: str) -> Collection[str]:
        """Of the server-side protocol, a share group or REST."""
        machine = self._table.groups.get(group)
        return machine.members if isinstance(machine, ConsumerGroup) else ()

    def configured(self) -> list[str]:
        """The groups that something is set for, by name."""
        return sorted(self._table.configs)

    def count(self, exact: bool = True) -> int:
        """Groups, with members or with offsets alone. Quickly, if twice as many may be said as there are."""
        return self._table.count(exact)

    def list_groups(self) -> list[GroupListing]:
        return [listing(name, self._table.groups.get(name)) for name in self._table.names()]

    def describe(self, group: str) -> GroupDescription:
        return description(group, self._table.find(group))

    def stats(self, group: str) -> RebalanceStats:
        """Rebalances since this node started."""
        machine = self._table.find(group)
        return (RebalanceTiming() if machine is None else machine.timing).stats(group)

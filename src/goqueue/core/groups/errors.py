"""The error words of consumer groups."""

from __future__ import annotations

from goqueue.base.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable


class UnknownGroup(NotFound):
    """No such group: it never had a member or an offset, or it was deleted."""


class UnknownMember(NotFound):
    """The group does not know this member (any more); it has to join again."""


class IllegalGeneration(Conflict):
    """The generation is not the member's current one."""


class FencedInstance(Conflict):
    """Another process took over this static member's place."""


class RebalanceInProgress(Conflict):
    """The group is rebalancing; the member has to rejoin."""


class InconsistentProtocol(Conflict):
    """The group's members speak another protocol than this one."""


class GroupNotEmpty(Conflict):
    """The group has live members."""


class GroupSubscribed(Conflict):
    """The group's members are subscribed to the topic."""


class MemberIdRequired(Conflict):
    """A member id was given out; join again with it (`detail["member_id"]`)."""

    @property
    def member_id(self) -> str:
        return str(self.detail["member_id"])


class UnreleasedInstance(Conflict):
    """A live member holds this static member's place."""


class FencedMemberEpoch(Conflict):
    """The member's epoch is not the one known here; it has to drop its partitions and join again."""


class StaleMemberEpoch(Conflict):
    """The member's epoch moved on; ask again with the epoch of the last heartbeat."""


class InvalidSessionTimeout(Invalid):
    """The session time-out is outside the limits of this node."""


class UnsupportedAssignor(Invalid):
    """No such server-side assignor."""


class OffsetMetadataTooLarge(TooLarge):
    """The text beside a committed offset is over the limit."""


class GroupFull(Unavailable):
    """The group has as many members as it may, or they take as much memory."""


class TooManyGroups(GroupFull):
    """The node has as many groups as it may."""

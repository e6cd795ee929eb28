"""Who may commit, read, delete and reset offsets, and when."""

from __future__ import annotations

from typing import TypeAlias

from goqueue.core.groups.classic import ClassicGroup
from goqueue.core.groups.classic_state import ClassicState
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.describe import CONSUMERS
from goqueue.core.groups.errors import (
    GroupNotEmpty,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownGroup,
    UnknownMember,
)
from goqueue.core.groups.requests import CommitRequest

Group: TypeAlias = ClassicGroup | ConsumerGroup


def is_empty(group: Group | None) -> bool:
    """Whether nobody is in the group or about to be."""
    if isinstance(group, ClassicGroup):
        return group.state is ClassicState.EMPTY
    return group is None or not group.members


def check_commit(group: Group | None, request: CommitRequest) -> None:
    """A member commits in its generation; without one, anybody may while the group has no members."""
    generation = request.generation_or_epoch
    if generation < 0 and is_empty(group):
        return
    if request.is_simple and group is not None:
        raise UnknownMember("The group has members; join it to commit, or wait until it is empty.")
    _check_member(group, request)
    if isinstance(group, ClassicGroup) and group.state is ClassicState.COMPLETING:
        raise RebalanceInProgress("The group is rebalancing; commit after the sync.")


def check_in_transaction(group: Group | None, request: CommitRequest) -> None:
    """The same for a commit in a transaction: one without a member is not checked, and no rebalance is in its way."""
    if not request.is_simple and not (request.generation_or_epoch < 0 and is_empty(group)):
        _check_member(group, request)


def _check_member(group: Group | None, request: CommitRequest) -> None:
    generation = request.generation_or_epoch
    if group is None:
        raise UnknownGroup("There is no such group; join it, or commit without a generation.", field="group")
    if isinstance(group, ConsumerGroup):
        check_epoch(group, request.member_id, generation)
        return
    group.roster.check(request.member_id, request.instance_id)
    if generation != group.generation:
        raise IllegalGeneration(f"Generation {generation} is not the current one ({group.generation}); join again.")


def check_epoch(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    """A member speaks in its current epoch only."""
    member = group.member(member_id)
    if epoch != member.epoch:
        wrong = IllegalGeneration if member.door == "rest" or member.is_classic else StaleMemberEpoch
        raise wrong(f"{epoch} is not the member's generation ({member.epoch}); use the one of the last heartbeat.")


def check_empty(group: Group | None) -> None:
    if not is_empty(group):
        raise GroupNotEmpty("The group has members; stop them first.")


def check_delete(group: Group | None) -> None:
    """Offsets of topics nobody reads may go while consumers run; what other members read is not known."""
    if isinstance(group, ClassicGroup) and group.roster.protocol_type != CONSUMERS:
        check_empty(group)

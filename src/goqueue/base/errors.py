"""The error words of the whole broker.

A family says what kind of trouble it is and is what edges map to wire codes; a leaf says which one. Every
message tells the reader what to do. `code` is stable and is made from the class's name.
"""

from __future__ import annotations

import re
from typing import ClassVar


class GoQueueError(Exception):
    """Root of the family. `field` names the offending input; `detail` is machine-readable extra."""

    code: ClassVar[str] = "error"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, message: str, *, field: str | None = None, **detail: object) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.detail = detail


# --- families -----------------------------------------------------------------------------------------


class Invalid(GoQueueError):
    """The request can never work as it stands."""


class Forbidden(GoQueueError):
    """Understood, and refused."""


class Unauthenticated(GoQueueError):
    """It is not known who asks."""


class NotFound(GoQueueError):
    """The thing named does not exist."""


class Conflict(GoQueueError):
    """The thing is in a state that forbids this."""


class TooLarge(GoQueueError):
    """Over a size limit."""


class Gone(GoQueueError):
    """The place asked for is not in the log."""


class Damaged(GoQueueError):
    """Stored bytes are not what was written."""


class Full(GoQueueError):
    """No room; nothing was written."""


class Unavailable(GoQueueError):
    """Not now; the same request may work later."""


class Startup(GoQueueError):
    """The node cannot start."""


# --- leaves -------------------------------------------------------------------------------------------


class InvalidName(Invalid):
    """A topic, group, subject or tenant cannot be called that."""


class InvalidField(Invalid):
    """A field of a request is missing, unknown, of the wrong type or out of range."""


class InvalidGroup(Invalid):
    """A group without a name, or with one that is too long."""


class InvalidPartitions(Invalid):
    """A topic cannot have that number of partitions."""


class InvalidReplicationFactor(Invalid):
    """A topic cannot have that number of replicas here."""


class InvalidReplicaAssignment(Invalid):
    """A partition's replicas cannot be on those nodes."""


class MalformedRequest(Invalid):
    """What came is not HTTP, contradicts itself, or is cut into needlessly small pieces."""


class UnsupportedEncoding(Invalid):
    """A body comes compressed, or in another encoding that is not read here."""


class InvalidJson(Invalid):
    """The body is not JSON."""


class InvalidConfig(Invalid):
    """A topic setting is unknown or has a bad value."""


class CorruptBatch(Invalid):
    """A record batch handed in is malformed or its CRC is wrong."""


class InvalidBatch(Invalid):
    """What was handed in is not exactly one batch with as many records as it says."""


class InvalidTimestamp(Invalid):
    """A record's time is further from the node's than its topic allows."""


class KeyRequired(Invalid):
    """A compacted topic was given a record without a key."""


class InvalidReceipt(Invalid):
    """Text that never was a receipt."""


class CredentialsMissing(Unauthenticated):
    """Whoever asks has to show who it is."""


class CredentialsRefused(Unauthenticated):
    """What was shown is wrong, has run out, or belongs to nobody any more. Which of them is not said."""


class ForeignOrigin(Forbidden):
    """A web page of another site asks a browser to write or to take something here."""


class UnknownHost(Forbidden):
    """A request names a host that this node does not know itself by."""


class InternalTopic(Forbidden):
    """The broker keeps its own books in that topic."""


class AccessDenied(Forbidden):
    """No rule allows it, or a rule denies it. Whether the thing exists is not told."""


class TopicAuthorizationFailed(AccessDenied):
    """The caller may not do that to the topic."""


class GroupAuthorizationFailed(AccessDenied):
    """The caller may not do that to the group."""


class TransactionalIdAuthorizationFailed(AccessDenied):
    """The caller may not use the transactional id."""


class ClusterAuthorizationFailed(AccessDenied):
    """The caller may not do that to the cluster."""


class SubjectAuthorizationFailed(AccessDenied):
    """The caller may not do that to the schema subject."""


class UnknownTopic(NotFound):
    """No such topic."""


class UnknownTenant(NotFound):
    """No tenant has that name."""


class UnknownUser(NotFound):
    """No user has that name."""


class UnknownKey(NotFound):
    """No API key has that id."""


class UnknownTopicId(NotFound):
    """No topic has that id."""


class UnknownDelayed(NotFound):
    """No delayed message has that address, or it was done with long ago."""


class UnknownTrace(NotFound):
    """No trace has that id, or it was forgotten."""


class UnknownDeadLetter(NotFound):
    """No dead letter is there: it never was, or it was redriven or deleted."""


class UnknownRedrive(NotFound):
    """No redrive has that id."""


class UnknownPartition(NotFound):
    """The topic has no such partition."""


class UnknownNode(NotFound):
    """No node of that number belongs to the cluster."""


class UnknownShard(NotFound):
    """No shard has that number."""


class UnknownBackup(NotFound):
    """No backup under way has that id: it ended, or nobody asked for its files for ten minutes."""


class UnknownRoute(NotFound):
    """No such path or method."""


class TopicExists(Conflict):
    """A topic of that name exists already."""


class UserExists(Conflict):
    """A user of that name exists already."""


class TenantExists(Conflict):
    """A tenant of that name exists already."""


class TenantInUse(Conflict):
    """Something is called after the tenant, or belongs to it."""


class AlreadyDelivered(Conflict):
    """A delayed message is in its log already, or ended otherwise: it cannot be cancelled."""


class RedriveRunning(Conflict):
    """The dead letters are being redriven already."""


class BackupRefused(Conflict):
    """The node cannot be backed up while it runs; the message says why."""


class MoveRefused(Conflict):
    """Shards cannot be moved like that, or a node cannot be taken out yet; nothing was begun."""


class StaleReceipt(Conflict):
    """The lease that a receipt names is over: it ran out, was answered, or was given back."""


class OutOfOrderSequence(Conflict):
    """A batch of an idempotent producer does not follow the last one stored."""


class InvalidProducerEpoch(Conflict):
    """A newer incarnation of the producer took its place."""


class MetadataConflict(Conflict):
    """Somebody else changed the same fact of the cluster first; look again and decide anew."""


class MessageTooLarge(TooLarge):
    """A message or batch is over the topic's `max.message.bytes`."""


class BodyTooLarge(TooLarge):
    """A request body is over the listener's limit."""


class HeadTooLarge(TooLarge):
    """The headers of a request are over the listener's limit in bytes or in number."""


class UriTooLong(TooLarge):
    """The path and query of a request are over the listener's limit."""


class MetadataTooLarge(TooLarge):
    """A fact of the cluster, or a change of many, is over the metadata store's limits."""


class TooManyRules(TooLarge):
    """More rules of access control than are kept, or than one request may bring."""


class OffsetOutOfRange(Gone):
    """The offset is below the log's start or beyond its end."""


class DamagedRange(Damaged):
    """The offset lies in a quarantined range; `detail` has `first_offset`, `last_offset`, `next_offset`."""


class DiskFull(Full):
    """The disk is over its limit, or a write found no space."""


class StorageFailed(Unavailable):
    """The disk reported an error on write or sync; the partition is read-only until a restart."""


class OutOfResources(Unavailable):
    """The system has no file descriptor or memory left for this; nothing was changed, and it may work in a moment."""


class NotEnoughReplicas(Unavailable):
    """`acks=all` asks for more in-sync replicas than there are."""


class TooFewHaveIt(Unavailable):
    """It is appended, but when it was to be acknowledged fewer replicas were in sync than `acks=all` asks for."""


class ReplicasTimedOut(Unavailable):
    """Replicas have not taken over what was appended, for as long as the caller waits. They may yet."""


class SessionLost(Unavailable):
    """The node's session with the metadata store is over."""


class StoreOutOfReach(Unavailable):
    """The metadata store does not answer. What was asked of it may have been done or not."""


class PeerLost(Unavailable):
    """Another node does not answer. What was asked of it may have been done or not."""


class PeerOutOfReach(PeerLost):
    """Another node cannot be reached. Nothing was asked of it."""


class PeerUntrusted(PeerOutOfReach):
    """Another node has another secret or certificates that do not fit. Nothing was asked of it."""


class WrongCluster(Forbidden):
    """A node of another cluster, or one that pretends to be this node, asks."""


class WrongVersion(Forbidden):
    """A node asks whose version is too old or too new for this one."""


class NotLeader(Unavailable):
    """Another node leads the shard, or nobody does yet; ask for the leader again."""


class LeaderChanged(NotLeader):
    """Another node leads the shard now. What was asked of the one before may have been done or not."""


class TakingOver(NotLeader):
    """This node leads the shard and does not serve it yet; it does in a moment."""


class FencedEpoch(Unavailable):
    """The caller believes in a leader that was replaced; ask for the leader again."""


class UnknownEpoch(Unavailable):
    """The caller knows of a later leader than this node does; it will hear of it too."""


class Overloaded(Unavailable):
    """A limit on concurrent work was reached."""


class QuotaExceeded(Full):
    """A tenant has as much as it may."""


class Throttled(Unavailable):
    """The caller is over a quota; `detail["retry_ms"]` says for how long."""


class RequestTooSlow(Unavailable):
    """A request's head or body did not arrive in time."""


class NotLoaded(Unavailable):
    """A coordinator is reading its records; it answers in a moment."""


class ShuttingDown(Unavailable):
    """The node is stopping."""


def leaves(root: type[GoQueueError] = GoQueueError) -> list[type[GoQueueError]]:
    """Every error word without a narrower one, sorted by code; tests use it to prove each is mapped."""
    found: list[type[GoQueueError]] = []
    for child in root.__subclasses__():
        found += leaves(child) if child.__subclasses__() else [child]
    return sorted(found, key=lambda leaf: leaf.code)

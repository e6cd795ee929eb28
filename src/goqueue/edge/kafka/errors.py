"""Where error words meet Kafka's error codes. The only such place."""

from __future__ import annotations

from typing import Final

from goqueue.base import errors, tenant_errors
from goqueue.core.cluster import errors as cluster_errors
from goqueue.core.groups import errors as group_errors
from goqueue.core.patterns import InvalidPattern
from goqueue.core.schemas import errors as schema_errors
from goqueue.core.txn import errors as txn_errors
from goqueue.wire import codes

CODES: Final[dict[type[errors.GoQueueError], int]] = {
    # families, for words that Kafka has none of its own for
    errors.Invalid: codes.INVALID_REQUEST,
    errors.Forbidden: codes.TOPIC_AUTHORIZATION_FAILED,
    errors.Unauthenticated: codes.SASL_AUTHENTICATION_FAILED,
    errors.NotFound: codes.UNKNOWN_TOPIC_OR_PARTITION,
    errors.Conflict: codes.INVALID_REQUEST,
    errors.TooLarge: codes.MESSAGE_TOO_LARGE,
    errors.Gone: codes.OFFSET_OUT_OF_RANGE,
    errors.Damaged: codes.CORRUPT_MESSAGE,
    errors.Full: codes.KAFKA_STORAGE_ERROR,
    errors.Unavailable: codes.COORDINATOR_NOT_AVAILABLE,  # not now, try again
    errors.Startup: codes.UNKNOWN_SERVER_ERROR,
    # words
    errors.InvalidName: codes.INVALID_TOPIC_EXCEPTION,
    errors.InvalidConfig: codes.INVALID_CONFIG,
    errors.InvalidPartitions: codes.INVALID_PARTITIONS,
    errors.InvalidGroup: codes.INVALID_GROUP_ID,
    errors.UnknownUser: codes.RESOURCE_NOT_FOUND,
    errors.UnknownKey: codes.RESOURCE_NOT_FOUND,
    errors.UserExists: codes.DUPLICATE_RESOURCE,
    errors.UnknownTopicId: codes.UNKNOWN_TOPIC_ID,
    errors.CorruptBatch: codes.CORRUPT_MESSAGE,
    errors.InvalidBatch: codes.INVALID_RECORD,
    errors.InvalidTimestamp: codes.INVALID_TIMESTAMP,
    errors.KeyRequired: codes.INVALID_RECORD,
    errors.InternalTopic: codes.INVALID_TOPIC_EXCEPTION,
    tenant_errors.NamelessTopic: codes.INVALID_TOPIC_EXCEPTION,
    tenant_errors.NamelessGroup: codes.INVALID_GROUP_ID,
    errors.GroupAuthorizationFailed: codes.GROUP_AUTHORIZATION_FAILED,
    errors.ClusterAuthorizationFailed: codes.CLUSTER_AUTHORIZATION_FAILED,
    errors.TransactionalIdAuthorizationFailed: codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.QuotaExceeded: codes.POLICY_VIOLATION,
    errors.Throttled: codes.THROTTLING_QUOTA_EXCEEDED,
    errors.TooManyRules: codes.INVALID_REQUEST,
    errors.TopicExists: codes.TOPIC_ALREADY_EXISTS,
    errors.StaleReceipt: codes.INVALID_RECORD_STATE,  # a share consumer holds the record no longer
    errors.OutOfOrderSequence: codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.InvalidProducerEpoch: codes.INVALID_PRODUCER_EPOCH,
    errors.StorageFailed: codes.KAFKA_STORAGE_ERROR,
    errors.OutOfResources: codes.KAFKA_STORAGE_ERROR,  # which clients try again
    errors.NotEnoughReplicas: codes.NOT_ENOUGH_REPLICAS,
    errors.TooFewHaveIt: codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    errors.ReplicasTimedOut: codes.REQUEST_TIMED_OUT,
    errors.InvalidReplicationFactor: codes.INVALID_REPLICATION_FACTOR,
    errors.InvalidReplicaAssignment: codes.INVALID_REPLICA_ASSIGNMENT,
    errors.NotLeader: codes.NOT_LEADER_OR_FOLLOWER,
    errors.FencedEpoch: codes.FENCED_LEADER_EPOCH,
    errors.UnknownEpoch: codes.UNKNOWN_LEADER_EPOCH,
    cluster_errors.ElectionNotNeeded: codes.ELECTION_NOT_NEEDED,
    cluster_errors.PreferredLeaderAbsent: codes.PREFERRED_LEADER_NOT_AVAILABLE,
    cluster_errors.NoEligibleLeader: codes.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    group_errors.UnknownMember: codes.UNKNOWN_MEMBER_ID,
    group_errors.IllegalGeneration: codes.ILLEGAL_GENERATION,
    group_errors.FencedInstance: codes.FENCED_INSTANCE_ID,
    group_errors.RebalanceInProgress: codes.REBALANCE_IN_PROGRESS,
    group_errors.InconsistentProtocol: codes.INCONSISTENT_GROUP_PROTOCOL,
    group_errors.UnknownGroup: codes.GROUP_ID_NOT_FOUND,
    group_errors.GroupNotEmpty: codes.NON_EMPTY_GROUP,
    group_errors.MemberIdRequired: codes.MEMBER_ID_REQUIRED,
    group_errors.GroupFull: codes.GROUP_MAX_SIZE_REACHED,
    group_errors.InvalidSessionTimeout: codes.INVALID_SESSION_TIMEOUT,
    group_errors.UnreleasedInstance: codes.UNRELEASED_INSTANCE_ID,
    group_errors.UnsupportedAssignor: codes.UNSUPPORTED_ASSIGNOR,
    group_errors.FencedMemberEpoch: codes.FENCED_MEMBER_EPOCH,
    group_errors.StaleMemberEpoch: codes.STALE_MEMBER_EPOCH,
    group_errors.GroupSubscribed: codes.GROUP_SUBSCRIBED_TO_TOPIC,
    group_errors.OffsetMetadataTooLarge: codes.OFFSET_METADATA_TOO_LARGE,
    InvalidPattern: codes.INVALID_REGULAR_EXPRESSION,
    schema_errors.SchemaMismatch: codes.INVALID_RECORD,
    txn_errors.InvalidTxnState: codes.INVALID_TXN_STATE,
    txn_errors.InvalidProducerMapping: codes.INVALID_PRODUCER_ID_MAPPING,
    txn_errors.InvalidTxnTimeout: codes.INVALID_TRANSACTION_TIMEOUT,
    txn_errors.ConcurrentTransactions: codes.CONCURRENT_TRANSACTIONS,
    txn_errors.ProducerFenced: codes.PRODUCER_FENCED,
    txn_errors.UnknownTransaction: codes.TRANSACTIONAL_ID_NOT_FOUND,
}


# The same words of a coordinator: of a group or a transactional id that is kept elsewhere, or is being loaded; or that
# could not write down what was asked, or does not know yet whether it is safe. Clients ask for it again. At words of
# partitions the C client would take a transaction for failed that may be committed.
_OF_COORDINATORS: Final[dict[type[errors.GoQueueError], int]] = {
    errors.NotLeader: codes.NOT_COORDINATOR,
    errors.FencedEpoch: codes.NOT_COORDINATOR,
    errors.StorageFailed: codes.NOT_COORDINATOR,
    errors.NotLoaded: codes.COORDINATOR_LOAD_IN_PROGRESS,
    errors.DiskFull: codes.COORDINATOR_NOT_AVAILABLE,
    errors.OutOfResources: codes.COORDINATOR_NOT_AVAILABLE,
    errors.NotEnoughReplicas: codes.COORDINATOR_NOT_AVAILABLE,
    errors.TooFewHaveIt: codes.COORDINATOR_NOT_AVAILABLE,
    errors.ReplicasTimedOut: codes.COORDINATOR_NOT_AVAILABLE,
}
# And of what a partition needs from its coordinators before it can take or give records.
_OF_PARTITIONS: Final[dict[type[errors.GoQueueError], int]] = {
    errors.NotLoaded: codes.NOT_LEADER_OR_FOLLOWER,
    errors.PeerLost: codes.NOT_LEADER_OR_FOLLOWER,
}


def code_of(error: errors.GoQueueError) -> int:
    """The code of the word, or of its nearest family."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def coordinator_code(error: errors.GoQueueError) -> int:
    """What a client of a group or a transactional id is told: it looks for the coordinator again, or waits for it."""
    return _special(error, _OF_COORDINATORS) or code_of(error)


def partition_code(error: errors.GoQueueError) -> int:
    """What a client of a partition is told: of what may work in a moment, that it should look for the leader."""
    return _special(error, _OF_PARTITIONS) or code_of(error)


def _special(error: errors.GoQueueError, codes_of: dict[type[errors.GoQueueError], int]) -> int | None:
    return next((codes_of[kind] for kind in type(error).__mro__ if kind in codes_of), None)

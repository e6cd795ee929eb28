"""Where error words meet Kafka's error codes. The only such place."""

from __future__ import annotations

from typing import Final

from goqueue.base import errors
from goqueue.core.groups import errors as group_errors
from goqueue.core.patterns import InvalidPattern
from goqueue.core.schemas import errors as schema_errors
from goqueue.core.txn import errors as txn_errors

NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
INVALID_REQUIRED_ACKS: Final = 21
UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
UNSUPPORTED_VERSION: Final = 35
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_REPLICA_ASSIGNMENT: Final = 39
INVALID_REQUEST: Final = 42
POLICY_VIOLATION: Final = 44
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_PRODUCER_ID_MAPPING: Final = 49
OPERATION_NOT_ATTEMPTED: Final = 55
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
UNSTABLE_OFFSET_COMMIT: Final = 88
PRODUCER_FENCED: Final = 90
UNKNOWN_TOPIC_ID: Final = 100
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106

CODES: Final[dict[type[errors.GoQueueError], int]] = {
    # families, for words that Kafka has none of its own for
    errors.Invalid: INVALID_REQUEST,
    errors.Forbidden: 29,  # TOPIC_AUTHORIZATION_FAILED
    errors.NotFound: UNKNOWN_TOPIC_OR_PARTITION,
    errors.Conflict: INVALID_REQUEST,
    errors.TooLarge: 10,  # MESSAGE_TOO_LARGE
    errors.Gone: 1,  # OFFSET_OUT_OF_RANGE
    errors.Damaged: 2,  # CORRUPT_MESSAGE
    errors.Full: 56,  # KAFKA_STORAGE_ERROR
    errors.Unavailable: 15,  # COORDINATOR_NOT_AVAILABLE: not now, try again
    errors.Startup: UNKNOWN_SERVER_ERROR,
    # words
    errors.InvalidName: 17,  # INVALID_TOPIC_EXCEPTION
    errors.InvalidConfig: 40,
    errors.InvalidPartitions: 37,
    errors.InvalidGroup: 24,
    errors.UnknownTopicId: UNKNOWN_TOPIC_ID,
    errors.CorruptBatch: 2,
    errors.InvalidBatch: 87,
    errors.InvalidTimestamp: 32,
    errors.KeyRequired: 87,  # INVALID_RECORD
    errors.InternalTopic: 17,
    errors.TopicExists: 36,
    errors.OutOfOrderSequence: 45,
    errors.InvalidProducerEpoch: 47,
    errors.StorageFailed: 56,
    errors.OutOfResources: 56,  # KAFKA_STORAGE_ERROR, which clients try again
    errors.NotEnoughReplicas: 19,
    errors.NotLeader: 6,  # NOT_LEADER_OR_FOLLOWER
    errors.FencedEpoch: 74,  # FENCED_LEADER_EPOCH
    errors.UnknownEpoch: 75,  # UNKNOWN_LEADER_EPOCH
    group_errors.UnknownMember: 25,
    group_errors.IllegalGeneration: 22,
    group_errors.FencedInstance: 82,
    group_errors.RebalanceInProgress: 27,
    group_errors.InconsistentProtocol: 23,
    group_errors.UnknownGroup: 69,
    group_errors.GroupNotEmpty: 68,
    group_errors.MemberIdRequired: 79,
    group_errors.GroupFull: 81,
    group_errors.InvalidSessionTimeout: 26,
    group_errors.UnreleasedInstance: 111,
    group_errors.UnsupportedAssignor: 112,
    group_errors.FencedMemberEpoch: 110,
    group_errors.StaleMemberEpoch: 113,
    group_errors.GroupSubscribed: 86,
    group_errors.OffsetMetadataTooLarge: 12,
    InvalidPattern: 128,  # INVALID_REGULAR_EXPRESSION
    schema_errors.SchemaMismatch: 87,
    txn_errors.InvalidTxnState: 48,
    txn_errors.InvalidProducerMapping: INVALID_PRODUCER_ID_MAPPING,
    txn_errors.InvalidTxnTimeout: 50,
    txn_errors.ConcurrentTransactions: 51,
    txn_errors.ProducerFenced: PRODUCER_FENCED,
    txn_errors.UnknownTransaction: 105,
}


def code_of(error: errors.GoQueueError) -> int:
    """The code of the word, or of its nearest family."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)

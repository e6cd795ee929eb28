"""What Kafka's error codes mean here: which pass by themselves, and what to tell about the others."""

from __future__ import annotations

from typing import Final

from goqueue.pipeline.link.errors import BrokerRefused, Fenced, PipelineError, TopicNotFound
from goqueue.pipeline.link.place import Place
from goqueue.wire import codes

_UNKNOWN: Final = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID})
_FENCED: Final = frozenset({codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED})
# Leaders move, disks are full for a while, a node starts or stops: the same request may work in a moment.
PASSING: Final = frozenset(
    {
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.REQUEST_TIMED_OUT,
        codes.BROKER_NOT_AVAILABLE,
        codes.REPLICA_NOT_AVAILABLE,
        codes.NETWORK_EXCEPTION,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
        codes.NOT_ENOUGH_REPLICAS,
        codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        codes.CONCURRENT_TRANSACTIONS,
        codes.KAFKA_STORAGE_ERROR,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
    }
)

# Why, if the node does not say it itself, and what to do.
_TOLD: Final = {
    codes.CORRUPT_MESSAGE: ("It holds the records for damaged.", "Look at the node's log."),
    codes.MESSAGE_TOO_LARGE: (
        "A message is larger than the topic allows.",
        "Raise its max.message.bytes, or write smaller rows.",
    ),
    codes.COORDINATOR_NOT_AVAILABLE: ("It is not ready.", "Try again in a moment."),
    codes.INVALID_TOPIC_EXCEPTION: (
        "This is no topic that can be written to.",
        "Choose another name; the broker's own topics are not for rows.",
    ),
    codes.TOPIC_AUTHORIZATION_FAILED: ("It is not allowed.", "Ask the node's administrator."),
    codes.OUT_OF_ORDER_SEQUENCE_NUMBER: ("Batches arrived out of order.", "Run the task again."),
    codes.INVALID_TXN_STATE: (
        "The transaction is over: its time ran out, or it was ended by somebody.",
        "Run the batch again.",
    ),
    codes.INVALID_PRODUCER_ID_MAPPING: ("It does not know this producer.", "Run the batch again."),
    codes.CONCURRENT_TRANSACTIONS: ("An earlier transaction of this writer is not over yet.", "Try again in a moment."),
    codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "It does not allow this transactional id.",
        "Ask the node's administrator.",
    ),
    codes.KAFKA_STORAGE_ERROR: ("Its disk is full or failed.", "Make room, or look at the node's log."),
    codes.INVALID_RECORD: (
        "The topic does not take these rows.",
        "See its schema settings; compacted topics need keys.",
    ),
}
_UNTOLD: Final = ("It gives no reason.", "Look at the node's log.")


def refusal(code: int, place: Place | str, told: str | None = None) -> PipelineError:
    """The error for a code about a place; `told` is the node's own text."""
    if code in _UNKNOWN:
        topic = place.topic if isinstance(place, Place) else place
        gone = f"There is no {place} on the node; it was deleted, or never was. Create the topic, or correct the name."
        return TopicNotFound(topic, gone)
    if code in _FENCED:
        return Fenced(
            code,
            f"Another attempt took over the writing of {place}; what this attempt wrote will not be seen. "
            "Nothing is to be done if the job goes on; else run it again.",
        )
    error, to_do = _TOLD.get(code, _UNTOLD)
    return BrokerRefused(
        code, f"The node refused the request for {place}. {told or error} {to_do} (Kafka's error {code})"
    )

"""What Kafka's error codes mean here: which pass by themselves, and what to tell about the others."""

from __future__ import annotations

from typing import Final

from goqueue.pipeline.link.errors import BrokerRefused, Fenced, PipelineError, TopicNotFound
from goqueue.pipeline.link.place import Place

OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
_UNKNOWN: Final = frozenset({3, 100, 103})  # by name, by id, and the name has another id now
_FENCED: Final = frozenset({47, 90})
# Leaders move, disks are full for a while, a node starts or stops: the same request may work in a moment.
PASSING: Final = frozenset({5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75})

# Why, if the node does not say it itself, and what to do.
_TOLD: Final = {
    2: ("It holds the records for damaged.", "Look at the node's log."),
    10: ("A message is larger than the topic allows.", "Raise its max.message.bytes, or write smaller rows."),
    15: ("It is not ready.", "Try again in a moment."),
    17: ("This is no topic that can be written to.", "Choose another name; the broker's own topics are not for rows."),
    29: ("It is not allowed.", "Ask the node's administrator."),
    45: ("Batches arrived out of order.", "Run the task again."),
    48: ("The transaction is over: its time ran out, or it was ended by somebody.", "Run the batch again."),
    49: ("It does not know this producer.", "Run the batch again."),
    51: ("An earlier transaction of this writer is not over yet.", "Try again in a moment."),
    53: ("It does not allow this transactional id.", "Ask the node's administrator."),
    56: ("Its disk is full or failed.", "Make room, or look at the node's log."),
    87: ("The topic does not take these rows.", "See its schema settings; compacted topics need keys."),
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

"""What can go wrong between a pipeline and the node. Every one passes between processes."""

from __future__ import annotations

from typing import Any

from goqueue.pipeline.link.place import Place


class PipelineError(Exception):
    """Root of the family. The text says what to do."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take other arguments; without this none of them could pass between processes.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class TopicNotFound(PipelineError):
    """The topic or partition is not there, or is there no more."""

    def __init__(self, topic: str, told: str | None = None) -> None:
        super().__init__(told or f"There is no topic {topic!r}; create it, or correct the name.")
        self.topic = topic


class OffsetOutOfLog(PipelineError):
    """The log no longer holds an offset that was asked for; `first` is where it begins now."""

    def __init__(self, place: Place, wanted: int, first: int, told: str | None = None) -> None:
        super().__init__(
            told
            or f"Offset {wanted} of {place} is gone: the log begins at {first} now, as retention overtook the reader. "
            "Keep messages longer (retention.ms), read sooner, or accept the gap with failOnDataLoss=false."
        )
        self.place = place
        self.wanted = wanted
        self.first = first


class NodeUnreachable(PipelineError):
    """Nobody answered at the address for as long as we were willing to wait."""

    def __init__(self, address: str, waited_s: float, why: str) -> None:
        super().__init__(
            f"No node answered at {address} for {waited_s:g} s ({why}). Check that it runs, and that this is the "
            "address of its Kafka door as seen from here."
        )
        self.address = address


class BrokerRefused(PipelineError):
    """The node answered with an error; `code` is Kafka's number for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Fenced(BrokerRefused):
    """Another attempt at the same rows took over; what this one wrote will never be seen."""


class CorruptData(PipelineError):
    """Stored records are not what they should be."""

    def __init__(self, place: Place, offset: int, why: str) -> None:
        super().__init__(
            f"The records of {place} at offset {offset} cannot be read: {why} Look at the node's log for damage, or "
            "for a producer that wrote them so; to leave them out, set failOnDataLoss to false."
        )
        self.place = place
        self.offset = offset

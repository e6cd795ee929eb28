"""One setting as Kafka's tools see it: value, type, where the value comes from, and what it would be otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from goqueue.base.commands import Caller
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

BOOLEAN, STRING, INT, _SHORT, LONG, DOUBLE, LIST, _CLASS, PASSWORD = range(1, 10)
TOPIC_SOURCE: Final = 1  # a setting that the topic's owner made
NODE_SOURCE: Final = 2  # set for this node while it ran
CLUSTER_SOURCE: Final = 3  # set for all nodes while they ran
STATIC_SOURCE: Final = 4  # what the node was started with
DEFAULT_SOURCE: Final = 5
LOGGER_SOURCE: Final = 6
GROUP_SOURCE: Final = 8

Changes = Mapping[str, str | None]  # None takes a value back to its default


class Synonym(msgspec.Struct, frozen=True):
    """A value that holds, or would hold if those before it were taken back."""

    name: str
    value: str
    source: int


class ConfigEntry(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str | None
    source: int = DEFAULT_SOURCE
    type: int = STRING
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()
    doc: str | None = None

    def told(self, synonyms: bool, documented: bool) -> DescribeConfigsResourceResult:
        shown = self.synonyms if synonyms and not self.sensitive else ()
        return DescribeConfigsResourceResult(
            name=self.name,
            value=None if self.sensitive else self.value,
            read_only=self.read_only,
            config_source=self.source,
            is_sensitive=self.sensitive,
            synonyms=[DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in shown],
            config_type=self.type,
            documentation=self.doc if documented else None,
        )


class Resource(Protocol):
    """One of Kafka's kinds of resources that have settings. All of it may raise error words."""

    def names(self, caller: Caller) -> Iterable[str]:
        """Those there are, or that something is set for."""

    def entries(self, name: str, call: KafkaCall) -> list[ConfigEntry]: ...

    async def alter(self, caller: Caller, name: str, changes: Changes, *, is_whole: bool, only_check: bool) -> None:
        """`is_whole` takes everything back that is not named."""


def guessed_type(value: str) -> int:
    """For settings that Kafka does not know."""
    if value in ("true", "false"):
        return BOOLEAN
    if value.lstrip("-").isdecimal():
        return LONG
    return DOUBLE if value.replace(".", "", 1).isdecimal() else STRING

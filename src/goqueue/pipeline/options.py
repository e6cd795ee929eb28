"""The options of the connector, for reading and for writing: those of Spark's Kafka source and sink, and some of ours.

Names count without regard to case, as everywhere in Spark. What is not known is an error, and the error names the
nearest thing that is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.pipeline.link.identity import (
    CA_FILE,
    CERT_FILE,
    CERT_KEY_FILE,
    KEY_FILE,
    PLAIN,
    NodeIdentity,
    with_identity,
)
from goqueue.pipeline.source import kafka_settings
from goqueue.pipeline.source.edges import Edge, StartingOffsets, parse_edge
from goqueue.pipeline.source.errors import BadOption, unknown
from goqueue.pipeline.source.offsets import EARLIEST, LATEST
from goqueue.pipeline.source.subscription import WAYS, SourceSubscription, parse_subscription

log = logging.getLogger("goqueue.pipeline")

Side = Literal["read", "write"]
Use = Literal["batch", "stream"]

_DOORS: Final = ("kafka.bootstrap.servers", "url")
_WHO: Final = (KEY_FILE, CA_FILE, CERT_FILE, CERT_KEY_FILE, "kafka.security.protocol", "kafka.sasl.mechanism")
_RACK: Final = "kafka.client.rack"
_ENDING: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_PACE: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
# Known to Spark's Kafka source, and without meaning here.
_IDLE: Final = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix")
READ: Final = (
    *_DOORS,
    *_WHO,
    _RACK,
    *WAYS,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    *_ENDING,
    *_PACE,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "group.id",
    "kafka.group.id",
    "isolation",
    "kafka.isolation.level",
    "includeHeaders",
    "includeMetadata",
    "columns",
    "schema",
    "mode",
    "pushFilters",
    *_IDLE,
)
# Spark hands its own options of a write to the sink as well.
WRITE: Final = (*_DOORS, *_WHO, "topic", "txnAppId", "txnVersion", "includeHeaders", "checkpointLocation", "queryName")
_BY_SIDE: Final[Mapping[Side, tuple[str, ...]]] = {"read": READ, "write": WRITE}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asked for, in our words. Of the doors one is enough; the other is asked of the node.

    `start` and `end` are None where the user said nothing: then it depends on the use. `patience_ms` is how long a node
    that is away is waited for, `first_answer_ms` one that has never answered; the user may set both as one.
    """

    kafka: str | None = None
    url: str | None = None
    # --- reading ------------------------------------------------------------------------------------------------
    what: SourceSubscription = SourceSubscription()
    start: Edge | None = None
    end: Edge | None = None
    unmatched: str = "error"
    offsets_max: int | None = None
    offsets_min: int | None = None
    trigger_delay_ms_max: int = 900_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_loss: bool = True
    patience_ms: int = 120_000
    first_answer_ms: int = 5_000
    group: str | None = None
    isolation: str = "read_committed"
    headers: bool = False
    metadata: bool = False
    columns: tuple[str, ...] | None = None
    typed: bool = False
    keep_corrupt: bool = False
    push_filters: bool = False
    # --- writing ------------------------------------------------------------------------------------------------
    topic: str | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None


def read_options(given: Mapping[str, str], use: Use | None = None) -> Options:
    """`BadOption` for what is unknown, contradicts itself, or makes no sense in this use, as far as that is known."""
    named = _named(given, "read")
    if use is not None:
        _check_use(named, use)
    kafka, url = _doors(named)
    options = Options(
        kafka=kafka,
        url=url,
        what=parse_subscription(named),
        start=parse_edge(named, "starting"),
        end=parse_edge(named, "ending"),
        unmatched=_one_of(named, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"),
        offsets_max=_count(named, "maxOffsetsPerTrigger"),
        offsets_min=_count(named, "minOffsetsPerTrigger"),
        trigger_delay_ms_max=_duration_ms(named, "maxTriggerDelay", "15m"),
        min_partitions=_count(named, "minPartitions"),
        max_records_per_partition=_count(named, "maxRecordsPerPartition"),
        fail_on_loss=_flag(named, "failOnDataLoss", True),
        patience_ms=_count(named, "kafkaConsumer.pollTimeoutMs") or 120_000,
        first_answer_ms=_count(named, "kafkaConsumer.pollTimeoutMs") or 5_000,
        group=_agreed(named, "group.id", "kafka.group.id"),
        isolation=_isolation(named),
        headers=_flag(named, "includeHeaders", False),
        metadata=_flag(named, "includeMetadata", False),
        columns=_list(named, "columns"),
        typed=_one_of(named, "schema", ("bytes", "registry"), "bytes") == "registry",
        keep_corrupt=_one_of(named, "mode", ("failfast", "permissive"), "failfast") == "permissive",
        push_filters=_flag(named, "pushFilters", False),
    )
    _check_edges(options, use)
    _check_pace(options)
    _check_types(options, named)
    return options


def write_options(given: Mapping[str, str]) -> Options:
    """`BadOption` for what is unknown or contradicts itself."""
    named = _named(given, "write")
    version = _count(named, "txnVersion", least=0)
    app = named.get("txnAppId")
    if (version is None) != (app is None):
        raise BadOption("txnAppId and txnVersion go together: the name of the job, and a number that grows each time.")
    kafka, url = _doors(named)
    return Options(kafka=kafka, url=url, topic=named.get("topic"), txn_app_id=app, txn_version=version)


# --- names --------------------------------------------------------------------------------------------------------


def _named(given: Mapping[str, str], side: Side) -> dict[str, str]:
    """The options under their proper names; what tunes Kafka's own client is noted and left out."""
    proper = {name.lower(): name for name in _BY_SIDE[side]}
    named: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in proper:
            if name.lower().startswith("kafka."):
                _check_refusal(name.lower().removeprefix("kafka."), value)
            named[proper[name.lower()]] = value
        elif name.lower().startswith("kafka."):
            _check_setting(name.lower().removeprefix("kafka."), value)
        else:
            raise _unknown(name, side)
    for idle in sorted(named.keys() & set(_IDLE)):
        log.info("The option %s changes nothing here.", idle)
    return named


def is_of_other_side(name: str, side: Side) -> bool:
    """Whether reads know the option and writes do not, or the other way round."""
    other: Side = "write" if side == "read" else "read"
    here, there = ({one.lower() for one in _BY_SIDE[which]} for which in (side, other))
    return name.lower() in there - here


def _unknown(name: str, side: Side) -> BadOption:
    instead = "subscribe" if side == "read" else "topic"
    if name.lower() == "path":
        return BadOption(f"Topics have no path; name them with the option {instead!r} and call load() or save() bare.")
    if is_of_other_side(name, side):
        verb = "writing" if side == "read" else "reading"
        return BadOption(f"The option {name!r} is for {verb}; leave it out. Here topics are named by {instead!r}.")
    return unknown("option", name, _BY_SIDE[side])


def _check_setting(setting: str, value: str) -> None:
    _check_refusal(setting, value)
    if setting not in kafka_settings.KNOWN:
        raise unknown("option", f"kafka.{setting}", (f"kafka.{one}" for one in kafka_settings.KNOWN))
    log.info("The option kafka.%s tunes Kafka's own client and changes nothing here.", setting)


def _check_refusal(setting: str, value: str) -> None:
    error = kafka_settings.refusal(setting, value)
    if error is not None:
        raise BadOption(f"The option 'kafka.{setting}' cannot be taken: {error}.")


# --- values -------------------------------------------------------------------------------------------------------


def _doors(named: Mapping[str, str]) -> tuple[str | None, str | None]:
    kafka, url = (named.get(door, "").strip() or None for door in _DOORS)
    if kafka is None and url is None:
        raise BadOption(
            "Say where the node is: kafka.bootstrap.servers like 'localhost:9092', or url like 'http://localhost:8080'."
        )
    who = _identity(named, url or "")
    return kafka and with_identity(kafka, who), url and with_identity(url, who)


def _identity(named: Mapping[str, str], url: str) -> NodeIdentity:
    protocol = named.get("kafka.security.protocol", "").strip().upper()
    tls = protocol.endswith("SSL") or (not protocol and url.startswith("https://"))
    mechanism = named.get("kafka.sasl.mechanism", PLAIN).strip().upper()
    key, ca, cert, cert_key, rack = (
        named.get(name, "").strip() for name in (KEY_FILE, CA_FILE, CERT_FILE, CERT_KEY_FILE, _RACK)
    )
    if cert_key and not cert:
        raise BadOption("The option 'certKeyFile' is the private key of a certificate; name that by 'certFile'.")
    return NodeIdentity(key, ca, tls, mechanism, cert, cert_key, rack)


def _flag(named: Mapping[str, str], name: str, default: bool) -> bool:
    return _one_of(named, name, ("true", "false"), str(default).lower()) == "true"


def _one_of(named: Mapping[str, str], name: str, words: tuple[str, ...], default: str) -> str:
    word = named.get(name, default).strip().lower()
    if word not in words:
        raise BadOption(f"The option {name!r} is {' or '.join(words)}, not {named[name]!r}.")
    return word


def _count(named: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = named.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or not least <= int(text) < 1 << 63:
        raise BadOption(f"The option {name!r} is a whole number from {least} on, not {text!r}.")
    return int(text)


def _duration_ms(named: Mapping[str, str], name: str, default: str) -> int:
    text = named.get(name, default).strip().lower()
    try:
        # Spark also writes minutes as `min`.
        return parse_duration_ms(text.removesuffix("in") if text.endswith("min") else text, name)
    except InvalidField as error:
        raise BadOption(f"The option {name!r}: {error}") from None


def _agreed(named: Mapping[str, str], *names: str) -> str | None:
    """One thing under two names; they may not contradict each other."""
    told = {named[name].strip() for name in names if named.get(name, "").strip()}
    if len(told) > 1:
        raise BadOption(f"{' and '.join(names)} mean the same and say different things; leave one out.")
    return next(iter(told), None)


def _isolation(named: Mapping[str, str]) -> str:
    told = _agreed(named, "isolation", "kafka.isolation.level")
    return _one_of({"isolation": told} if told else {}, "isolation", _ISOLATIONS, "read_committed")


def _list(named: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    if name not in named:
        return None
    return tuple(one.strip() for one in named[name].split(",") if one.strip())


_ISOLATIONS: Final = ("read_committed", "read_uncommitted")


# --- sense --------------------------------------------------------------------------------------------------------


def _check_use(named: Mapping[str, str], use: Use) -> None:
    if use == "stream":
        for name in (*_ENDING, "pushFilters"):
            if name in named:
                raise BadOption(f"A stream has no end to be told, and plans no filters; {name!r} is for spark.read.")
        return
    for name in _PACE:
        if name in named:
            log.warning("The option %s is for streams and changes nothing in a batch read.", name)


def _check_edges(options: Options, use: Use | None) -> None:
    """A batch cannot begin at the end, nor end at the beginning: it would be empty for sure."""
    if use == "batch" and _says(options.start, "latest", LATEST):
        raise BadOption("A batch read cannot start at 'latest' (or -1), as nothing would be read; start 'earliest'.")
    if _says(options.end, "earliest", EARLIEST):
        raise BadOption("A read cannot end at 'earliest' (or -2), as nothing would be read; end at 'latest'.")


def _says(edge: Edge | None, word: str, number: int) -> bool:
    return edge == word or (isinstance(edge, StartingOffsets) and number in edge.each.values())


def _check_pace(options: Options) -> None:
    least, most = options.offsets_min, options.offsets_max
    if least is not None and most is not None and least > most:
        raise BadOption(f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most}).")


def _check_types(options: Options, named: Mapping[str, str]) -> None:
    if "mode" in named and not options.typed:
        raise BadOption("The option 'mode' says what to do with values that do not fit; it needs schema=registry.")
    if options.typed and options.columns is not None and "value" not in options.columns:
        raise BadOption("schema=registry gives the column 'value' a type; name it among the columns, or leave it out.")

"""The node's settings: one TOML file, `GOQUEUE_*` variables, flags.

A flag wins over a variable, a variable over the file, the file over the default. Everything is read and checked once;
all mistakes are reported together. A setting `section.key` is `GOQUEUE_SECTION_KEY` in the environment. Keys that
end in `_ms` take durations (`168h`), keys that end in `_bytes` take sizes (`64MiB`), both also plain numbers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from goqueue.base.choices import choices_at, listed
from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.errors import InvalidField, InvalidName
from goqueue.base.grpc_settings import GrpcSettings
from goqueue.base.http_settings import HttpSettings
from goqueue.base.kafka_settings import KafkaSettings
from goqueue.base.limits import MIB
from goqueue.base.log_settings import LogSettings
from goqueue.base.names import check_name
from goqueue.base.node_number import number_in_hostname, rack_in, with_number
from goqueue.base.node_settings import NodeSettings
from goqueue.base.otlp_settings import MetricSettings, otlp_mistakes
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.startup_errors import SettingsInvalid
from goqueue.base.times import parse_duration_ms
from goqueue.base.topic_config import CONFIG_KEYS, TopicConfig

Doc = msgspec.Meta
ENV_PREFIX: Final = "GOQUEUE_"
CLIENT_VARIABLES: Final = frozenset(
    f"GOQUEUE_{one}"
    for one in ("SERVER", "CONTEXT", "KEY", "KEY_FILE", "CA_FILE", "CERT_FILE", "CERT_KEY_FILE", "RACK")
)  # read by clients, not by the node

_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB)?")
_UNITS = {None: 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


class DataSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dir: Annotated[str, Doc(description="Where everything durable lives.")] = "./data"


class RestSettings(HttpSettings, frozen=True, forbid_unknown_fields=True):
    listen: Annotated[
        str, Doc(description="Address of the REST door, `HOST:PORT` or `off`; port 0 picks a free one.")
    ] = "127.0.0.1:8080"
    body_bytes_max: Annotated[int, Doc(ge=1, description="Largest request body.")] = 64 * MIB
    body_bytes_total_max: Annotated[
        int, Doc(ge=1, description="Request bodies held in memory at once; beyond it requests get 503.")
    ] = 256 * MIB
    poll_ms_max: Annotated[int, Doc(ge=0, description="Longest long poll.")] = 30_000
    drain_ms: Annotated[int, Doc(ge=0, description="How long a stopping node waits for requests in progress.")] = 10_000
    console_read_only: Annotated[bool, Doc(description="Whether the page lacks what changes things.")] = False


class SqsSettings(HttpSettings, frozen=True, forbid_unknown_fields=True):
    listen: Annotated[str, Doc(description="Address of SQS's door, `HOST:PORT` or `off`; port 0 picks a free one.")] = (
        "127.0.0.1:9324"
    )
    group: Annotated[
        str, Doc(description="The group that all consumers of SQS share: its acks are what a queue has left.")
    ] = "sqs"
    region: Annotated[str, Doc(description="The region in the queues' ARNs.")] = "us-east-1"
    body_bytes_max: Annotated[int, Doc(ge=1, description="Largest request body.")] = 8 * MIB
    body_bytes_total_max: Annotated[
        int, Doc(ge=1, description="Request bodies held in memory at once; beyond it requests are throttled.")
    ] = 256 * MIB
    deduplication_ids_max: Annotated[
        int,
        Doc(
            ge=1,
            description="Deduplication ids of FIFO queues remembered at once; beyond it sends to them are throttled.",
        ),
    ] = 500_000


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: Annotated[int, Doc(ge=1, le=10_000, description="Partitions of a topic created without a count.")] = 3
    auto_create: Annotated[
        Literal["off", "kafka", "all"],
        Doc(
            description="Who gets a topic that does not exist made: nobody, Kafka clients that ask for its metadata, "
            "or publishers at every door."
        ),
    ] = "kafka"
    retention_ms: Annotated[int, Doc(ge=-1, description="Default of `retention.ms`.")] = TopicConfig().retention_ms
    retention_bytes: Annotated[int, Doc(ge=-1, description="Default of `retention.bytes`.")] = -1
    segment_bytes: Annotated[int, Doc(ge=1024, description="Default of `segment.bytes`.")] = TopicConfig().segment_bytes
    max_message_bytes: Annotated[int, Doc(ge=1, description="Default of `max.message.bytes`.")] = (
        TopicConfig().max_message_bytes
    )

    def defaults(self, min_insync_replicas: int = 1, unclean: bool = False) -> TopicConfig:
        """The node's defaults for what topics leave unsaid."""
        return TopicConfig(
            unclean_leader_election_enable="true" if unclean else "false",
            min_insync_replicas=min_insync_replicas,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            segment_bytes=self.segment_bytes,
            max_message_bytes=self.max_message_bytes,
        )


class GroupsSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    session_ms: Annotated[int, Doc(ge=1, description="Session of REST members that do not say.")] = 30_000
    session_ms_min: Annotated[int, Doc(ge=1, description="Shortest session that a member may ask for.")] = 6_000
    session_ms_max: Annotated[int, Doc(ge=1, description="Longest session that a member may ask for.")] = 1_800_000
    heartbeat_ms: Annotated[int, Doc(ge=1, description="How often members of the server-side protocol report.")] = 3_000
    initial_rebalance_delay_ms: Annotated[
        int, Doc(ge=0, description="How long the first rebalance of an empty classic group waits for more members.")
    ] = 0
    members_max: Annotated[int, Doc(ge=1, description="Members of one group.")] = 2_000
    group_bytes_max: Annotated[
        int,
        Doc(
            ge=1,
            description="Memory of one group's members: what they say about themselves and what they are assigned.",
        ),
    ] = 16 * 1024 * 1024
    groups_max: Annotated[int, Doc(ge=1, description="Groups of the node, with members or with offsets alone.")] = (
        50_000
    )
    offsets_retention_ms: Annotated[
        int, Doc(ge=1, description="How long the offsets of a group without members are kept.")
    ] = 7 * 24 * 3_600_000


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    in_flight_max: Annotated[
        int, Doc(ge=1, description="Messages that one consumer may hold at once without having answered for them.")
    ] = 1_000


class TransactionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    timeout_ms: Annotated[int, Doc(ge=1, description="Time that a transaction gets if its producer does not say.")] = (
        60_000
    )
    timeout_ms_max: Annotated[int, Doc(ge=1, description="Longest time that a producer may ask for.")] = 900_000
    session_ms: Annotated[
        int, Doc(ge=1, description="How long a REST producer may be silent before its open transaction is aborted.")
    ] = 30_000
    idle_ms: Annotated[int, Doc(ge=1, description="How long a transactional id without a transaction is kept.")] = (
        7 * 24 * 3_600_000
    )
    staged_timeout_ms: Annotated[
        int, Doc(ge=1, description="How long a staged writer may be silent if it does not say.")
    ] = 3_600_000
    staged_timeout_ms_max: Annotated[
        int, Doc(ge=1, description="Longest silence that a staged writer may ask for.")
    ] = 24 * 3_600_000
    owner_retention_ms: Annotated[
        int, Doc(ge=1, description="How long the last batch of an owner of staged sets is remembered after its commit.")
    ] = 90 * 24 * 3_600_000
    sync: Annotated[
        Literal["log", "always"],
        Doc(
            description="What the end of a transaction waits for: `log` is what `log.fsync` says, `always` the disk, so"
            " that a power cut leaves no part of one."
        ),
    ] = "log"


class TraceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    record: Annotated[
        Literal["on", "off"], Doc(description="Whether messages are traced at all; `off` does not look at any.")
    ] = "on"
    sample_rate: Annotated[
        float,
        Doc(ge=0, le=1, description="Share of messages that are traced; what a producer marks as sampled always is."),
    ] = 0.0
    ring_max: Annotated[int, Doc(ge=1, le=1_000_000, description="Traces kept in memory.")] = 10_000
    files_max: Annotated[
        int, Doc(ge=0, le=1_000, description="Files of traces kept in the data directory; 0 writes none.")
    ] = 10
    file_bytes: Annotated[int, Doc(ge=4096, description="A file of traces is closed at this size.")] = 10 * MIB
    retention_ms: Annotated[int, Doc(ge=1, description="How long files of traces are kept.")] = 168 * 3_600_000
    stdout: Annotated[Literal["on", "off"], Doc(description="Whether events are written to standard output.")] = "off"
    otlp_endpoint: Annotated[
        str, Doc(description="URL of an OpenTelemetry collector (OTLP over HTTP), like `http://localhost:4318`.")
    ] = ""
    otlp_headers: Annotated[str, Doc(description="Headers for the collector, `name=value` with commas between.")] = ""


class LoggingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Doc(description="Least severe line that is written.")
    ] = "info"
    format: Annotated[
        Literal["auto", "human", "json"],
        Doc(description="`auto` is human on a terminal and JSON otherwise."),
    ] = "auto"


class Settings(msgspec.Struct, frozen=True):
    """All settings, by section."""

    node: NodeSettings = NodeSettings()
    cluster: ClusterSettings = ClusterSettings()
    data: DataSettings = DataSettings()
    rest: RestSettings = RestSettings()
    kafka: KafkaSettings = KafkaSettings()
    sqs: SqsSettings = SqsSettings()
    grpc: GrpcSettings = GrpcSettings()
    log: LogSettings = LogSettings()
    topics: TopicSettings = TopicSettings()
    groups: GroupsSection = GroupsSection()
    queue: QueueSettings = QueueSettings()
    transactions: TransactionSettings = TransactionSettings()
    traces: TraceSettings = TraceSettings()
    metrics: MetricSettings = MetricSettings()
    security: SecuritySettings = SecuritySettings()
    logging: LoggingSettings = LoggingSettings()


class SettingKey(msgspec.Struct, frozen=True):
    """One setting, for documentation and for reading it."""

    section: str
    name: str
    type: Any
    default: object
    doc: str

    @property
    def dotted(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        return f"{ENV_PREFIX}{self.section}_{self.name}".upper()


def setting_keys() -> Iterator[SettingKey]:
    """Every setting there is, in order."""
    for section in msgspec.structs.fields(Settings):
        for field in msgspec.structs.fields(section.type):
            meta = next(part for part in get_args(field.type) if isinstance(part, msgspec.Meta))
            yield SettingKey(section.name, field.name, field.type, field.default, meta.description or "")


def load_settings(
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, str],
    hostname: str = "",
) -> Settings:
    """Reads the three sources; the node's number may come from `hostname`. Raises `SettingsInvalid` with every mistake
    found."""
    mistakes: list[str] = []
    keys = {key.dotted: key for key in setting_keys()}
    given = _from_file(file, keys, mistakes)
    given |= _from_environ(environ, keys, mistakes)
    given |= {dotted: (f"flag for {dotted}", value) for dotted, value in flags.items()}
    sections: dict[str, dict[str, object]] = {}
    for dotted, (source, raw) in given.items():
        key = keys[dotted]
        try:
            sections.setdefault(key.section, {})[key.name] = _convert(key, raw)
        except (msgspec.ValidationError, InvalidField, ValueError) as error:
            mistakes.append(f"{source}: {raw!r}: {error}")
    settings = _numbered(msgspec.convert(sections, Settings), hostname, mistakes)
    mistakes += _contradictions(settings)
    if mistakes:
        listed = "\n".join(f"  - {mistake}" for mistake in mistakes)
        raise SettingsInvalid(f"Settings are not right:\n{listed}", mistakes=mistakes)
    return settings


def _numbered(settings: Settings, hostname: str, mistakes: list[str]) -> Settings:
    """The node's number and rack may come from elsewhere; addresses that it advertises may have its number in them."""
    node, kafka, cluster = settings.node, settings.kafka, settings.cluster
    if node.id_from == "hostname":
        try:
            node = msgspec.structs.replace(node, id=number_in_hostname(hostname))
        except ValueError as error:
            mistakes.append(f"node.id_from: {error}")
    try:
        rack = rack_in(cluster.rack_file) if cluster.rack_file else cluster.rack
    except (OSError, ValueError) as error:
        rack = ""
        mistakes.append(f"cluster.rack_file: {error}")
    return msgspec.structs.replace(
        settings,
        node=msgspec.structs.replace(node, host=with_number(node.host, node.id)),
        kafka=msgspec.structs.replace(
            kafka,
            advertised=with_number(kafka.advertised, node.id),
            external_advertised=with_number(kafka.external_advertised, node.id),
        ),
        cluster=msgspec.structs.replace(cluster, advertised=with_number(cluster.advertised, node.id), rack=rack),
    )


Given = dict[str, tuple[str, object]]


def _from_file(file: Path | None, keys: Mapping[str, SettingKey], mistakes: list[str]) -> Given:
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        mistakes.append(f"{file}: cannot be read: {error}")
        return {}
    given: Given = {}
    for section, entries in table.items():
        if not isinstance(entries, dict):
            mistakes.append(f"{file}: {section} must stand in a section, as [section] and a key below it")
            continue
        for name, value in entries.items():
            if (dotted := f"{section}.{name}") in keys:
                given[dotted] = (f"{file}: {dotted}", value)
            else:
                mistakes.append(f"{file}: {dotted} is unknown{_nearest(dotted, keys)}")
    return given


def _from_environ(environ: Mapping[str, str], keys: Mapping[str, SettingKey], mistakes: list[str]) -> Given:
    variables = {key.variable: dotted for dotted, key in keys.items()}
    given: Given = {}
    for name, value in sorted(environ.items()):
        if not name.startswith(ENV_PREFIX) or name in CLIENT_VARIABLES:
            continue
        if name in variables:
            given[variables[name]] = (name, value)
        else:
            mistakes.append(f"{name} is unknown{_nearest(name, variables)}")
    return given


def _nearest(word: str, known: Mapping[str, object]) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _convert(key: SettingKey, raw: object) -> object:
    if isinstance(raw, str) and key.name.endswith(("_ms", "_ms_max", "_ms_min")) and raw != "-1":
        raw = parse_duration_ms(raw, key.dotted)
    if isinstance(raw, str) and key.name.endswith(("_bytes", "_bytes_max", "_total_max")) and raw != "-1":
        raw = parse_size(raw)
    if (words := choices_at(key.type, "")) and raw not in words:
        raise ValueError(f"is not one of the choices; use {listed(words)}")
    return msgspec.convert(raw, key.type, strict=not isinstance(raw, str))


def parse_size(text: str) -> int:
    """Bytes of `64MiB` and the like."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("is not a size; write it like 65536, 64KiB or 16MiB")
    return int(match[1]) * _UNITS[match[2]]


def parse_address(text: str) -> tuple[str, int] | None:
    """`HOST:PORT` as a pair, `off` as None; `ValueError` otherwise."""
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT or off")
    return host.strip("[]") or "0.0.0.0", int(port)


def _contradictions(settings: Settings) -> list[str]:
    found = [*settings.security.mistakes(), *settings.cluster.mistakes()]
    if not settings.data.dir:
        found.append("data.dir: it is empty; name a directory, like ./data")
    addresses = {
        "rest.listen": settings.rest.listen,
        "kafka.listen": settings.kafka.listen,
        "kafka.external_listen": settings.kafka.external_listen,
        "sqs.listen": settings.sqs.listen,
        "grpc.listen": settings.grpc.listen,
        "cluster.listen": settings.cluster.listen,
    }
    advertised = {
        "kafka.advertised": settings.kafka.advertised,
        "kafka.external_advertised": settings.kafka.external_advertised,
        "cluster.advertised": settings.cluster.advertised,
    }
    addresses |= {name: address for name, address in advertised.items() if address}
    for name, address in addresses.items():
        try:
            parse_address(address)
        except ValueError as error:
            found.append(f"{name}: {error}")
    for door, one in (("rest", settings.rest), ("sqs", settings.sqs)):
        if one.body_bytes_total_max < one.body_bytes_max:
            found.append(f"{door}.body_bytes_total_max must be at least {door}.body_bytes_max")
    if settings.transactions.staged_timeout_ms_max < settings.transactions.staged_timeout_ms:
        found.append("transactions.staged_timeout_ms_max must be at least transactions.staged_timeout_ms")
    found += otlp_mistakes("traces", settings.traces.otlp_endpoint, settings.traces.otlp_headers)
    found += otlp_mistakes("metrics", settings.metrics.otlp_endpoint, settings.metrics.otlp_headers)
    try:
        check_name(settings.sqs.group, "group")
    except InvalidName as error:
        found.append(f"sqs.group: {error.message}")
    found += settings.kafka.mistakes(settings.node.processes)
    if settings.cluster.store and settings.node.processes > 1:
        found.append("node.processes: several processes keep their metadata together, without cluster.store; give one")
    if not re.fullmatch(r"[a-z0-9-]{1,64}", settings.sqs.region):
        found.append(f"sqs.region: {settings.sqs.region!r} is not a region; write it like us-east-1")
    for name in ("retention.ms", "retention.bytes", "segment.bytes", "max.message.bytes"):
        value = getattr(settings.topics, name.replace(".", "_"))
        try:
            CONFIG_KEYS[name].parse(str(value))
        except ValueError as error:
            found.append(f"topics.{name.replace('.', '_')}: {value}: {error}")
    return found

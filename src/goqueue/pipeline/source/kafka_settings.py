"""The `kafka.*` options: settings of Kafka's own clients, which jobs made for Spark's Kafka source may bring along."""

from __future__ import annotations

from typing import Final

from goqueue.pipeline.link.identity import MECHANISMS

# They tune the client that is not in use here, so they are taken and change nothing.
CONSUMER: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "internal.leave.group.on.close",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
PRODUCER: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "retries",
        "transaction.timeout.ms",
    }
)
COMMON: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
# They would change what is read or written, so they are refused, as Spark's own source does.
REFUSED: Final = {
    "auto.offset.reset": "set startingOffsets to 'earliest' or 'latest' instead; resuming goes by the checkpoint",
    "enable.auto.commit": "leave it out; with group.id the progress of the query is shown in that group",
    "interceptor.classes": "leave it out and change rows with DataFrame operations",
    "key.deserializer": "keys are binary; leave it out and cast or decode the column",
    "value.deserializer": "values are binary; leave it out and cast or decode the column, or set schema=registry",
    "key.serializer": "leave it out and cast the column to binary or string",
    "value.serializer": "leave it out and cast the column to binary or string",
    "partitioner.class": "leave it out; to choose partitions, give the rows a column 'partition'",
    "transactional.id": "leave it out; every write is a transaction of the query already",
}
# What they say is in plans, logs and pages of Spark, so secrets are in files, which two options of ours name.
_SECRETS: Final = (
    "leave it out: put ID.SECRET of an API key, USER:PASSWORD or a signed token into a file, and name that by keyFile"
)
_TRUST: Final = "leave it out: name a file with the authority's certificate, in PEM, by caFile"
_SHOWN: Final = (
    "leave it out: name files with the client's certificate and its key, in PEM, by certFile and certKeyFile"
)
_OWN_CERTIFICATE: Final = ("ssl.key.", "ssl.keystore.")
_SECURITY: Final = ("sasl.", "ssl.", "security.providers")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SECURITY: Final = frozenset({"security.protocol", "sasl.mechanism"})  # they mean something here
# Jobs have one set of them for reading and writing, so each side takes the other's as well.
KNOWN: Final = COMMON | CONSUMER | PRODUCER | REFUSED.keys() | {"bootstrap.servers"} | SECURITY


def refusal(setting: str, value: str) -> str | None:
    """Why a setting cannot be taken; None if it can."""
    if setting in REFUSED:
        return REFUSED[setting]
    if setting == "security.protocol":
        return None if value.strip().upper() in _PROTOCOLS else f"it is one of {', '.join(_PROTOCOLS)}"
    if setting == "sasl.mechanism":
        return None if value.strip().upper() in MECHANISMS else f"it is one of {', '.join(MECHANISMS)}"
    if setting.startswith("sasl."):
        return _SECRETS
    if setting.startswith(_OWN_CERTIFICATE):
        return _SHOWN
    return _TRUST if setting.startswith(_SECURITY) else None

"""Of each coordinator that a host runs: its internal topic, that topic's settings, and how its records are stored."""

from __future__ import annotations

from typing import Final, TypeAlias

from goqueue.base.limits import MIB
from goqueue.core.groups.coordinator import Coordinator
from goqueue.core.groups.records import Record as GroupRecord
from goqueue.core.groups.records import decode_record as decode_group
from goqueue.core.groups.records import encode_record as encode_group
from goqueue.core.schemas.records import Record as SchemaRecord
from goqueue.core.schemas.records import decode_record as decode_schema
from goqueue.core.schemas.records import encode_record as encode_schema
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.records import Record as TransactionRecord
from goqueue.core.txn.records import decode_record as decode_transaction
from goqueue.core.txn.records import encode_record as encode_transaction
from goqueue.drive.host import Host
from goqueue.drive.host_parts import Codec, keyed_codec

SCHEMAS_TOPIC: Final = "__goqueue_schemas"
SCHEMAS_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * MIB)}
SCHEMAS_CODEC: Codec[SchemaRecord] = keyed_codec("schemas", encode_schema, decode_schema)

TRANSACTIONS_TOPIC: Final = "__transaction_state"  # where Kafka's tools expect such things
TRANSACTIONS_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * MIB)}
TRANSACTIONS_CODEC: Codec[TransactionRecord] = keyed_codec("transactions", encode_transaction, decode_transaction)
TransactionHost: TypeAlias = Host[Transactions, TransactionRecord]

GROUPS_TOPIC: Final = "__consumer_offsets"  # where Kafka's tools expect such things
GROUPS_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * MIB)}
GROUPS_CODEC: Codec[GroupRecord] = keyed_codec("groups", encode_group, decode_group)
GroupHost: TypeAlias = Host[Coordinator, GroupRecord]

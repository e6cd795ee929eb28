"""Every hard limit, in one place. Going over one is an error word, never a surprise."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

NAME_CHARS_MAX: Final = 249
PARTITIONS_PER_TOPIC_MAX: Final = 10_000
GONE_TOPICS_MAX: Final = 1_000  # deleted ones of which a cluster remembers the ids
MESSAGES_PER_PUBLISH_MAX: Final = 10_000
RECORD_FAILURES_MAX: Final = 100  # records of one batch that are named as refused
RECORDS_LOOKED_AT_MAX: Final = 10_000  # of one batch, to say which are at fault
LOOKED_AT_BYTES_MAX: Final = 4 * MIB  # that such a batch may unfold to
HEADERS_PER_MESSAGE_MAX: Final = 1_000
MESSAGES_PER_READ_MAX: Final = 10_000

# Batches. A batch never outgrows a segment's 32-bit positions. A compressed one unfolds to at most so many times its
# size, or, if it is small, to so much; never past the last of these.
BATCH_BYTES_MAX: Final = 512 * MIB
DECOMPRESSED_TIMES_MAX: Final = 4
DECOMPRESSED_SMALL_BYTES_MAX: Final = 64 * MIB
DECOMPRESSED_BYTES_MAX: Final = 256 * MIB
RECORD_BYTES_MIN: Final = 7  # its length, attributes, time, offset, the sizes of key and value, no headers
RECORDS_PER_BATCH_MAX: Final = 1_000_000
HEADERS_PER_RECORD_MAX: Final = 10_000  # of one that no REST client sent
DECODE_SLICE_RECORDS: Final = 1_000  # records are decoded in slices of so many, or of so many bytes, or of one
DECODE_SLICE_BYTES: Final = 64 * KIB
DECODE_WINDOW_RECORDS: Final = 50_000  # as many are kept ready of a batch that is larger
DECODE_WINDOW_BYTES: Final = 4 * MIB
DECODE_HERE_RECORDS: Final = 20_000  # a batch with more is unfolded and cut off the loop
DECODE_HERE_BYTES: Final = 1 * MIB
DECODES_AT_ONCE: Final = 2  # off the loop, node-wide: what bounds the memory that they take
DELAYED_PER_BATCH_MAX: Final = 10_000
DELAYED_PAGES_MAX: Final = 2  # listings that ask the indexes at once: what is due waits behind them
BUILD_BATCH_BYTES: Final = 1 * MIB  # REST publishes are split into batches of about this size

SEGMENT_BYTES_MIN: Final = 1 * KIB
SEGMENT_BYTES_MAX: Final = 2 * GIB - 1

FETCH_BYTES_MAX: Final = 64 * MIB  # one fetch, all partitions

# Kafka requests. Elements of all arrays together; those of a request that cannot be worked on in parts; at one go.
REQUEST_ELEMENTS_MAX: Final = 50_000
WHOLE_REQUEST_ELEMENTS_MAX: Final = 10_000
SLICE_ELEMENTS: Final = 1_000
SLICE_PRODUCE_ELEMENTS: Final = 200  # an append is more work
SLICED_ANSWER_BYTES_MAX: Final = 64 * MIB  # the answer of a request that is worked on in parts
MEMBER_PROTOCOLS_MAX: Final = 100  # that one member of a group speaks
MEMBER_BYTES_MAX: Final = 1 * MIB  # what a member says about itself, in all its protocols
PAGE_PARTITIONS_MAX: Final = 2_000  # of one page of DescribeTopicPartitions
FETCH_ROOM_BYTES_MIN: Final = 1 * MIB  # a fetch begins to read when there is room for this much
FETCH_SESSION_PARTITIONS_MAX: Final = 200_000  # that all fetch sessions remember together
SHARE_SESSIONS_MAX: Final = 2_000  # of share consumers, node-wide
SHARE_SESSION_PARTITIONS_MAX: Final = 10_000  # of one share consumer
SHARE_RECORDS_MAX: Final = 10_000  # that one share fetch acquires
FETCH_WAIT_MS_MAX: Final = 300_000  # the longest long poll

# File descriptors. What the system allows is shared out at start: see base/descriptors.py.
DESCRIPTORS_MIN: Final = 128  # with fewer the node does not start
DESCRIPTORS_SPARE: Final = 8  # held back for the node's own topics, notes and directory syncs
OPEN_SEALED_SEGMENTS_MAX: Final = 64  # node-wide: file handles and loaded indexes of sealed segments
OPEN_ACTIVE_SEGMENTS_MAX: Final = 10_000  # node-wide: file handles of segments that are written to
JOURNALED_BYTES_MAX: Final = 64 * KIB  # of one log in a round; what is larger is synced in the log itself
COMPACTION_KEYS_MAX: Final = 1_000_000  # keys remembered by one compaction pass
COMPACTION_KEY_BYTES_MAX: Final = 256 * MIB  # of all of them

# Regular expressions of clients: characters, instructions of the compiled one, its memory, how many are kept ready.
PATTERN_CHARS_MAX: Final = 1_000
PATTERN_STEPS_MAX: Final = 1_000
PATTERN_BYTES_MAX: Final = 256 * KIB
PATTERNS_READY_MAX: Final = 256
PATTERN_SECONDS_MAX: Final = 2.0  # of work for one request, in slices
GROUP_PATTERNS_MAX: Final = 100  # different ones that the members of a group have

GROUP_CONFIGS_MAX: Final = 10_000  # groups with settings of their own
GROUP_NAME_CHARS_MAX: Final = 1_000  # of a new group
GROUP_CONFIG_NAME_CHARS_MAX: Final = 1_000

TAILS_MAX: Final = 1_000  # server-sent-event streams at once
PAGE_BYTES_MAX: Final = 8 * MIB  # keys and values of one page of messages
SMALL_PAGE_BYTES_MAX: Final = 256 * KIB  # what is put together without waiting for a turn
LARGE_PAGES_MAX: Final = 2  # larger pages that are put together at once
JSON_ELEMENTS_MAX: Final = 250_000  # of one request body

DELAY_MS_MAX: Final = 10 * 366 * 24 * 3_600_000  # ten years: how far ahead a message can be scheduled
NEAR_ENTRIES_MAX: Final = 100_000  # scheduled messages whose timers are in memory
NEAR_PAYLOAD_BYTES_MAX: Final = 64 * MIB  # of those that are due soon
UNINDEXED_MAX: Final = 200_000  # records of the schedule that its index does not know yet; no more messages are taken
UNINDEXED_HIGH: Final = 20_000  # who schedules messages waits for the index

# The wall clock: a jump of so much is a step, and is believed when it has stood for so long.
CLOCK_STEP_MS_MIN: Final = 250
CLOCK_BELIEVED_MS: Final = 10_000
CLOCK_LATE_MS: Final = 3_600_000  # after the newest message a start does not trust it at once

# What one open transaction may hold beside the messages in logs.
TXN_ID_CHARS_MAX: Final = 1_000
TXN_OFFSETS_MAX: Final = 10_000
TXN_ANSWERS_MAX: Final = 10_000
TXN_GROUPS_MAX: Final = 1_000
TXN_DELAYED_MAX: Final = 10_000
TXN_DELAYED_BYTES_MAX: Final = 64 * MIB  # payloads of delayed messages, of all open transactions together

# Staged sets: writers of one owner, open and remembered; partitions that those of one batch write to, counted for each.
STAGED_OWNER_CHARS_MAX: Final = 200
STAGED_WRITER_CHARS_MAX: Final = 100
STAGED_OWNERS_MAX: Final = 100_000
STAGED_WRITERS_MAX: Final = 10_000
STAGED_PLACES_MAX: Final = 200_000

# When a node starts: partitions that are opened one by one; how many times longer than the work that may take; and the
# shares of the others that are opened beside each other if it takes longer.
OPENED_FIRST: Final = 100
OPENING_SLOW: Final = 8
OPENING_AT_ONCE: Final = 8

# Who may come in. What is shown to prove a name is refused unread beyond these.
PASSWORD_CHARS_MAX: Final = 1_024
PASSWORD_CHARS_MIN: Final = 8
SECRET_BYTES: Final = 32
SCRAM_ITERATIONS: Final = 16_384  # the most that Kafka allows
SCRAM_SALT_BYTES_MAX: Final = 1_024
SCRAM_ITERATIONS_MIN: Final = 4_096
SASL_BYTES_MAX: Final = 64 * KIB  # one request of a connection that has not shown who it is
TOKEN_CHARS_MAX: Final = 16 * KIB
SCRAM_BYTES_MAX: Final = 2 * KIB  # of one message
LOGIN_SECONDS: Final = 30.0  # that a Kafka connection has to show who it is
USERS_MAX: Final = 10_000
TENANTS_MAX: Final = 1_000
TENANT_CHARS_MAX: Final = 32
KEYS_MAX: Final = 100_000
KEYS_OF_USER_MAX: Final = 40  # one commit takes all of them away, with what is known of their use
PASSWORD_CHECKS_MAX: Final = 64  # that wait at once; each takes some ten milliseconds of one thread
PASSWORD_CHECKS_PER_HOST_MAX: Final = 8
KNOWN_PASSWORDS_MAX: Final = 1_024  # that were right a moment ago and need not be hashed again
FAILURES_FREE: Final = 5  # wrong attempts of one host for one name, until it has to wait
LOCKOUT_MS: Final = 1_000  # after that; twice as long with every further one
LOCKOUT_MS_MAX: Final = 60_000
LOCKOUTS_MAX: Final = 10_000  # remembered at once
HANDSHAKES_MAX: Final = 128  # of TLS that are under way at once at one door
HANDSHAKE_SECONDS: Final = 10.0

# The metadata store.
METADATA_VALUE_CHARS_MAX: Final = 512 * KIB
METADATA_COMMIT_KEYS_MAX: Final = 100
METADATA_HISTORY_MAX: Final = 1_000  # changes that a watch can still be told one by one
SHARDS_DEFAULT: Final = 8  # of a new node
SHARDS_ON_DEMAND_MAX: Final = 256  # of a cluster, with those that topics of another replication factor get
PROCESSES_MAX: Final = 64  # of one machine
SHARDS_MAX: Final = 64  # of a node; all of them are made by one commit
ID_SLOTS: Final = 1_024  # groups, transactional ids and owners of staged sets are shared out by these

# Access control: rules in all, and of one request; what is remembered of decisions and of users.
ACLS_MAX: Final = 10_000
ACLS_OF_REQUEST_MAX: Final = 1_000
ACL_NAME_CHARS_MAX: Final = 1_000
ACL_DECISIONS_KNOWN_MAX: Final = 50_000
ACL_PRINCIPALS_KNOWN_MAX: Final = 1_000
PRINCIPAL_CHARS_MAX: Final = 200
QUOTAS_MAX: Final = 10_000
QUOTA_CLIENTS_KNOWN_MAX: Final = 20_000  # whose debts are remembered
THROTTLE_MS_MAX: Final = 30_000
FAIR_SHARES_KNOWN_MAX: Final = 10_000  # tenants and users whose use of the node is counted
FAIR_WAIT_S_MAX: Final = 30.0  # that a request waits for its turn; then it is refused
AUDIT_KINDS_PER_S: Final = 1_000  # events of the audit log that are told apart within a second
AUDIT_LINES_WAITING_MAX: Final = 20_000
AUDIT_NAME_CHARS_MAX: Final = 300
HOST_CHARS_MAX: Final = 100

# What another node is asked for: how long a verb without a deadline of its own may take in all.
ROUTED_S: Final = 8.0
# How long a write waits at the node that takes its partition over: clients that are refused pause, each time longer.
TAKEOVER_S: Final = 1.0

# Schemas. What is over a limit is refused before it is parsed.
SCHEMA_BYTES_MAX: Final = 1_000_000
SUBJECT_CHARS_MAX: Final = 1_000
SCHEMA_DEPTH_MAX: Final = 128
SCHEMA_REFERENCES_MAX: Final = 100  # of one schema; all that those refer to count too
SCHEMA_REGEX_BYTES_MAX: Final = 1 * MIB  # a compiled pattern
SCHEMA_SUBSCHEMAS_MAX: Final = 20_000  # of a JSON Schema, with those of its references
SCHEMA_VALUE_STEPS_MAX: Final = 50_000  # keywords looked at for one value, with references written out: a millisecond
SCHEMA_ANALYSIS_STEPS_MAX: Final = 200_000  # of finding that out
SCHEMA_PATTERN_STATES_MAX: Final = 200_000  # of all patterns of a schema, with repetitions written out
SCHEMA_EMPTY_VALUES_MAX: Final = 10_000  # of Avro: values that take no bytes, like nulls and records of them
SCHEMA_COMPARE_SECONDS_MAX: Final = 5  # one comparison, with all versions that the level asks for
SCHEMA_COMPARE_STEPS_MAX: Final = 100_000  # subschemas looked at in one comparison, each as often as it is
SCHEMAS_COMPILED_MAX: Final = 500  # schemas that are kept ready to check messages
SCHEMA_READY_BYTES_MAX: Final = 16 * KIB  # a schema no larger than this is made ready where it is needed
SCHEMA_READY_SECONDS_MAX: Final = 2  # of a start, to make large schemas ready
SCHEMA_BREAKS_MAX: Final = 100  # told of one comparison
SCHEMA_FAILURES_MAX: Final = 100  # told of one batch
MESSAGE_DEPTH_MAX: Final = 100  # nesting of a message that is checked
CHECK_STEPS_MAX: Final = 1_000_000  # of the engine on one message, 20 ns each
CHECK_WALK_STEPS_MAX: Final = 100_000  # of counting those
CHECK_ERROR_STEPS_MAX: Final = 20_000  # of explaining a mismatch by the engine; above, it is told without its place
CHECK_SECONDS_MAX: Final = 0.25  # of processor time for all messages of one batch
CHECK_HERE_SECONDS: Final = 0.005  # of that on the loop; a batch that takes longer is checked off it
CHECK_REQUEST_SECONDS_MAX: Final = 2.0  # for all messages of one REST or SQS request, in slices
NUMBER_DIGITS_MAX: Final = 1_000  # of a whole number in JSON that is checked
REDRIVE_RATE_MAX: Final = 1_000_000  # messages a second

# Tasks of the worker framework: what one call carries as JSON, what its result takes, what is told of an error, what
# one workflow has, and what a worker holds ready beside what it runs.
TASK_BYTES_MAX: Final = 1 * MIB
TASK_RESULT_BYTES_MAX: Final = 1 * MIB
TASK_TRACEBACK_CHARS_MAX: Final = 8_000
TASK_NAME_CHARS_MAX: Final = 249
WORKFLOW_TASKS_MAX: Final = 10_000
TASKS_AHEAD_MAX: Final = 500
RESULTS_KNOWN_MAX: Final = 10_000  # results that a program remembers, so that each is read once

# --- the node's own history, and what the console asks for --------------------------------------------------

HISTORY_STEP_MS: Final = 10_000
HISTORY_ROWS_MAX: Final = 2_160  # six hours
HISTORY_COLUMNS_MAX: Final = 512
HISTORY_TOPICS_MAX: Final = 100  # three series each
HISTORY_GROUPS_MAX: Final = 100
HISTORY_QUEUES_MAX: Final = 80
HISTORY_NAMES_MAX: Final = 64  # that one request may ask for
SEARCHED_MESSAGES_MAX: Final = 10_000  # that one request looks through
SEARCHED_SECONDS_MAX: Final = 0.5
JSON_PATH_CHARS_MAX: Final = 300
JSON_PATH_STEPS_MAX: Final = 32
DECODED_VALUES_MAX: Final = 500  # of one request
DECODED_CHARS_MAX: Final = 32 * MIB  # of a value as JSON; and of a request's, before others are refused
LEASES_LISTED_MAX: Final = 1_000
PEEKED_MAX: Final = 200
CALENDAR_BUCKETS_MAX: Final = 400
AUDIT_LINES_READ_MAX: Final = 5_000
AUDIT_BYTES_READ_MAX: Final = 8 * MIB
FINGERPRINTS_TOLD_MAX: Final = 100

# --- backups of a running node ------------------------------------------------------------------------------

BACKUPS_MAX: Final = 4  # at once
BACKUP_IDLE_S: Final = 600.0  # until one that nobody reads is ended
BACKUP_WAIT_S: Final = 25.0  # for a clean-up of the log that is under way
BACKUP_FILES_LISTED_MAX: Final = 10_000  # in one answer
BACKUP_PARTS_MAX: Final = 10_000  # of files, that one request reads
BACKUP_READ_BYTES_MAX: Final = 4 * MIB

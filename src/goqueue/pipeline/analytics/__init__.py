"""Studies of what went through the broker: rates, latency, dead letters, quality.

Each is a plain function from a DataFrame to a DataFrame that programs can import, and a pipeline that keeps its
results in the lake as Delta tables. A pipeline goes on where its last run stopped; running it again doubles nothing.

| table in `{lake}/studies` | one row is |
|---|---|
| `rates` | a window of a topic, partition and lane: `start`, `seconds`, `messages`, `bytes`, `keys`, rates |
| `traffic` | a window of one topic, over its partitions and lanes; the same columns |
| `lag` | how far a group was behind in a partition at `time`: `group`, `topic`, `committed`, `end_offset`, `lag` |
| `trace_events` | an event of a trace, as the node wrote it |
| `latency` | an hour of a topic, group and stage: `count`, `p50_us` to `max_us`, a sketch that merges over hours |
| `stages` | one topic and stage over all time: `count`, `p50_us`, `p90_us`, `p99_us`, `max_us` |
| `slowest` | one of an hour's slowest traces: `trace_id`, `took_us`, `status`, its `events` |
| `failures` | an hour's failures of one kind: `event`, `topic`, `group`, `reason`, `count` |
| `letters` | a dead letter: where, when, of what, its `fingerprint` |
| `dlq` | an hour's dead letters of one kind: `topic`, `group`, `reason`, `fingerprint`, `schema_version`, `letters` |
| `quality` | a topic and check in one run: `rows`, `bad`, an `example` |
| `fields` | a topic, field and type in one run: `rows` that have it, of `total` |
| `drift` | what changed in a topic's field since the run before: `change`, `before`, `after` |

Bad rows are in `{lake}/quarantine`, whole and with their `reasons`. The redrive list is `{lake}/studies/redrive.jsonl`.
Every table has the column `date` (UTC) and is partitioned by it, except `stages`, which is small.
"""

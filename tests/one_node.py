"""Whether a run is against a cluster, and the tests that it passes over, and why. Each is a file under `tests/`, or a
test of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

NODES: Final = int(os.environ.get("NODE_CLUSTER", "0"))  # of the cluster; see `tests/one_of_cluster.py`
ONE_NODE: Final[Mapping[str, Sequence[str]]] = {
    "about the process of one node: its start, its files, its memory": (
        "door/test_startup.py",
        "door/test_half_open.py",
        "door/test_doors.py",
        "cli/test_cluster_show.py",
    ),
    "says that there is one node, and holds answers about it against that": (
        "door/kafka/test_admin.py::test_the_cluster_and_topics_are_described",
        "door/kafka/test_java.py::test_new_partitions_cannot_be_put_on_other_nodes",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[new-create_topics_wrongly]",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[killed-create_topics_wrongly]",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[new-describe_configs]",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[killed-describe_configs]",
        "door/kafka/test_answers.py::test_the_cluster_and_its_directories",
        "door/kafka/test_configs.py::test_a_logger_is_told_to_speak",
    ),
    "asks one node what it keeps; Kafka's brokers list their own groups and transactions, and clients ask them all": (
        "door/kafka/test_answers.py::test_groups_are_listed_by_state_and_kind",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[new-describe_server_side_groups]",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[killed-describe_server_side_groups]",
        "door/kafka/test_migration.py::test_a_group_moves_to_the_new_protocol_and_back_under_load",
        "door/kafka/test_share.py::test_every_member_is_assigned_every_partition",
        "door/kafka/test_transactions.py::test_administrators_see_transactions",
    ),
    "names partitions of several leaders in one request, spoken by hand": (
        "door/kafka/test_fetch_sessions.py",
        "door/kafka/test_many_elements.py::test_a_partition_whose_offset_is_asked_for_twice_is_refused_as_often_as_it_is_named",
        "door/kafka/test_transaction_version.py::test_a_request_does_not_overtake_one_that_adds_a_partition",
        "door/kafka/test_transaction_version.py::test_an_administrator_aborts_an_open_transaction_as_a_whole",
        "door/kafka/test_transaction_version.py::test_a_marker_of_an_epoch_that_is_over_ends_nothing",
        "door/kafka/test_share_ranges.py::test_an_sqs_consumer_takes_from_the_same_queue",
    ),
    "looks at the connection that the test has opened, while requests go to who leads": (
        "door/kafka/test_many_elements.py::test_many_elements_are_answered_while_others_are_served",
    ),
    "about settings that all nodes of a run share": (
        "door/kafka/test_configs.py::test_a_group_has_settings_of_its_own_at_once_and_after_a_crash",
        "door/kafka/test_configs.py::test_defaults_of_topics_are_changed_while_the_node_runs_and_survive_a_crash",
    ),
    "counts what one node did, in its metrics and totals": (
        "door/http/test_answers.py::test_a_long_poll_ends_when_its_reader_goes",
        "door/schemas/test_doors.py::test_metrics_count_what_was_checked",
        "door/test_rest_transactions.py::test_transactions_are_listed_described_counted_and_ended_by_an_administrator",
    ),
    "three messages in one order of priorities: each node orders what it leads, and nodes are asked in turn": (
        "door/sqs/test_other_doors.py::test_priorities_order_a_queue",
    ),
    "cuts or counts what goes through a tunnel to one node; others are spoken to past it": (
        "pipeline/link/test_writing.py::test_rows_are_there_once_and_in_order_over_a_line_that_breaks",
        "pipeline/link/test_reading.py::test_the_next_fetch_is_under_way_while_a_piece_is_looked_at",
        "pipeline/link/test_writing.py::test_no_more_than_five_requests_are_on_their_way",
    ),
    "damages the only copy of a message; of three replicas the others mend it": (
        "pipeline/link/test_reading_trouble.py::test_a_batch_that_was_damaged_on_disk_is_told_with_its_place",
    ),
    "knows which door belongs to which; of a cluster any node's is right": (
        "pipeline/link/test_doors.py::test_the_node_tells_its_other_door",
    ),
}

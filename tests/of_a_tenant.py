"""`NODE_TENANT=a` in the environment: tests of doors run as somebody of a tenant, by the nodes of
`tests/tenant_program.py`. What is an operator's is passed over, and listed here."""

from __future__ import annotations

import os
from typing import Final

import pytest

TENANT: Final = os.environ.get("NODE_TENANT", "")
PROGRAM: Final = "from tests.tenant_program import main; main()"

OPERATORS: Final = {
    "asks for routes that are an operator's": (
        "door/test_rest.py::test_every_path_tells_all_its_methods",
        "door/test_rest.py::test_every_described_path_is_served_under_both_roots",
        "door/test_rest.py::test_the_node_describes_itself",
        "door/test_console_routes.py::test_the_node_tells_who_asks_what_settings_mean_and_its_last_hours",
        "door/http/test_connections.py::test_some_requests_may_wait_behind_another_and_are_answered_in_order",
        "door/grpc/test_admin.py::test_the_cluster_is_shown",
        "door/kafka/test_admin.py::test_settings_are_described_and_changed",
        "door/kafka/test_admin.py::test_the_cluster_and_topics_are_described",
        "door/kafka/test_answers.py::test_the_cluster_and_its_directories",
        "door/kafka/test_answers.py::test_the_node_answers_as_kafka_does[new-describe_configs]",
        "door/kafka/test_configs.py::test_a_logger_is_told_to_speak",
        "door/kafka/test_configs.py::test_defaults_of_topics_are_changed_while_the_node_runs_and_survive_a_crash",
        "door/kafka/test_java.py::test_everything_is_allowed_and_said_to_those_who_ask",
        "door/kafka/test_share.py::test_as_many_records_are_acquired_as_the_tenant_may_have_in_flight",
        "door/schemas/test_doors.py::test_every_error_has_confluents_number",
        "pipeline/link/test_doors.py::test_the_node_tells_its_other_door",
        "door/schemas/test_openapi.py::test_every_answer_of_the_registry_is_as_the_document_says",
    ),
    "asks for numbers of the whole node": (
        "door/http/test_answers.py::test_a_long_poll_ends_when_its_reader_goes",
        "door/http/test_answers.py::test_a_tail_with_a_request_behind_it_ends_when_its_reader_goes",
        "door/http/test_connections.py::test_thousands_of_requests_behind_one_another_are_not",
        "door/test_delay.py::test_a_life_over_rest",
        "door/test_live.py::test_a_stopping_node_lets_its_readers_go",
        "door/test_delay.py::test_nothing_is_lost_or_doubled_or_early_in_many_kills",
        "door/test_rest_groups.py::test_the_lag_is_the_same_on_all_surfaces",
        "door/schemas/test_doors.py::test_metrics_count_what_was_checked",
        "door/schemas/test_doors.py::test_what_the_routes_answer",
        "door/sqs/test_standard.py::test_a_poll_whose_client_is_gone_takes_nothing",
        "door/sqs/test_standard.py::test_a_stopping_node_ends_the_polls",
        "door/sqs/test_raw.py::test_requests_are_counted",
        "traces/test_lives_of_a_node.py",
    ),
    "about a setting or an address that is another on a node that many use": (
        "door/test_doors.py::test_doors_at_one_address_are_told_as_they_are",
        "door/kafka/test_configs.py::test_a_group_has_settings_of_its_own_at_once_and_after_a_crash",
    ),
    "sets quotas": ("door/grpc/test_quotas.py",),
    "ends the transaction of another": (
        "door/kafka/test_transaction_version.py::test_an_administrator_aborts_an_open_transaction_as_a_whole",
        "door/kafka/test_transaction_version.py::test_a_marker_of_an_epoch_that_is_over_ends_nothing",
        "door/test_rest_transactions.py::test_transactions_are_listed_described_counted_and_ended_by_an_administrator",
        "door/test_rest_staged.py::test_staged_writers_are_transactions_like_others",
        "pipeline/link/test_writing.py::test_a_transaction_that_was_ended_behind_the_writers_back_is_told",
    ),
    "chooses ids of schemas": (
        "door/schemas/test_answers.py::test_errors_have_confluents_words",
        "door/schemas/test_doors.py::test_kill_and_restart_keep_everything_and_no_id_is_given_twice",
    ),
    "names the broker's own topics, which are in no tenant": (
        "door/schemas/test_doors.py::test_internal_books_are_closed_to_publishers",
        "door/test_rest_groups_refused.py::test_bad_requests"
        "[join-{'client_id': 'c', 'topics': ['__consumer_offsets'-403-internal-topic-topics]",
    ),
    "looks into files or exports, where names are whole": (
        "traces/test_producers_trace.py::test_a_batch_is_stored_to_the_byte_as_it_was_sent",
        "traces/test_whole_life.py::test_one_message_is_one_trace_wherever_it_is_told",
    ),
}


def select(items: list[pytest.Item]) -> None:
    os.environ["NODE_PROGRAM"] = PROGRAM
    for item in items:
        name = item.nodeid.removeprefix("tests/").split("@")[0]
        names = {name, name.split("[")[0], name.split("::")[0]}
        reason = next((reason for reason, tests in OPERATORS.items() if names & set(tests)), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))

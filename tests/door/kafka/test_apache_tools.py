"""Apache Kafka's own command-line tools against this node. Skipped where they cannot be had (`apache.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.door.kafka.apache import find_jars, run_tool
from tests.door.kafka.raw import Line, unique
from tests.door.kafka.test_transaction_version import InTxn, stable_end

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    jars = find_jars(tmp_path_factory.mktemp("tools"))
    if jars is None:
        pytest.skip("Apache Kafka's jars or Java are not here")

    def run(name: str, *arguments: str) -> str:
        done = run_tool(Path(jars), f"org.apache.kafka.tools.{name}", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_the_java_producer_writes_transactions_of_version_2(kafka: str, topic: str, tool: Tool) -> None:
    """It sees the finalized feature and leaves AddPartitionsToTxn out."""
    told = tool(
        *("ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", unique("java"), "--transaction-duration-ms", "20"),
        *("--producer-props", f"bootstrap.servers={kafka}"),
    )
    assert "20000 records sent" in told
    read = tool(
        *("ConsumerPerformance", "--topic", topic, "--messages", "20000", "--bootstrap-server", kafka),
        *("--timeout", "20000", "--hide-header"),
    )
    assert ", 20000," in read


def test_an_administrator_aborts_a_transaction_that_holds_readers_back(kafka: str, topic: str, tool: Tool) -> None:
    with Line(kafka) as line:
        open_ = InTxn(line, unique("hangs"))
        open_.produce(topic, 0)
        assert stable_end(line, topic) == 0
        found = tool("TransactionsCommand", "--bootstrap-server", kafka, "describe-producers", *partition(topic))
        assert str(open_.producer_id) in found
        tool("TransactionsCommand", "--bootstrap-server", kafka, "abort", *partition(topic), "--start-offset", "0")
        assert stable_end(line, topic) == 2
        described = tool(
            "TransactionsCommand", "--bootstrap-server", kafka, "describe", "--transactional-id", open_.name
        )
        assert "CompleteAbort" in described


def test_features_are_shown(kafka: str, tool: Tool) -> None:
    told = tool("FeatureCommand", "--bootstrap-server", kafka, "describe")
    assert "group.version" in told and "transaction.version" in told


def partition(topic: str) -> tuple[str, ...]:
    return ("--topic", topic, "--partition", "0")

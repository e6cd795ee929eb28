"""The tour of `goqueue demo`: what is shown, and what to type to do it oneself."""

from __future__ import annotations

from typing import Final, NamedTuple

TRANSACTION: Final = """\
import goqueue
with goqueue.Client("{url}") as client:
    client.create_topic("payments", partitions=1)
    with client.transaction("checkout") as transaction:
        transaction.publish("orders", "two teapots", key="ann")
        transaction.publish("payments", "12 pounds", key="ann")
    try:
        with client.transaction("checkout") as transaction:
            transaction.publish("payments", "never seen", key="bob")
            raise RuntimeError("the card was refused")
    except RuntimeError as error:
        print(f"aborted: {{error}}")
"""


class DemoStep(NamedTuple):
    """A command is the words behind `goqueue`, or Python code where it is one text."""

    title: str
    about: str
    commands: tuple[tuple[str, ...] | str, ...]


STEPS: Final = (
    DemoStep(
        "Publish",
        "A topic is a log in partitions. Messages with one key keep their order.",
        (
            ("topic", "create", "orders", "--partitions", "2", "--config", "trace=on"),
            ("produce", "orders", "one teapot", "--key", "ann", "--header", "source=shop"),
            ("produce", "orders", "a kettle", "--key", "bob"),
            ("consume", "orders", "--output", "pretty"),
        ),
    ),
    DemoStep(
        "Take from a queue, under a lease",
        "The same topic is a queue for every group: each message goes to one member, which acks it.",
        (
            ("consume", "orders", "--group", "packers", "--count", "1", "--ack"),
            ("queue", "list"),
        ),
    ),
    DemoStep(
        "Dead letters",
        "What nobody can handle goes aside, with its reason, and comes back when the fault is mended.",
        (
            ("consume", "orders", "--group", "packers", "--count", "1", "--reject"),
            ("dlq", "list", "orders"),
            ("dlq", "redrive", "orders", "--wait"),
        ),
    ),
    DemoStep(
        "Delays",
        "A message can wait, for seconds or years, or come again and again by --cron.",
        (
            ("produce", "orders", "remind ann", "--key", "ann", "--delay", "1h"),
            ("produce", "orders", "nightly report", "--cron", "0 3 * * *"),
            ("delayed", "list", "orders"),
        ),
    ),
    DemoStep(
        "Priorities",
        "Five lanes in each queue; the log keeps the order of arrival.",
        (
            ("topic", "create", "mail", "--partitions", "1"),
            ("produce", "mail", "newsletter", "--priority", "background"),
            ("produce", "mail", "password reset", "--priority", "critical"),
            ("consume", "mail", "--group", "senders", "--ack"),
        ),
    ),
    DemoStep(
        "Transactions",
        "Messages to several topics, acks and offsets count together or not at all.",
        (TRANSACTION, ("consume", "payments"), ("txn", "list", "--all")),
    ),
    DemoStep(
        "Traces",
        "What happened to one message, step by step.",
        (("trace", "search", "--topic", "orders", "--key", "bob", "--limit", "1"), ("trace", "show", "TRACE")),
    ),
    DemoStep("Status", "And the broker at a glance. `goqueue top` shows it live.", (("status",),)),
)

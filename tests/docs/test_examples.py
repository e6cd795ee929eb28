"""The programs under `examples/` do what they say, one after the other on one node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.node_process import NodeProcess

ROOT = Path(__file__).parents[2]
PRINTED = {
    "webhooks.py": "['order.paid', 'order.sent'] after 3 tries",
    "reminders.py": "say: your tea is ready\n30 days ahead: cancelled",
    "support_tickets.py": "of the first 57 tickets 50 were outages",
    "exchange_rates.py": "[('EUR/CHF', '0.95'), ('EUR/USD', '1.09')]",
    "fan_out.py": "billing ['teapot', 'cup']\nshipping ['teapot', 'cup']\nstatistics ['teapot', 'cup']",
    "price_service.py": "teapot 25 EUR\nspoon unknown",
    "thumbnails.py": "a.png is 200 pixels wide",
    "bank_kafka.py": "booked 100\nbooked 250\nrefused 9000000",
    "mail_sqs.py": "sent to ['ann@example.org', 'bob@example.org', 'cem@example.org']",
    "csv_import.py": "the topic has 2 messages",
}


def test_every_program_has_its_output_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == PRINTED.keys()
    text = (ROOT / "examples/README.md").read_text()
    assert all(f"]({name})" in text for name in PRINTED)


@pytest.mark.slow
def test_the_programs_print_what_they_should_on_one_node(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        addresses = {"bank_kafka.py": node.kafka, "mail_sqs.py": node.sqs, "thumbnails.py": "--here"}
        environ = {**os.environ, "GOQUEUE_SERVER": node.url}
        for name, expected in PRINTED.items():
            command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), addresses.get(name, node.url)]
            given = "id,name\n1,Ann\n2,Bob\n"
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=240, env=environ)
            assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
            assert done.stdout.strip() == expected, name

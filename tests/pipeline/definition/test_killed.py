"""An example pipeline exactly once under SIGKILL: a join with state, a quarantine and a merge, whoever dies."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from deltalake import DeltaTable

from bench.cluster_process import ClusterProcess
from tests.etcd import etcd_program
from tests.long import only_long
from tests.pipeline.definition.files import publish
from tests.pipeline.definition.test_examples import EXAMPLES
from tests.pipeline.topics import contents
from tests.pipeline.victims import Victim
from tests.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "5"))  # of all deaths
SECONDS, ORDERS, BATCH_ROWS = 5_400, 320 * ROUNDS, 40
# Spark gives a Python process ten seconds to start, whatever else the machine does, and no setting changes that.
TOO_BUSY: Final = "Python worker failed to connect back"
DEATHS: Final = ("driver", "all", "worker", "node", "leader")
KILLS: Final = ROUNDS * DEATHS
MORE = """
[[sink]]
view = "orders"
table = "newest"
mode = "merge"
keys = ["customer"]
order = "_offset"
[[sink]]
view = "paid"
topic = "paid"
key = "id"
"""

pytestmark = [only_long, pytest.mark.slow, pytest.mark.timeout(SECONDS + 60), pytest.mark.xdist_group("jvm")]


def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Orders, each seventh without an id, and payments for every second order; all within some minutes."""
    at = "2026-01-31T12:0{}:00Z"
    orders: list[dict[str, Any]] = [
        {"customer": f"c{n % 17}", "total": float(n), "at": at.format(n * 4 // ORDERS)} for n in range(ORDERS)
    ]
    for n, order in enumerate(orders):
        if n % 7:
            order["id"] = f"o{n}"
    payments = [
        {"order_id": f"o{n}", "amount": float(n), "method": "card", "paid_at": at.format(5)}
        for n in range(0, ORDERS, 2)
    ]
    return orders, payments


def test_an_example_is_exact_whoever_dies(tmp_path: Path) -> None:
    etcd_program()
    faulthandler.cancel_dump_traceback_later()  # the usual limit of one test is shorter than this one
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    text = (EXAMPLES / "orders_payments.toml").read_text().partition("[[test]]")[0] + MORE
    file = tmp_path / "orders_payments.toml"
    file.write_text(text.replace("watermark =", f"max_rows = {BATCH_ROWS}\nwatermark ="))
    orders, payments = rows()
    with ClusterProcess(tmp_path / "cluster") as cluster:
        publish(cluster.nodes[0], "orders", orders, key="customer")
        publish(cluster.nodes[1], "payments", payments, key="order_id")
        publish(cluster.nodes[2], "paid", [])
        under_fire(cluster, file, random.Random(seed))
        copied = [json.loads(row.value or b"") for row in contents(cluster.nodes[0], "paid")]
    check(tmp_path / "lake", [one["id"] for one in copied], orders, payments)


def under_fire(cluster: ClusterProcess, file: Path, chance: random.Random) -> None:
    deadline, lake = time.monotonic() + SECONDS, file.parent / "lake"
    arguments = ("pipeline", "run", str(file), "--kafka", cluster.bootstrap)
    deaths = chance.sample(KILLS, len(KILLS))
    while True:
        with Victim(file.parent / "run.log", "tests.pipeline.definition.killed_run", *arguments) as run:
            while deaths and not run.is_over:
                wait_for_commit(run, lake, commits(lake), deadline)
                if not run.is_over:
                    strike(run, cluster, deaths.pop(), chance)
            if run.is_over and (run.process.returncode < 0 or TOO_BUSY in run.last_line):
                continue
            assert run.process.wait(max(1.0, deadline - time.monotonic())) == 0, run.told
            assert not deaths, f"the pipeline ended with {len(deaths)} deaths to come"
            return


def wait_for_commit(run: Victim, lake: Path, seen: int, deadline: float) -> None:
    wait_until(lambda: commits(lake) > seen or run.is_over, lambda: run.told, deadline - time.monotonic())


def commits(lake: Path) -> int:
    return len(list(lake.glob("*/_delta_log/*.json")))


def strike(run: Victim, cluster: ClusterProcess, death: str, chance: random.Random) -> None:
    """At a random moment of the batch."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.process.wait(chance.uniform(0, 0.6))
    print(f"{time.strftime('%X')} {death}", flush=True)
    match death:
        case "driver":
            run.kill_driver()
        case "all":
            run.kill_all()
        case "worker":
            run.kill_worker()
        case "leader":
            leader = cluster.leader_of("paid", chance.randrange(2))
            kill_node(cluster, chance.choice(cluster.running) if leader is None else leader)
        case _:
            kill_node(cluster, chance.choice(cluster.running))


def kill_node(cluster: ClusterProcess, number: int) -> None:
    cluster.kill(number)
    cluster.heal()


def check(lake: Path, copied: list[str], orders: list[dict[str, Any]], payments: list[dict[str, Any]]) -> None:
    """Against plain Python."""
    known = {one["id"] for one in orders if "id" in one}
    expected = Counter(one["order_id"] for one in payments if one["order_id"] in known)
    assert Counter(DeltaTable(str(lake / "paid_orders")).to_pyarrow_table(columns=["id"])["id"].to_pylist()) == expected
    assert Counter(copied) == expected
    broken = DeltaTable(str(lake / "quarantine")).to_pyarrow_table()["row"].to_pylist()
    assert Counter(json.loads(row)["total"] for row in broken) == Counter(
        one["total"] for one in orders if "id" not in one
    )
    last = {one["customer"]: one["id"] for one in orders if "id" in one}
    newest = DeltaTable(str(lake / "newest")).to_pyarrow_table().to_pylist()
    assert {row["customer"]: row["id"] for row in newest} == last

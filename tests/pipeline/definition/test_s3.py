"""A pipeline whose lake is a bucket of a local S3 server: the same file, and the usual variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx
import pytest
from deltalake import DeltaTable

from bench.node_process import NodeProcess
from tests.long import only_long
from tests.pipeline.definition.files import publish
from tests.pipeline.victims import free_address
from tests.waiting import wait_until

SERVER = shutil.which("moto_server")
pytestmark = [
    only_long,
    pytest.mark.xdist_group("jvm"),
    pytest.mark.skipif(SERVER is None, reason="moto_server is not there: pip install 'moto[s3,server]'"),
]

SHOP = """name = "shop"
lake = "s3://lake/shop"
checkpoints = "checkpoints"
[[source]]
name = "orders"
topic = "bucket-orders"
columns = "id string, customer string, total int"
[[sink]]
view = "orders"
table = "orders"
partition_by = ["customer"]
[[sink]]
view = "orders"
table = "newest"
mode = "merge"
keys = ["customer"]
order = "_offset"
[maintenance]
retention = "0s"
"""
TOTALS = """name = "totals"
lake = "s3://lake/shop"
checkpoints = "checkpoints"
[[source]]
name = "orders"
table = "orders"
[[step]]
name = "totals"
sql = "SELECT customer, sum(total) AS total FROM orders GROUP BY customer"
[[sink]]
view = "totals"
table = "totals"
mode = "overwrite"
"""


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code < 500
    except httpx.TransportError:
        return False


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    host, _, port = free_address().rpartition(":")
    assert SERVER is not None
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (tmp_path / "moto.log").open("w") as log:
        server = subprocess.Popen([SERVER, "-H", host, "-p", port], stdout=log, stderr=log, env=environ)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        wait_until(lambda: answers(f"http://{host}:{port}"), lambda: (tmp_path / "moto.log").read_text())
        boto3.client("s3").create_bucket(Bucket="lake")
        yield
    finally:
        server.kill()
        server.wait()


def goqueue(*words: object) -> str:
    command = [sys.executable, "-c", "from goqueue.cli import main; main()", "pipeline", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("bucket")
def test_a_pipeline_writes_reads_and_looks_after_tables_in_a_bucket(module_node: NodeProcess, tmp_path: Path) -> None:
    shop, totals = tmp_path / "shop.toml", tmp_path / "totals.toml"
    shop.write_text(SHOP)
    totals.write_text(TOTALS)
    for first in (0, 10):
        rows = [{"id": f"o{n}", "customer": f"c {n % 3}", "total": n} for n in range(first, first + 10)]
        publish(module_node, "bucket-orders", rows, key="customer")
        goqueue("run", shop, "--url", module_node.url)
    goqueue("run", totals, "--url", module_node.url)
    found = {
        row["customer"]: row["total"] for row in DeltaTable("s3://lake/shop/totals").to_pyarrow_table().to_pylist()
    }
    assert found == {f"c {k}": sum(n for n in range(20) if n % 3 == k) for k in range(3)}
    newest = DeltaTable("s3://lake/shop/newest").to_pyarrow_table().to_pylist()
    assert {row["customer"]: row["id"] for row in newest} == {"c 0": "o18", "c 1": "o19", "c 2": "o17"}
    assert "orders" in goqueue("maintain", shop)
    assert len(DeltaTable("s3://lake/shop/orders").file_uris()) == 3  # one for each customer

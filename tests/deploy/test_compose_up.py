"""The compose file at work, by the docker of this machine: `GOQUEUE_IMAGE=goqueue-image.tar`, written by `make image`.

An etcd and a Prometheus that are here take the place of the images that the file names, where these are not there;
Grafana is started only where its image is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.cli.etcd_program import find_etcd
from tests.cluster.clients import read_from
from tests.kubernetes.programs import first_layer
from tests.waiting import wait_until
from tools.image.oci import image_archive, layer

IMAGE: Final = os.environ.get("GOQUEUE_IMAGE", "")
FILE: Final = Path(__file__).parents[2] / "deploy/compose.yaml"
BOOTSTRAP: Final = "127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094"
pytestmark = [
    pytest.mark.skipif(not IMAGE, reason="needs an image: make image, GOQUEUE_IMAGE=goqueue-image.tar"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


def docker(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, f"docker {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The services that were started."""
    if shutil.which("docker") is None or docker("compose", "version", check=False).returncode:
        pytest.skip("there is no docker with compose")
    if docker("info", check=False).returncode:
        pytest.skip("no docker daemon answers")
    docker("load", "--input", IMAGE)
    services: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
    folder = tmp_path_factory.mktemp("images")
    started = {name for name, one in services.items() if _has_image(name, one["image"], folder)}
    compose = ("compose", "--file", str(FILE), "--project-name", "goqueue-test")
    try:
        docker(*compose, "up", "--detach", "--pull", "never", *sorted(started))
        yield started
    finally:
        print(docker(*compose, "logs", "--tail", "20", check=False).stdout)
        docker(*compose, "down", "--volumes", check=False)


def _has_image(name: str, image: str, folder: Path) -> bool:
    here = {"etcd": find_etcd, "prometheus": lambda: Path(shutil.which("prometheus") or "")}
    if docker("image", "inspect", image, check=False).returncode == 0:
        return True
    if name not in here or not (program := here[name]()).is_file():
        return False
    root = folder / name
    (root / "usr/local/bin").mkdir(parents=True)
    shutil.copy(program, root / "usr/local/bin" / name)
    for place in ("data", "prometheus"):
        (root / place).mkdir()
        (root / place).chmod(0o777)
    settings: dict[str, object] = {"Env": ["PATH=/usr/local/bin:/usr/bin"]}
    settings |= {"Entrypoint": [f"/usr/local/bin/{name}"]} if name == "prometheus" else {}
    file = folder / f"{name}.tar"
    file.write_bytes(image_archive([first_layer(Path(IMAGE)), layer(root)], settings, image, "amd64"))
    docker("load", "--input", str(file))
    return True


def test_three_nodes_serve_this_machine_and_go_on_without_one(running: set[str]) -> None:
    assert {"node-0", "node-1", "node-2", "etcd"} <= running
    wait_until(lambda: _health(8080).get("nodes_alive") == 3 and _health(8080)["status"] == "ok", "not whole")
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for made in admin.create_topics([NewTopic("orders", 6)]).values():
        made.result(60)
    publish(0)
    docker("kill", "goqueue-test-node-1-1")
    publish(100)
    docker("start", "goqueue-test-node-1-1")
    wait_until(lambda: _health(8082).get("nodes_alive") == 3 and _health(8082)["status"] == "ok", "not whole again")
    assert {int(value) for _, value in read_from(BOOTSTRAP, "orders", {})} == set(range(200))


def publish(first: int) -> None:
    failed: list[str] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "message.timeout.ms": 60_000})
    for number in range(first, first + 100):
        producer.produce("orders", str(number).encode(), on_delivery=told)
    assert producer.flush(60) == 0 and not failed, failed


def test_prometheus_finds_all_nodes(running: set[str]) -> None:
    if "prometheus" not in running:
        pytest.skip("no Prometheus is here")
    wait_until(lambda: _up() == {f"node-{number}:8080": "1" for number in range(3)}, lambda: f"not all are up: {_up()}")


def _up() -> dict[str, str]:
    try:
        found = httpx.get("http://127.0.0.1:9090/api/v1/query", params={"query": "up"}, timeout=10).json()
    except httpx.HTTPError:
        return {}
    return {one["metric"]["instance"]: one["value"][1] for one in found["data"]["result"]}


def _health(port: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/cluster/health", timeout=10).json()
        return found
    except httpx.HTTPError:
        return {}

"""The compose files: their nodes' settings are right, ports lead to them, and what they mount is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from goqueue import __version__
from goqueue.base.settings import load_settings, parse_address

DEPLOY = Path(__file__).parents[2] / "deploy"
NODES = range(3)


def compose(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())
    return found


@pytest.mark.parametrize("number", NODES)
def test_a_node_is_reached_where_it_says(number: int) -> None:
    service = compose("compose.yaml")["services"][f"node-{number}"]
    settings = load_settings(None, service["environment"], {}, service["hostname"])
    assert settings.node.id == number
    assert settings.kafka.advertised == f"node-{number}:9092" and settings.cluster.advertised == f"node-{number}:7000"
    listener = parse_address(settings.kafka.external_listen)
    assert listener is not None
    assert f"{settings.kafka.external_advertised}:{listener[1]}" in service["ports"]
    assert all(one.startswith("127.0.0.1:") for one in service["ports"]), "nobody has to show who they are"
    assert service["image"] == f"goqueue:{__version__}" and service["read_only"] is True


def test_ports_of_the_machine_are_used_once() -> None:
    services = compose("compose.yaml")["services"].values()
    ports = [one.rsplit(":", 1)[0] for service in services for one in service.get("ports", [])]
    assert len(ports) == len(set(ports))


@pytest.mark.parametrize("name", ["compose.yaml", "compose-metrics.yaml"])
def test_what_is_mounted_is_there_and_images_have_versions(name: str) -> None:
    found = compose(name)
    for service in found["services"].values():
        assert not service["image"].endswith(":latest") and ":" in service["image"]
        for source in (one.split(":")[0] for one in service.get("volumes", [])):
            assert (DEPLOY / source).exists() if source.startswith(".") else source in found["volumes"]


def test_prometheus_asks_the_nodes_by_their_names() -> None:
    told = yaml.safe_load((DEPLOY / "prometheus/cluster.yml").read_text())
    ((job,), services) = (told["scrape_configs"], compose("compose.yaml")["services"])
    assert job["job_name"] == "goqueue"
    (targets,) = job["static_configs"]
    assert targets["targets"] == [f"{name}:8080" for name in services if name.startswith("node-")]

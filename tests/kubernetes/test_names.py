"""The names that pods ask for, in the Kubernetes that tests make, and those of drills."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

from tests.kubernetes.dns import answer_to, names_of
from tests.kubernetes.drills import DRILLS


def service(name: str, address: str, **selector: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"clusterIP": address, "selector": selector}}


def pod(name: str, address: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "labels": labels}
    return {"metadata": meta, "status": {"podIP": address, "phase": "Running"}}


def test_services_have_their_address_and_headless_ones_those_of_their_pods() -> None:
    services = [service("web", "10.0.0.1", app="a"), service("nodes", "None", app="a")]
    found = names_of(services, [pod("a-0", "10.1.0.1", app="a"), pod("b-0", "10.1.0.2", app="b")])
    assert found == {
        "web.shop.svc.cluster.local": ["10.0.0.1"],
        "nodes.shop.svc.cluster.local": ["10.1.0.1"],
        "a-0.nodes.shop.svc.cluster.local": ["10.1.0.1"],
    }


def asked(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def test_a_name_that_is_known_has_its_addresses_and_another_does_not_exist() -> None:
    names = {"web.shop.svc.cluster.local": ["10.0.0.1"]}
    told = answer_to(asked("Web.shop.svc.cluster.local"), names)
    assert struct.unpack(">HHHH", told[:8]) == (7, 0x8580, 1, 1) and told.endswith(socket.inet_aton("10.0.0.1"))
    assert struct.unpack(">HHHH", answer_to(asked("other"), names)[:8]) == (7, 0x8583, 1, 0)
    six = answer_to(asked("web.shop.svc.cluster.local", kind=28), names)
    assert struct.unpack(">HHHH", six[:8]) == (7, 0x8580, 1, 0), "it exists, without an address of that kind"


def test_each_drill_is_in_the_runbook() -> None:
    runbook = (Path(__file__).parents[2] / "docs/runbook.md").read_text().partition("## Drills on Kubernetes")[2]
    assert [name for name in DRILLS if f"`{name}`" not in runbook] == []

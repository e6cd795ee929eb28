"""Who reaches whom by the chart's network policies, as another implementation of their rules judges it.

The pods' network of the lab enforces none. Cyclonus is what networks of Kubernetes are checked with: it says of a
connection whether policies let it through.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.helm import Manifest, rendered
from tests.kubernetes.built import cyclonus_program
from tests.long import only_long

pytestmark = [pytest.mark.slow, only_long, pytest.mark.timeout(1200)]
DOORS: Final = ("rest", "kafka", "external", "sqs", "grpc")
_ALLOWED: Final = re.compile(r"is allowed\?\s*\|\s*(true|false)", re.IGNORECASE)

Labels = Mapping[str, str]
SOMEBODY: Final[Labels] = {"app": "somebody"}


class Connection:
    """Of a pod with the labels, in a namespace, to a port of a pod of the release."""

    def __init__(self, source: Labels, namespace: str, target: Manifest, port: str) -> None:
        self._source = source
        self._namespace = namespace
        self._labels = target["spec"]["template"]["metadata"]["labels"]
        ports = target["spec"]["template"]["spec"]["containers"][0]["ports"]
        self._port = {one["name"]: one["containerPort"] for one in ports}[port], port

    def asked(self) -> dict[str, Any]:
        number, name = self._port
        source, target = _peer(self._source, self._namespace, "10.0.0.1"), _peer(self._labels, "apps", "10.0.0.2")
        port = {"Protocol": "TCP", "ResolvedPort": number, "ResolvedPortName": name}
        return {"Source": source, "Destination": target, **port}


def _peer(labels: Labels, namespace: str, address: str) -> dict[str, Any]:
    inside = {"PodLabels": dict(labels), "NamespaceLabels": {"name": namespace}, "Namespace": namespace}
    return {"Internal": inside, "IP": address}


def let_through(manifests: Sequence[Manifest], connections: Sequence[Connection], folder: Path) -> list[bool]:
    program = cyclonus_program()
    policies = [one for one in manifests if one["kind"] == "NetworkPolicy"]
    placed = [{**one, "metadata": {**one["metadata"], "namespace": "apps"}} for one in policies]
    all_ = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicyList", "items": placed}
    (folder / "policies.yaml").write_text(yaml.safe_dump(all_))
    (folder / "traffic.json").write_text(json.dumps([one.asked() for one in connections]))
    command = [str(program), "analyze", "--mode", "query-traffic", "--policy-path", str(folder / "policies.yaml")]
    done = subprocess.run([*command, "--traffic-path", str(folder / "traffic.json")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [word.lower() == "true" for word in _ALLOWED.findall(done.stdout)]
    assert len(found) == len(connections), done.stdout
    return found


def parts(manifests: Sequence[Manifest]) -> tuple[Manifest, Manifest]:
    """The nodes and the etcd."""
    sets = [one for one in manifests if one["kind"] == "StatefulSet"]
    found = {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in sets}
    return found["node"], found["etcd"]


def _labels(one: Manifest) -> Labels:
    found: Labels = one["spec"]["template"]["metadata"]["labels"]
    return found


def test_doors_are_for_everybody_and_what_nodes_say_to_each_other_and_to_etcd_is_for_nobody_else(
    tmp_path: Path,
) -> None:
    manifests = rendered({"networkPolicy": {"enabled": True}, "external": {"enabled": True}}, tmp_path)
    node, etcd = parts(manifests)
    other_release = {**_labels(node), "app.kubernetes.io/instance": "another"}
    yes = [Connection(SOMEBODY, "elsewhere", node, port) for port in DOORS]
    yes += [Connection(_labels(node), "apps", node, "node"), Connection(_labels(node), "apps", etcd, "client")]
    yes += [Connection(_labels(etcd), "apps", etcd, "peer"), Connection(SOMEBODY, "elsewhere", etcd, "metrics")]
    no = [Connection(SOMEBODY, "apps", node, "node"), Connection(_labels(node), "elsewhere", node, "node")]
    no += [Connection(who, "apps", etcd, port) for who in (SOMEBODY, other_release) for port in ("client", "peer")]
    no += [Connection(_labels(node), "elsewhere", etcd, "client"), Connection(other_release, "apps", node, "node")]
    assert let_through(manifests, [*yes, *no], tmp_path) == [True] * len(yes) + [False] * len(no)


def test_doors_are_for_the_clients_that_are_named_and_for_the_release_s_own_jobs(tmp_path: Path) -> None:
    clients = [{"namespaceSelector": {"matchLabels": {"name": "shop"}}}]
    acls = [{"user": "u", "operations": "read", "resource": "topic:orders"}]
    values = {"networkPolicy": {"enabled": True, "clients": clients}, "auth": {"authorization": True, "acls": acls}}
    manifests = rendered(values, tmp_path)
    node, _ = parts(manifests)
    (job,) = [one for one in manifests if one["kind"] == "Job"]
    doors = [port for port in DOORS if port != "external"]
    yes = [Connection(SOMEBODY, "shop", node, port) for port in doors] + [
        Connection(_labels(job), "apps", node, "rest")
    ]
    no = [Connection(SOMEBODY, "elsewhere", node, port) for port in doors]
    no += [Connection(_labels(job), "elsewhere", node, "rest"), Connection(SOMEBODY, "shop", node, "node")]
    assert let_through(manifests, [*yes, *no], tmp_path) == [True] * len(yes) + [False] * len(no)

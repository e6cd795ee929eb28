"""A release of the chart in a Kubernetes for tests, and what an operator does with it."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.deploy.helm import CHART, helm_program
from tests.kubernetes.lab import KubernetesLab, is_true, run

NAME: Final = "goqueue"
SPACE: Final = "shop"
_COMPONENT: Final = "app.kubernetes.io/component"
VALUES: Final[dict[str, Any]] = {
    "external": {"enabled": True},
    "etcd": {"replicas": 1, "image": {"repository": "etcd", "tag": "1", "pullPolicy": "Never"}},
    "image": {"pullPolicy": "Never"},
    "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    "settings": {"cluster": {"balance_interval_ms": "2s", "balance_by": "bytes", "balance_moves_max": 8}},
}


class Release:
    def __init__(self, lab: KubernetesLab, folder: Path) -> None:
        self._lab = lab
        self._folder = folder

    # --- helm --------------------------------------------------------------------------------------------------

    def install(self) -> float:
        return self._helm("install", "--create-namespace", values=VALUES)

    def upgrade(self, values: Mapping[str, Any], check: bool = True, within: str = "15m") -> float:
        return self._helm("upgrade", "--reuse-values", values=values, check=check, within=within)

    def rollback(self) -> None:
        environ = self._environ()
        run(str(helm_program()), "rollback", NAME, "--namespace", SPACE, "--wait", "--timeout", "10m", env=environ)

    def _helm(self, verb: str, *more: str, values: Mapping[str, Any], check: bool = True, within: str = "15m") -> float:
        """The seconds until everything was ready."""
        file, began = self._folder / "values.yaml", time.monotonic()
        file.write_text(yaml.safe_dump(dict(values)))
        words = (verb, NAME, str(CHART), "--namespace", SPACE, "--values", str(file), "--wait", "--timeout", within)
        done = run(str(helm_program()), *words, *more, check=check, env=self._environ(), timeout_s=1200)
        assert check or done.returncode != 0, "it should not have worked"
        return time.monotonic() - began

    def _environ(self) -> dict[str, str]:
        homes = {name: str(self._folder / "helm") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        return {**os.environ, **homes, "KUBECONFIG": str(self._lab.kubeconfig)}

    # --- what is there -----------------------------------------------------------------------------------------

    def pods(self, component: str = "node") -> dict[str, Mapping[str, Any]]:
        found = [one for one in self._lab.objects("pods") if one["metadata"]["namespace"] == SPACE]
        return {one["metadata"]["name"]: one for one in found if one["metadata"]["labels"].get(_COMPONENT) == component}

    def ready(self) -> list[str]:
        staying = {name: one for name, one in self.pods().items() if "deletionTimestamp" not in one["metadata"]}
        return sorted(name for name, one in staying.items() if is_true(one, "Ready"))

    def wait_ready(self, count: int, within_s: float = 300) -> float:
        return self._lab.wait(lambda: len(self.ready()) == count, f"{count} nodes should be ready", within_s)

    @property
    def operator(self) -> tuple[str, str]:
        words = ("get", "secret", f"{NAME}-auth", "--namespace", SPACE, "--output", "jsonpath={.data.operator}")
        user, _, password = base64.b64decode(self._lab.kubectl(*words).stdout).decode().partition(":")
        return user, password

    @property
    def bootstrap(self) -> str:
        """Node ports, each at the machine that its pod is on: others do not pass it on."""
        return ",".join(self.advertised().values())

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Of any node that is ready, and answers."""
        error: httpx.HTTPError = httpx.ConnectError("no node is ready")
        for name in self.ready():
            try:
                url = f"http://{self.pods()[name]['status']['podIP']}:8080{path}"
                return httpx.request(method, url, json=body, auth=self.operator, timeout=5).raise_for_status().json()
            except httpx.HTTPError as failed:
                error = failed
        raise error

    def uid(self, pod: str) -> str:
        return str(self.pods()[pod]["metadata"]["uid"])

    def signing_key(self) -> str:
        """`id:secret` of a new key of the operator's, for requests that are signed."""
        made = self.ask("POST", "/admin/keys", {"owner": self.operator[0], "signs": True})
        return f"{made['key']['id']}:{made['secret']}"

    def advertised(self) -> dict[int, str]:
        """What each node tells clients outside."""
        nodes = self.ask("GET", "/cluster/nodes")["nodes"]
        return {one["id"]: one["addresses"]["kafka_external"] for one in nodes}

    def held(self) -> dict[int, int]:
        """How many shards each node holds."""
        return {one["id"]: one["leads"] + one["follows"] for one in self.ask("GET", "/cluster/nodes")["nodes"]}

    def wait_new(self, pod: str, before: str) -> None:
        """Another one has taken its place."""
        self._lab.wait(lambda: self.uid(pod) != before, f"{pod} is not replaced")

    def wait_allowed(self, count: int) -> None:
        """The budget lets so many go."""
        self._lab.wait(lambda: self._allowed() == count, f"the budget does not let {count} go")

    def _allowed(self) -> int:
        (found,) = [one for one in self._lab.objects("poddisruptionbudgets") if one["metadata"]["name"] == NAME]
        return int(found["status"]["disruptionsAllowed"])

    # --- what is done ------------------------------------------------------------------------------------------

    def evict(self, pod: str) -> int:
        """As a drain does: the status."""
        return self._lab.evict(SPACE, pod)

    def kill(self, pod: str) -> None:
        """`kill -9` of its process; the kubelet starts another."""
        found = self.pods()[pod]
        (status,) = found["status"]["containerStatuses"]
        self._lab.kill(found["spec"]["nodeName"], status["containerID"].removeprefix("containerd://"))

    def restarts(self, pod: str) -> int:
        (status,) = self.pods()[pod]["status"]["containerStatuses"]
        return int(status["restartCount"])

    def delete_at_once(self, pod: str) -> None:
        words = ("delete", "pod", pod, "--namespace", SPACE, "--grace-period=0", "--force", "--wait=false")
        self._lab.kubectl(*words)

    def delete(self, pod: str) -> None:
        self._lab.kubectl("delete", "pod", pod, "--namespace", SPACE, "--wait=false")

    def lose_volume(self, pod: str) -> None:
        claim = f"data-{pod}"
        words = ("get", "pvc", claim, "--namespace", SPACE, "--output", "jsonpath={.spec.volumeName}")
        volume = self._lab.kubectl(*words).stdout
        self._lab.kubectl("delete", "pvc", claim, "--namespace", SPACE, "--wait=false")
        self.delete_at_once(pod)
        self._lab.kubectl("delete", "pv", volume, "--wait=false")

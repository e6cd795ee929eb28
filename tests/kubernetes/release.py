"""A release of the chart in a Kubernetes for tests, and what an operator does with it."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    "etcd": {"image": {"repository": "etcd", "tag": "1", "pullPolicy": "Never"}},
    "image": {"pullPolicy": "Never"},
    "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    "settings": {"cluster": {"balance_interval_ms": "2s", "balance_by": "bytes", "balance_moves_max": 8}},
}


class Release:
    """`values` go over those that all tests have."""

    def __init__(self, lab: KubernetesLab, folder: Path, values: Mapping[str, Any], space: str = SPACE) -> None:
        self._lab = lab
        self._folder = folder
        self._values = {**VALUES, **values}
        self._operator: tuple[str, str] | None = None
        self._forced: set[str] = set()  # pods by uid, whose hooks had no time
        self.space = space

    # --- helm --------------------------------------------------------------------------------------------------

    def install(self) -> float:
        seconds = self._helm("install", "--create-namespace", values=self._values)
        auth = {"enabled": True, "existingSecret": "", **self._values.get("auth", {})}
        if auth["enabled"]:
            name = auth["existingSecret"] or f"{NAME}-auth"
            secret = self._lab.get(self.space, "secrets", name)["data"]["operator"]
            user, _, password = base64.b64decode(secret).decode().partition(":")
            self._operator = user, password
        return seconds

    @contextmanager
    def installed(self) -> Iterator[float]:
        """Until the block is left. The seconds until everything was ready."""
        try:
            yield self.install()
        finally:
            self.uninstall()

    def upgrade(self, values: Mapping[str, Any], check: bool = True, within: str = "15m") -> float:
        return self._helm("upgrade", "--reuse-values", values=values, check=check, within=within)

    def rollback(self) -> None:
        self._run("rollback", NAME, "--wait", "--timeout", "10m")

    def uninstall(self) -> None:
        """And what it leaves behind on purpose: volumes."""
        self._run("uninstall", NAME, "--wait", "--timeout", "10m")
        self._lab.kubectl("delete", "namespace", self.space, "--timeout=300s")
        self._lab.renew_volumes()

    def _helm(self, verb: str, *more: str, values: Mapping[str, Any], check: bool = True, within: str = "15m") -> float:
        """The seconds until everything was ready."""
        file, began = self._folder / "values.yaml", time.monotonic()
        file.write_text(yaml.safe_dump(dict(values)))
        self._run(verb, NAME, str(CHART), "--values", str(file), "--wait", "--timeout", within, *more, check=check)
        return time.monotonic() - began

    def _run(self, *words: str, check: bool = True) -> None:
        homes = {name: str(self._folder / "helm") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        environ = {**os.environ, **homes, "KUBECONFIG": str(self._lab.kubeconfig)}
        command = (str(helm_program()), *words, "--namespace", self.space)
        done = run(*command, check=check, env=environ, timeout_s=1200)
        assert check or done.returncode != 0, "it should not have worked"

    # --- what is there -----------------------------------------------------------------------------------------

    def pods(self, component: str = "node") -> dict[str, Mapping[str, Any]]:
        found = [one for one in self._lab.objects("pods") if one["metadata"]["namespace"] == self.space]
        return {
            one["metadata"]["name"]: one
            for one in found
            if one["metadata"].get("labels", {}).get(_COMPONENT) == component
        }

    def ready(self) -> list[str]:
        staying = {name: one for name, one in self.pods().items() if "deletionTimestamp" not in one["metadata"]}
        return sorted(name for name, one in staying.items() if is_true(one, "Ready"))

    def wait_ready(self, count: int, within_s: float = 300) -> float:
        return self._lab.wait(lambda: len(self.ready()) == count, f"{count} nodes should be ready", within_s)

    def wait_whole(self, count: int, within_s: float = 300) -> float:
        """So many are ready, and every shard has its replicas."""
        return self._lab.wait(lambda: self._is_whole(count), f"{count} nodes should be whole", within_s)

    def _is_whole(self, count: int) -> bool:
        if len(self.ready()) != count:
            return False
        health = self.ask("GET", "/cluster/health")
        return bool(health["status"] == "ok" and health["nodes_alive"] == count)

    @property
    def operator(self) -> tuple[str, str]:
        assert self._operator is not None, "this release asks nobody who they are"
        return self._operator

    @property
    def bootstrap(self) -> str:
        """Node ports, each at the machine that its pod is on: others do not pass it on."""
        return ",".join(self.advertised().values())

    def ports(self) -> dict[str, int]:
        """Of every machine, by door: the client Service as node ports."""
        ports = self._lab.get(self.space, "services", NAME)["spec"]["ports"]
        return {one["name"]: int(one["nodePort"]) for one in ports}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Of any node that is ready, and answers."""
        error: httpx.HTTPError = httpx.ConnectError("no node is ready")
        for name in self.ready():
            try:
                url = f"http://{self.pods()[name]['status']['podIP']}:8080{path}"
                return httpx.request(method, url, json=body, auth=self._operator, timeout=5).raise_for_status().json()
            except httpx.HTTPError as failed:
                error = failed
        raise error

    def uid(self, pod: str) -> str:
        return str(self.pods()[pod]["metadata"]["uid"])

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

    def volume(self, pod: str) -> Path:
        """The folder of the volume that its claim has."""
        return self._lab.volume_folder(self._claimed(pod))

    def _claimed(self, pod: str) -> str:
        return str(self._lab.get(self.space, "persistentvolumeclaims", f"data-{pod}")["spec"]["volumeName"])

    def failed_hooks(self) -> list[str]:
        """What Kubernetes says of hooks that failed, but for pods that were taken away by force."""
        found = [one for one in self._lab.objects("events") if one["metadata"]["namespace"] == self.space]
        failed = [one for one in found if one["reason"] == "FailedPreStopHook"]
        return [str(one["message"]) for one in failed if one["involvedObject"]["uid"] not in self._forced]

    # --- what is done ------------------------------------------------------------------------------------------

    def evict(self, pod: str) -> int:
        """As a drain does: the status."""
        return self._lab.evict(self.space, pod)

    def kill(self, pod: str, component: str = "node") -> None:
        """`kill -9` of its process; the kubelet starts another."""
        self._lab.kill(*self._container(pod, component))

    def pid(self, pod: str) -> int:
        """Of its process."""
        return self._lab.pid(*self._container(pod, "node"))

    def _container(self, pod: str, component: str) -> tuple[str, str]:
        """Its machine and its id."""
        found = self.pods(component)[pod]
        (status,) = found["status"]["containerStatuses"]
        return found["spec"]["nodeName"], status["containerID"].removeprefix("containerd://")

    def restarts(self, pod: str) -> int:
        (status,) = self.pods()[pod]["status"]["containerStatuses"]
        return int(status["restartCount"])

    def execute(self, pod: str, *command: str) -> str:
        return self._lab.kubectl("exec", pod, "--namespace", self.space, "--", *command).stdout

    def delete(self, pod: str, *more: str) -> None:
        self._lab.kubectl("delete", "pod", pod, "--namespace", self.space, "--wait=false", *more)

    def lose_volume(self, pod: str) -> None:
        """With what is on it, and the process that used it: nothing is handed over."""
        volume = self._claimed(pod)
        self._forced.add(self.uid(pod))
        self._lab.kubectl("delete", "pvc", f"data-{pod}", "--namespace", self.space, "--wait=false")
        self.delete(pod, "--grace-period=0", "--force")
        self._lab.kubectl("delete", "pv", volume, "--wait=false")

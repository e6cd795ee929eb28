"""A Kubernetes of several machines on this one: a network namespace, a containerd, a kubelet and a proxy for each."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import httpx
import yaml

from bench.etcd_process import etcd_members
from goqueue.cli.cert import Authority
from tests.kubernetes.dns import ClusterNames
from tests.kubernetes.programs import CNI, alone, kube_program
from tests.waiting import let_pass, wait_until

NETWORK: Final = "10.171.0"
HOST: Final = f"{NETWORK}.1"
BRIDGE: Final = "gqkube"
SERVICES: Final = "10.173.0.0/24"
_WAIT_S: Final = 180.0
_API: Final = f"https://{HOST}:6443"


def run(*command: str, check: bool = True, timeout_s: float = 600, **more: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, **more)
    assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done


class Machine:
    """One of them."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.name = f"machine-{number}"
        self.namespace = f"gqkube{number}"
        self.address = f"{NETWORK}.{10 + number}"
        self.pods = f"10.172.{number}"
        self.folder = folder / self.name
        self.volumes = self.folder / "volumes"
        self.containerd = f"{self.folder}/containerd.sock"

    def inside(self, *command: str) -> list[str]:
        # `ip netns exec` would hide the cgroups.
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *command]


class KubernetesLab:
    """`with KubernetesLab(folder, images) as lab:` has all machines ready until the block is left."""

    def __init__(self, folder: Path, images: Sequence[Path], machines: int = 3) -> None:
        self._folder = folder
        self._images = images
        self._token = secrets.token_hex(16)
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._kubelets: list[subprocess.Popen[bytes]] = []
        self.machines = [Machine(number, folder) for number in range(machines)]
        self._volumes: dict[str, tuple[Machine, int]] = {}
        self.kubeconfig = folder / "kubeconfig"
        self._http = httpx.Client(base_url=_API, verify=False, headers={"Authorization": f"Bearer {self._token}"})

    # --- begin and end -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        kube_program()
        self._stack.enter_context(alone())
        try:
            self._network()
            self._control_plane()
            self._stack.enter_context(ClusterNames(HOST, self.objects))
            for machine in self.machines:
                self._machine(machine)
            self.wait(self._are_ready, "machines are not ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        _stopped(self._kubelets)  # first: they would start again what is ended
        for machine in self.machines:
            self._end_containers(machine)
        _stopped([*reversed(self._processes)])
        self._unmount()
        for machine in self.machines:
            run("ip", "netns", "delete", machine.namespace, check=False)
        run("ip", "link", "delete", BRIDGE, check=False)
        self._stack.close()
        self._http.close()

    def _end_containers(self, machine: Machine) -> None:
        ctr = self._ctr(machine.name)
        names = [Path(one) for one in self._pod_namespaces(ctr)]
        for word in run(*ctr, "tasks", "list", "--quiet", check=False).stdout.split():
            run(*ctr, "tasks", "kill", "--signal", "SIGKILL", word, check=False)
            run(*ctr, "tasks", "delete", "--force", word, check=False)
        for one in names:
            run("ip", "netns", "delete", one.name, check=False)

    def _pod_namespaces(self, ctr: Sequence[str]) -> set[str]:
        """Those that containers run in: nobody else takes them away when the kubelet is gone."""
        found = set()
        for word in run(*ctr, "containers", "list", "--quiet", check=False).stdout.split():
            spec = json.loads(run(*ctr, "containers", "info", "--spec", word, check=False).stdout or "{}")
            spaces = spec.get("linux", {}).get("namespaces", [])
            found |= {one["path"] for one in spaces if one["type"] == "network" and "/netns/" in one.get("path", "")}
        return found

    def _unmount(self) -> None:
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((one for one in mounts if one.startswith(f"{self._folder}/")), reverse=True):
            run("umount", "--lazy", place, check=False)

    def _start(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        (self._kubelets if name.endswith("-kubelet") else self._processes).append(process)

    # --- parts -------------------------------------------------------------------------------------------------

    def _network(self) -> None:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{HOST}/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for machine in self.machines:
            cable, inside = f"gqk{machine.number}", machine.inside
            run("ip", "netns", "add", machine.namespace)
            run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
            run("ip", "link", "set", cable, "master", BRIDGE, "up")
            run(*inside("ip", "address", "add", f"{machine.address}/24", "dev", "eth0"))
            run(*inside("ip", "link", "set", "eth0", "up"))
            run(*inside("ip", "link", "set", "lo", "up"))
            run(*inside("ip", "route", "add", "default", "via", HOST))
            run(*inside("sysctl", "-qw", "net.ipv4.ip_forward=1"))
            run("ip", "route", "add", f"{machine.pods}.0/24", "via", machine.address)
            for other in self.machines:
                if other is not machine:
                    run(*inside("ip", "route", "add", f"{other.pods}.0/24", "via", other.address))

    def _control_plane(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (store,) = self._stack.enter_context(etcd_members(self._folder, 1))
        Authority(self._folder, 2).issue("api", "kubernetes", [HOST, "10.173.0.1", *_names_of_api()])
        config = _kubeconfig(self._token, self._folder / "ca.crt")
        self.kubeconfig.write_text(config)
        (self._folder / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n')
        kube, folder = str(kube_program()), self._folder
        self._start(
            *("api", kube, "apiserver", f"--etcd-servers=http://{store.client}", f"--bind-address={HOST}"),
            *(f"--advertise-address={HOST}", "--secure-port=6443", f"--cert-dir={folder}"),
            *(f"--tls-cert-file={folder}/api.crt", f"--tls-private-key-file={folder}/api.key"),
            *(f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC", "--allow-privileged=true"),
            *(f"--service-cluster-ip-range={SERVICES}", "--kubelet-preferred-address-types=InternalIP"),
            *(f"--service-account-key-file={folder}/api.crt", f"--service-account-signing-key-file={folder}/api.key"),
            *("--service-account-issuer=https://kubernetes.default.svc", "--profiling=false"),
        )
        self.wait(lambda: self._http.get("/readyz").status_code == 200, "the API server is not ready")
        self._start(
            *("controllers", kube, "controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"),
            *(f"--service-account-private-key-file={folder}/api.key", f"--root-ca-file={folder}/ca.crt"),
            *("--node-monitor-grace-period=20s", "--bind-address=127.0.0.1"),
        )
        self._start(
            *("scheduler", kube, "scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"),
            "--bind-address=127.0.0.1",
        )

    def _machine(self, machine: Machine) -> None:
        machine.volumes.mkdir(parents=True)
        (machine.folder / "cni").mkdir()
        (machine.folder / "cni/10-pods.conflist").write_text(json.dumps(_pod_network(machine)))
        (machine.folder / "containerd.toml").write_text(_containerd(machine))
        (machine.folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(machine)))
        (machine.folder / "proxy.yaml").write_text(yaml.safe_dump(_proxy(machine, self.kubeconfig)))
        kube, inside = str(kube_program()), machine.inside
        self._start(
            f"{machine.name}-containerd", *inside("containerd", "--config", f"{machine.folder}/containerd.toml")
        )
        ctr = ("ctr", "--address", machine.containerd)
        self.wait(lambda: run(*ctr, "version", check=False).returncode == 0, "containerd does not answer")
        for image in self._images:
            run(*ctr, "--namespace", "k8s.io", "images", "import", str(image))
        self._start(
            f"{machine.name}-kubelet",
            *inside(kube, "kubelet", f"--config={machine.folder}/kubelet.yaml", f"--kubeconfig={self.kubeconfig}"),
            *(f"--hostname-override={machine.name}", f"--node-ip={machine.address}"),
            *(
                f"--root-dir={machine.folder}/kubelet",
                f"--node-labels=topology.kubernetes.io/zone=zone-{machine.number}",
            ),
        )
        self._start(f"{machine.name}-proxy", *inside(kube, "proxy", f"--config={machine.folder}/proxy.yaml"))

    def _are_ready(self) -> bool:
        return sum(is_true(one, "Ready") for one in self.objects("nodes")) == len(self.machines)

    # --- what is asked -----------------------------------------------------------------------------------------

    def objects(self, kind: str) -> list[Mapping[str, Any]]:
        group = {"statefulsets": "apis/apps/v1", "poddisruptionbudgets": "apis/policy/v1"}.get(kind, "api/v1")
        found: list[Mapping[str, Any]] = self._http.get(f"/{group}/{kind}").raise_for_status().json()["items"]
        return found

    def get(self, namespace: str, kind: str, name: str) -> Mapping[str, Any]:
        path = f"/api/v1/namespaces/{namespace}/{kind}/{name}"
        found: Mapping[str, Any] = self._http.get(path).raise_for_status().json()
        return found

    def phase(self, namespace: str, pod: str) -> str:
        return str(self.get(namespace, "pods", pod)["status"]["phase"])

    def kill(self, machine: str, container: str) -> None:
        run(*self._ctr(machine), "tasks", "kill", "--signal", "SIGKILL", container)

    def pid(self, machine: str, container: str) -> int:
        rows = [line.split() for line in run(*self._ctr(machine), "tasks", "list").stdout.splitlines()]
        return int(next(row[1] for row in rows if row[0] == container))

    def _ctr(self, machine: str) -> tuple[str, ...]:
        (found,) = [one for one in self.machines if one.name == machine]
        return ("ctr", "--address", found.containerd, "--namespace", "k8s.io")

    def cut_off(self, machine: Machine, is_cut: bool = True) -> None:
        """Its cable is out, or in again."""
        run("ip", "link", "set", f"gqk{machine.number}", "down" if is_cut else "up")

    def evict(self, namespace: str, pod: str) -> int:
        """The status: 201, or 429 if a budget does not allow it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        return self._http.post(f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", json=body).status_code

    def give_address(self, namespace: str, service: str, address: str) -> None:
        """As the controller of a cloud tells which one its load balancer has."""
        path, kind = f"/api/v1/namespaces/{namespace}/services/{service}/status", "application/merge-patch+json"
        body = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        self._http.patch(path, json=body, headers={"Content-Type": kind}).raise_for_status()

    def kubectl(self, *arguments: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return run(str(kube_program()), "kubectl", *arguments, check=check, env=environ, **more)

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        self.kubectl("apply", "--filename", "-", input=yaml.safe_dump_all([dict(one) for one in manifests]))

    def wait(self, holds: Callable[[], object], what: str, within_s: float = _WAIT_S) -> float:
        """The seconds that it took."""
        began = time.monotonic()
        wait_until(lambda: _answers(holds), lambda: f"{what}\n{self._pods_shown()}", within_s)
        return time.monotonic() - began

    def _pods_shown(self) -> str:
        return self.kubectl("get", "pods,pvc,nodes", "-A", "-o", "wide", check=False).stdout

    # --- volumes -----------------------------------------------------------------------------------------------

    def volumes(self, each: int) -> None:
        """Folders of machines as volumes that claims can take."""
        meta = {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        kind: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta}
        kind |= {"volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True}
        kind |= {"provisioner": "kubernetes.io/no-provisioner"}
        self._volumes = {_volume_name(one, number): (one, number) for one in self.machines for number in range(each)}
        self.apply(kind, *(_volume(*place) for place in self._volumes.values()))

    def volume_folder(self, name: str) -> Path:
        machine, number = self._volumes[name]
        return machine.volumes / str(number)

    def renew_volumes(self) -> None:
        """Those whose claim is gone, empty."""
        known = {one["metadata"]["name"]: one["status"]["phase"] for one in self.objects("persistentvolumes")}
        old = [name for name in self._volumes if known.get(name) in (None, "Released", "Failed")]
        if old:
            self.kubectl("delete", "pv", "--ignore-not-found", *old)
            self.apply(*(_volume(*self._volumes[name]) for name in old))


def _stopped(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _answers(holds: Callable[[], object]) -> bool:
    """Asked now and then: the API server has other things to do."""
    let_pass(0.2)
    try:
        return bool(holds())
    except (httpx.HTTPError, KeyError):
        return False


def is_true(one: Mapping[str, Any], condition: str) -> bool:
    return any((found["type"], found["status"]) == (condition, "True") for found in one["status"].get("conditions", []))


def _volume_name(machine: Machine, number: int) -> str:
    return f"{machine.name}-{number}"


def _volume(machine: Machine, number: int) -> dict[str, Any]:
    path = machine.volumes / str(number)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    here = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [machine.name]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _volume_name(machine, number)},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "local",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": here}},
        },
    }


def _names_of_api() -> list[str]:
    return ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]


def _kubeconfig(token: str, authority: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {"server": _API, "certificate-authority": str(authority)}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
            "current-context": "lab",
        }
    )


def _pod_network(machine: Machine) -> dict[str, Any]:
    """Each pod has a cable of its own to its machine: what goes to a Service passes the machine both ways."""
    ipam: dict[str, Any] = {
        "type": "host-local",
        "dataDir": f"{machine.folder}/addresses",
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    ipam["ranges"] = [[{"subnet": f"{machine.pods}.0/24"}]]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}


def _containerd(machine: Machine) -> str:
    return f"""version = 2
root = "{machine.folder}/containerd"
state = "{machine.folder}/run"
[grpc]
address = "{machine.containerd}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI}"
conf_dir = "{machine.folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.internal.v1.opt"]
path = "{machine.folder}/opt"
"""


def _kubelet(machine: Machine) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{machine.containerd}",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "clusterDNS": [HOST],
        "clusterDomain": "cluster.local",
        "failSwapOn": False,
        "featureGates": {"KubeletInUserNamespace": True},
        "oomScoreAdj": 0,
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
        "nodeStatusUpdateFrequency": "4s",
        "podLogsDir": f"{machine.folder}/logs",
        "syncFrequency": "10s",
    }


def _proxy(machine: Machine, kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": machine.name,
        "clusterCIDR": "10.172.0.0/16",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "nodePortAddresses": ["primary"],
    }

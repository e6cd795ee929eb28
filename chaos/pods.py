"""The ground of a run on Kubernetes: a release of the chart, whose clients come by ports of the machines."""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Final

from chaos.running import Outcome, Plan, Run, Tell
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.programs import require_programs, small_images
from tests.kubernetes.release import NAME, Release

NODES: Final = 3
# Clients of workloads do not show who they are.
VALUES: Final = {"auth": {"enabled": False}, "service": {"type": "NodePort"}}


class PodPlace:
    """One machine's door to the release, and the volume of one node. Any node answers over REST and SQS."""

    def __init__(self, release: Release, number: int, address: str, ports: dict[str, int]) -> None:
        self._release = release
        self._number = number
        self.url = f"http://{address}:{ports['rest']}"
        self.sqs = f"http://{address}:{ports['sqs']}"
        self.kafka = release.advertised()[number]

    @property
    def data_dir(self) -> Path:
        return self._release.volume(f"{NAME}-{self._number}") / "goqueue"


class PodCluster:
    def __init__(self, lab: KubernetesLab, release: Release) -> None:
        ports = release.ports()
        self.nodes = [PodPlace(release, one.number, one.address, ports) for one in lab.machines]
        self.running = [*range(NODES)]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.kafka for node in self.nodes)


class PodField:
    """In a Kubernetes that stands, with the release installed."""

    place = "pods of Kubernetes"
    skew_ms = 0.0

    def __init__(self, lab: KubernetesLab, release: Release) -> None:
        self.lab = lab
        self.release = release
        self.cluster = PodCluster(lab, release)
        ports = release.ports().values()
        doors = [(machine.address, port) for machine in lab.machines for port in ports]
        lab.wait(lambda: all(_is_open(*one) for one in doors), "node ports are closed: proxies come a moment later")

    def heal(self) -> None:
        for machine in self.lab.machines:
            self.lab.cut_off(machine, is_cut=False)
        self.release.wait_whole(NODES)
        self.lab.renew_volumes()


def _is_open(address: str, port: int) -> bool:
    with socket.socket() as tried:
        tried.settimeout(3)
        return tried.connect_ex((address, port)) == 0


class PodNemesis:
    """`begin` says what it did."""

    name = ""
    is_alone = True  # Kubernetes itself takes one thing after the other

    def __init__(self, field: PodField, chance: random.Random) -> None:
        self.field = field
        self.release = field.release
        self.chance = chance

    def begin(self) -> str:
        raise NotImplementedError

    def end(self) -> None:
        pass

    def pod(self) -> str:
        return f"{NAME}-{self.chance.randrange(NODES)}"


class KillProcess(PodNemesis):
    name = "pod-kill"
    is_alone = False

    def begin(self) -> str:
        pod = self.pod()
        self.release.kill(pod)
        return f"the process of {pod} is killed"


class DeletePod(PodNemesis):
    name = "pod-delete"

    def begin(self) -> str:
        pod = self.pod()
        self.release.delete(pod)
        return f"{pod} is deleted, and hands over before it goes"


class Evict(PodNemesis):
    """As a drain does: one is let go, the next is not."""

    name = "evict"

    def begin(self) -> str:
        first, second = self.chance.sample([f"{NAME}-{number}" for number in range(NODES)], 2)
        self.release.wait_allowed(1)
        told = self.release.evict(first), self.release.evict(second)
        assert told == (201, 429), f"evictions of {first} and {second} were answered {told}"
        return f"{first} is evicted, {second} may not go meanwhile"


class CutMachine(PodNemesis):
    name = "machine-cut"

    def begin(self) -> str:
        machine = self.chance.choice(self.field.lab.machines)
        self.field.lab.cut_off(machine)
        return f"{machine.name} is cut off"


class Upgrade(PodNemesis):
    name = "rolling-upgrade"

    def begin(self) -> str:
        self.release.upgrade({"podAnnotations": {"round": str(self.chance.random())}})
        return "all pods were replaced, one after the other"


class Scale(PodNemesis):
    name = "scale"

    def begin(self) -> str:
        self.release.upgrade({"replicas": 5})
        return "two more nodes joined"

    def end(self) -> None:
        self.release.upgrade({"replicas": NODES})


class LoseVolume(PodNemesis):
    name = "volume-lost"

    def begin(self) -> str:
        pod = self.pod()
        self.release.lose_volume(pod)
        return f"the volume of {pod} is lost"


class KillEtcd(PodNemesis):
    """One member, or two of three: nobody can change who leads until one is back."""

    name = "etcd-kill"

    def begin(self) -> str:
        chosen = self.chance.sample(sorted(self.release.pods("etcd")), self.chance.choice([1, 2]))
        for pod in chosen:
            self.release.kill(pod, "etcd")
        return f"killed: {', '.join(chosen)}"


_ALL: Final[tuple[type[PodNemesis], ...]] = (
    KillProcess,
    DeletePod,
    Evict,
    CutMachine,
    Upgrade,
    Scale,
    LoseVolume,
    KillEtcd,
)
POD_NEMESES: Final[dict[str, type[PodNemesis]]] = {one.name: one for one in _ALL}


def run_on_kubernetes(plan: Plan, image: Path, root: Path, tell: Tell) -> Outcome:
    """On three machines that are made here, with an image that `make image` wrote. `pytest.skip` where it cannot be."""
    require_programs()
    root.mkdir(parents=True, exist_ok=True)
    with KubernetesLab(root / "lab", [image, *small_images(image, root)]) as lab:
        lab.volumes(6)
        release = Release(lab, root, VALUES)
        tell(f"the chart is installed, and ready after {release.install():.1f} s")
        field, chance = PodField(lab, release), random.Random(plan.seed)
        acts = [POD_NEMESES[name](field, chance) for name in plan.nemeses]
        return Run(plan, field, acts, chance, tell).run({})  # volumes stay as they are, for who keeps them

"""What a Kubernetes for tests is made of: Kubernetes from its Go module in one program, containerd and runc of Debian,
and images. Everything comes from the path or the cache, or is built once.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from goqueue.cli.etcd_program import find_etcd
from goqueue.cli.go_program import BuildFailed, build_program
from tests.go_programs import cached, go_here
from tools.image.oci import Layer, image_archive, layer

VERSION: Final = "1.34.4"
CNI: Final = Path("/usr/lib/cni")
_SOURCE: Final = Path(__file__).parents[2] / "tools/kube"
_BUILD_S_MAX: Final = 3_000
_NEEDED: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
}


def kube_program() -> Path:
    """Skips the test where it cannot be had."""
    built = cached("kube", VERSION)
    if not built.exists():
        try:
            _build(go_here("Kubernetes"), built)
        except BuildFailed as error:
            pytest.skip(f"Kubernetes could not be built: {error}")
    return built


def _build(go: str, target: Path) -> None:
    os.environ["CGO_ENABLED"] = "0"
    names = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    parts = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": VERSION.split(".")[1]}
    flags = " ".join(f"-X {name}.{key}={value}" for name in names for key, value in parts.items())
    build = ("build", "-trimpath", "-tags", "providerless", "-ldflags", f"-s -w {flags}", "-o", "program", ".")
    files = {name: (_SOURCE / name).read_text() for name in ("main.go", "go.mod")}
    build_program(go, target, files, [("mod", "tidy"), build], _BUILD_S_MAX)


def require_programs() -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces and containers need root")
    if missing := sorted({package for name, package in _NEEDED.items() if shutil.which(name) is None}):
        pytest.skip(f"missing from Debian: {' '.join(missing)}")
    if not (CNI / "ptp").exists():
        pytest.skip("missing from Debian: containernetworking-plugins")


@contextmanager
def alone() -> Iterator[None]:
    """One lab at a time on a machine: their bridge and addresses are the same. Another one is waited for."""
    with Path("/tmp/goqueue-kubernetes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def small_images(goqueue: Path, folder: Path) -> list[Path]:
    """An etcd and what keeps a pod's namespaces, on the first layer of GoQueue's image."""
    base = first_layer(goqueue)
    root = folder / "etcd-root"
    (root / "usr/local/bin").mkdir(parents=True)
    shutil.copy(find_etcd(), root / "usr/local/bin/etcd")
    common = {"Env": ["PATH=/usr/local/bin:/usr/bin"], "User": "10001:10001"}
    wait = ["/usr/bin/python3.11", "-c", "import signal; signal.pause()"]
    made = {
        "etcd": ([base, layer(root)], {**common, "Entrypoint": ["/usr/local/bin/etcd"]}),
        "pause": ([base], {**common, "Entrypoint": wait}),
    }
    return [_written(folder, name, layers, settings) for name, (layers, settings) in made.items()]


def _written(folder: Path, name: str, layers: list[Layer], settings: Mapping[str, object]) -> Path:
    file = folder / f"{name}.tar"
    file.write_bytes(image_archive(layers, settings, f"{name}:1", "amd64"))
    return file


def first_layer(image: Path) -> Layer:
    with tarfile.open(image) as archive:

        def read(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        (described,) = json.loads(read("manifest.json"))
        config = json.loads(read(described["Config"]))
        return Layer(read(described["Layers"][0]), config["rootfs"]["diff_ids"][0], 0)

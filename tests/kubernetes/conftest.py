"""A Kubernetes that stands while all tests run, with the real image in it."""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.programs import kube_program, require_programs, small_images
from tools.image.__main__ import build


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesLab]:
    """`GOQUEUE_IMAGE` is a file that `make image` wrote; without, one is built."""
    if os.environ.get("GOQUEUE_KUBERNETES_TESTS") != "1":
        pytest.skip("runs with make test-kubernetes")
    faulthandler.cancel_dump_traceback_later()  # which would end the process, and leave machines and pods behind
    require_programs()
    kube_program()
    folder = tmp_path_factory.mktemp("kube")
    given = os.environ.get("GOQUEUE_IMAGE")
    image = Path(given) if given else folder / "goqueue-image.tar"
    if given is None:
        build(image, folder / "roots")
    began = time.monotonic()
    with KubernetesLab(folder / "lab", [image, *small_images(image, folder)]) as running:
        print(f"\nthree machines ready after {time.monotonic() - began:.1f} s", flush=True)
        running.volumes(6)
        yield running


@pytest.fixture(autouse=True)
def _takes_long() -> None:
    """Tests have time limits of their own."""
    faulthandler.cancel_dump_traceback_later()

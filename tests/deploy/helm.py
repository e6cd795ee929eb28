"""Helm for tests: from `HELM`, the path or the cache; built once by Go where the long forms of tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.go_programs import cached, module_program
from tests.long import LONG

VERSION: Final = "3.19.5"
CHART: Final = Path(__file__).parents[2] / "deploy/helm/goqueue"
KUBERNETES: Final = "1.34.0"
_MODULE: Final = "helm.sh/helm/v3"

Manifest = dict[str, Any]


def helm_program(may_build: bool = LONG) -> Path:
    """Skips the test where there is none."""
    found = os.environ.get("HELM") or shutil.which("helm")
    built = cached("helm", VERSION)
    if found or built.exists():
        return Path(found or built)
    if not may_build:
        pytest.skip("helm is not here; name one with HELM=/path, or let Go build it: GOQUEUE_LONG_TESTS=1")
    return module_program("helm", f"{_MODULE}/cmd/helm", VERSION, f"-X {_MODULE}/internal/version.version=v{VERSION}")


def helm(*arguments: str, values: Mapping[str, object] | None = None, folder: Path) -> subprocess.CompletedProcess[str]:
    """`values` go in as a file in `folder`, where Helm may also write."""
    command = [str(helm_program()), *arguments]
    if values is not None:
        file = folder / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        command += ["--values", str(file)]
    homes = {name: str(folder / "helm") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    environ = {**os.environ, **homes, "KUBECONFIG": str(folder / "none")}  # no cluster is asked
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ)


def rendered(values: Mapping[str, object], folder: Path, release: str = "shop") -> list[Manifest]:
    """What would be installed into the namespace `apps`."""
    done = helm(
        *("template", release, str(CHART), "--namespace", "apps", "--kube-version", KUBERNETES),
        values=values,
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]

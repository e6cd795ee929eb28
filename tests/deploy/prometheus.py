"""A Prometheus of a test's own, which scrapes every second and does not wait before it fires."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pytest

from goqueue.cli.cluster_dir import free_ports
from tests.waiting import wait_until
from tools.dashboards.files import alerting_rules, recording_rules
from tools.dashboards.text import yaml


class Prometheus:
    """Skips the test where there is none. `jobs` are the URLs that each job scrapes."""

    def __init__(self, root: Path, jobs: Mapping[str, Iterable[str]]) -> None:
        if shutil.which("prometheus") is None:
            pytest.skip("prometheus is missing; Debian has it in the package prometheus")
        root.mkdir()
        self._root = root
        (root / "recording.yml").write_text(recording_rules())
        (root / "alerts.yml").write_text(alerting_rules(wait="0s"))
        scrapes = [_job(name, [urlsplit(url) for url in urls]) for name, urls in jobs.items()]
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config: dict[str, Any] = {
            "global": every,
            "rule_files": ["recording.yml", "alerts.yml"],
            "scrape_configs": scrapes,
        }
        (root / "prometheus.yml").write_text(yaml(config))
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{free_ports(1)}", timeout=30)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self._root / "stderr").open("w") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._root}/prometheus.yml",
                    f"--storage.tsdb.path={self._root}/data",
                    f"--web.listen-address={self._http.base_url.host}:{self._http.base_url.port}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "GOMAXPROCS": "1"},
            )
        wait_until(self._is_ready, lambda: (self._root / "stderr").read_text())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._http.close()

    def _is_ready(self) -> bool:
        try:
            return self._http.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, expr: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found = self._http.get("/api/v1/query", params={"query": expr}).json()
        assert found["status"] == "success", f"{expr}: {found}"
        result: list[dict[str, Any]] = found["data"]["result"]
        return result

    def firing(self) -> set[str]:
        """The names of alerts."""
        found = self._http.get("/api/v1/alerts").json()["data"]["alerts"]
        return {one["labels"]["alertname"] for one in found if one["state"] == "firing"}

    def unhealthy_rules(self) -> dict[str, str]:
        """Rules that failed, and why."""
        groups = self._http.get("/api/v1/rules").json()["data"]["groups"]
        return {rule["name"]: rule["lastError"] for one in groups for rule in one["rules"] if rule["health"] == "err"}


def _job(name: str, urls: list[Any]) -> dict[str, Any]:
    job: dict[str, Any] = {"job_name": name, "static_configs": [{"targets": [url.netloc for url in urls]}]}
    if any(url.scheme == "https" for url in urls):
        job |= {"scheme": "https", "tls_config": {"insecure_skip_verify": True}}
    if urls and urls[0].path:
        job["metrics_path"] = urls[0].path
    return job

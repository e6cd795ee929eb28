"""A local S3 server with an empty bucket `lake`, and the usual variables that say where it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import httpx
import pytest

from tests.pipeline.victims import free_address
from tests.waiting import wait_until

SERVER = shutil.which("moto_server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
needs_s3 = pytest.mark.skipif(
    SERVER is None, reason="moto_server is not there: pip install flask flask-cors 'moto[s3]'"
)


@contextmanager
def s3_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    host, _, port = free_address().rpartition(":")
    assert SERVER is not None
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "moto.log").open("w") as log:
        server = subprocess.Popen([SERVER, "-H", host, "-p", port], stdout=log, stderr=log, env=environ)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        wait_until(lambda: _answers(f"http://{host}:{port}"), lambda: (folder / "moto.log").read_text())
        boto3.client("s3").create_bucket(Bucket="lake")
        yield
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code < 500
    except httpx.TransportError:
        return False

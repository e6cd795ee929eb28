"""Secrets that are there before a release is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.certificates import CertificateFiles


def secret(space: str, name: str, data: Mapping[str, str]) -> dict[str, Any]:
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "stringData": dict(data)}


def of_files(files: CertificateFiles) -> dict[str, str]:
    return {"tls.crt": files.cert.read_text(), "tls.key": files.key.read_text(), "ca.crt": files.ca.read_text()}

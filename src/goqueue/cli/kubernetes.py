"""`goqueue kubernetes`: what a pod has to ask its cluster for, since the image has no other program that could."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from goqueue.cli.failures import Failed
from goqueue.cli.show import remark

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024


@click.group()
def kubernetes() -> None:
    """For pods: ask the Kubernetes cluster that they run in."""


@kubernetes.command()
@click.argument("node")
@click.option("--label", default="topology.kubernetes.io/zone", show_default=True, help="The node's label to take.")
@click.option("--to", type=click.Path(path_type=Path), required=True, help="The file that gets it.")
@click.option("--api", default="https://kubernetes.default.svc", show_default=True, help="The API server.")
@click.option("--account", type=click.Path(path_type=Path), default=_ACCOUNT, help="Folder of token and ca.crt.")
def rack(node: str, label: str, to: Path, api: str, account: Path) -> None:
    """Write the zone of a Kubernetes node to a file.

    For `cluster.rack_file`; nothing if the node has no zone.
    """
    labels = _node(api, node, account).get("metadata", {}).get("labels") or {}
    found = str(labels.get(label, ""))
    to.write_text(found)
    remark(f"{label} of {node}: {found or 'none'}")


def _node(api: str, name: str, account: Path) -> dict[str, Any]:
    try:
        token = (account / "token").read_text("ascii").strip()
        context = ssl.create_default_context(cafile=account / "ca.crt") if api.startswith("https:") else None
    except OSError as error:
        raise Failed(f"There is no account to ask as: {error}.") from None
    asked = urllib.request.Request(f"{api}/api/v1/nodes/{quote(name, safe='')}")
    asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S, context=context) as answer:
            found = json.loads(answer.read(_ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        error.close()
        raise Failed(f"The API server refused to show node {name}: {error.code} {error.reason}.") from None
    except (OSError, ValueError) as error:
        raise Failed(f"The API server {api} cannot be asked: {error}.") from None
    return found if isinstance(found, dict) else {}

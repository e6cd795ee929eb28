"""The names of a Kubernetes cluster, answered from what its API server says: Services, and pods of headless ones."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

DOMAIN: Final = "svc.cluster.local"
_A: Final = 1
_TTL_S: Final = 1
Objects = Callable[[str], list[Mapping[str, Any]]]


def names_of(services: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Addresses by name."""
    found: dict[str, list[str]] = {}
    for service in services:
        meta, spec = service["metadata"], service["spec"]
        name = f"{meta['name']}.{meta['namespace']}.{DOMAIN}"
        if spec.get("clusterIP") not in (None, "", "None"):
            found[name] = [spec["clusterIP"]]
            continue
        for pod in pods:
            address, labels = pod["status"].get("podIP"), pod["metadata"].get("labels", {})
            is_chosen = pod["metadata"]["namespace"] == meta["namespace"] and _matches(spec.get("selector"), labels)
            if address and is_chosen and pod["status"]["phase"] == "Running":
                found.setdefault(name, []).append(address)
                found[f"{pod['metadata']['name']}.{name}"] = [address]
    return found


def _matches(selector: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    return bool(selector) and all(labels.get(key) == value for key, value in (selector or {}).items())


class ClusterNames:
    """`with ClusterNames(address, list_objects):` answers on port 53 of the address."""

    def __init__(self, address: str, objects: Objects) -> None:
        self._objects = objects
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._socket.settimeout(0.5)
        self._names: dict[str, list[str]] = {}
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._look, self._answer)]

    def __enter__(self) -> ClusterNames:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for one in self._threads:
            one.join()
        self._socket.close()

    def _look(self) -> None:
        while not self._ending.wait(0.3):
            try:
                self._names = names_of(self._objects("services"), self._objects("pods"))
            except Exception:
                continue

    def _answer(self) -> None:
        while not self._ending.is_set():
            try:
                asked, peer = self._socket.recvfrom(1500)
                self._socket.sendto(answer_to(asked, self._names), peer)
            except (OSError, ValueError, struct.error, IndexError):
                continue


def answer_to(asked: bytes, names: Mapping[str, list[str]]) -> bytes:
    """One question, one answer; a name that is not known does not exist."""
    number, _, questions = struct.unpack(">HHH", asked[:6])
    if questions != 1:
        raise ValueError("one question at a time")
    at, labels = 12, list[str]()
    while length := asked[at]:
        labels.append(asked[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    (kind,) = struct.unpack(">H", asked[at + 1 : at + 3])
    question, known = asked[12 : at + 5], names.get(".".join(labels))
    addresses = known or [] if kind == _A else []
    flags = 0x8580 if known is not None else 0x8583
    head = struct.pack(">HHHHHH", number, flags, 1, len(addresses), 0, 0)
    records = [struct.pack(">HHHIH", 0xC00C, _A, 1, _TTL_S, 4) + socket.inet_aton(one) for one in addresses]
    return head + question + b"".join(records)

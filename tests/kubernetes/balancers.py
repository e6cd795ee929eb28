"""What a cloud does for Services of type LoadBalancer: an address for each, which leads to a machine that serves it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final, Self

import httpx

from tests.kubernetes.lab import KubernetesLab, Machine, run

ADDRESSES: Final = "10.174.0"
_OF_CLIENTS: Final = 100  # of the first Service that belongs to no single node
_LOOK_S: Final = 0.5


class LoadBalancers:
    """Until the block is left, Services get `10.174.0.1N` for node N, and `10.174.0.100` and so on for others.

    A Service that wants local traffic only is sent to a machine whose proxy says, at the port that the Service names
    for it, that one of its pods is there.
    """

    def __init__(self, lab: KubernetesLab) -> None:
        self._lab = lab
        self._routes: dict[str, str] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="load balancers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)
        for address in self._routes:
            run("ip", "route", "delete", f"{address}/32", check=False)

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            try:
                self._serve()
            except httpx.HTTPError:
                continue  # the API server is asked again

    def _serve(self) -> None:
        found = [one for one in self._lab.objects("services") if one["spec"]["type"] == "LoadBalancer"]
        others = [one for one in found if node_of(one) is None]
        for one in found:
            node = node_of(one)
            number = 10 + node if node is not None else _OF_CLIENTS + others.index(one)
            address = f"{ADDRESSES}.{number}"
            machine = next((each for each in self._lab.machines if is_served(each, one)), None)
            if machine is not None and self._routes.get(address) != machine.address:
                run("ip", "route", "replace", f"{address}/32", "via", machine.address)
                self._routes[address] = machine.address
            if not one["status"].get("loadBalancer", {}).get("ingress"):
                self._lab.give_address(one["metadata"]["namespace"], one["metadata"]["name"], address)


def node_of(service: Mapping[str, Any]) -> int | None:
    pod = service["spec"]["selector"].get("statefulset.kubernetes.io/pod-name")
    return None if pod is None else int(pod.rpartition("-")[2])


def is_served(machine: Machine, service: Mapping[str, Any]) -> bool:
    port = service["spec"].get("healthCheckNodePort")
    if not port:
        return True
    try:
        return httpx.get(f"http://{machine.address}:{port}/", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False

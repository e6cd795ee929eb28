"""A client of the schema registry: new schemas, and old ones again."""

from __future__ import annotations

import json
import time
from typing import Final

import httpx

from chaos.clients import Client
from chaos.histories import Registrations
from tests.cluster.clients import Cluster

SUBJECTS: Final = 3
_PAUSE_S: Final = 0.2
_AGAIN: Final = 0.3


class Registrar(Client):
    """Registers Avro schemas at any node; one that nobody answered for is registered again."""

    def __init__(self, cluster: Cluster, seed: int, prefix: str) -> None:
        super().__init__(cluster, seed)
        self.subjects = [f"{prefix}-{number}" for number in range(SUBJECTS)]
        self.seen = Registrations()
        self._count = 0
        self._is_open = False  # whether the last one has no answer yet

    def prepare(self) -> None:
        for subject in self.subjects:
            url = f"{self.cluster.nodes[0].url}/config/{subject}"
            httpx.put(url, json={"compatibility": "NONE"}, timeout=30).raise_for_status()

    def work(self) -> None:
        if not self._is_open and self._count and self.chance.random() < _AGAIN:
            self._register(self.chance.randrange(self._count))
        else:
            self._count += not self._is_open
            self._is_open = not self._register(self._count - 1)
        self.stopping.wait(_PAUSE_S)

    def _register(self, number: int) -> bool:
        subject = self.subjects[number % SUBJECTS]
        began = time.monotonic()
        answer = self.rest("POST", f"/subjects/{subject}/versions", json={"schema": schema(number)})
        is_ok = answer is not None and answer.is_success
        self.ops.note(began, is_ok)
        if answer is not None and is_ok:
            told = answer.json()
            self.seen.registered(subject, number, (told["id"], told["version"]))
        return is_ok

    def found(self, node: int) -> dict[tuple[str, int], tuple[int, int]]:
        """All that a node has."""
        there: dict[tuple[str, int], tuple[int, int]] = {}
        url = self.cluster.nodes[node].url
        with httpx.Client(timeout=30) as client:
            for subject in self.subjects:
                for version in client.get(f"{url}/subjects/{subject}/versions").raise_for_status().json():
                    told = client.get(f"{url}/subjects/{subject}/versions/{version}").raise_for_status().json()
                    there[subject, number_of(told["schema"])] = told["id"], told["version"]
        return there


def schema(number: int) -> str:
    fields = [{"name": f"f{number}", "type": "long"}]
    return json.dumps({"type": "record", "name": f"R{number}", "fields": fields})


def number_of(text: str) -> int:
    return int(json.loads(text)["name"].removeprefix("R"))

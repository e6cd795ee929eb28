"""A REST member of a group, by plain HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import httpx


class Member:
    """Joins when it is made; does what heartbeats tell it."""

    def __init__(self, url: str, group: str, topic: str, name: str = "", **options: Any) -> None:
        self.http = httpx.Client(base_url=url, timeout=40)
        self.group = f"/groups/{group}"
        self.id = name or f"m-{uuid.uuid4()}"
        self.joining = {"client_id": "test", "topics": [topic], "member_id": self.id, **options}
        self.join()

    def join(self) -> None:
        told = self.http.post(f"{self.group}/join", json=self.joining)
        assert told.status_code == 200, told.text
        self.generation: int = told.json()["generation"]
        self.partitions = numbers(told.json()["assignment"])

    @property
    def who(self) -> dict[str, Any]:
        return {"member_id": self.id, "generation": self.generation}

    def ask_poll(self, timeout: str = "0", **query: Any) -> httpx.Response:
        return self.http.get(f"{self.group}/poll", params={**self.who, "timeout": timeout, **query})

    def poll(self, timeout: str = "0", **query: Any) -> list[str]:
        """Values; a rebalance is gone along with."""
        told = self.ask_poll(timeout, **query)
        assert told.status_code == 200, told.text
        self.generation = told.json()["generation"]
        if told.json()["rebalance"]:
            self.beat()
        return [one["value"] for one in told.json()["messages"]]

    def beat(self) -> dict[str, Any]:
        told = self.http.post(f"{self.group}/heartbeat", json=self.who)
        assert told.status_code == 200, told.text
        if revoke := told.json()["revoke"]:
            self.generation = told.json()["generation"]
            told = self.http.post(f"{self.group}/revoke", json={**self.who, "partitions": revoke})
            assert told.status_code == 200, told.text
        self.generation = told.json()["generation"]
        self.partitions = numbers(told.json()["assignment"])
        answer: dict[str, Any] = told.json()
        return answer

    def commit(self, topic: str, partition: int, offset: int) -> httpx.Response:
        offsets = [{"topic": topic, "partition": partition, "offset": offset}]
        return self.http.post(f"{self.group}/offsets", json={**self.who, "offsets": offsets})

    def leave(self) -> None:
        assert self.http.post(f"{self.group}/leave", json={"member_id": self.id}).status_code == 204
        self.close()

    def close(self) -> None:
        self.http.close()


def numbers(assignment: list[dict[str, Any]]) -> list[int]:
    return [number for one in assignment for number in one["partitions"]]


def wait_durable(*members: Member) -> None:
    """Everybody beats until nothing changes any more."""
    while True:
        before = [(one.generation, one.partitions) for one in members]
        for one in members:
            one.beat()
        if before == [(one.generation, one.partitions) for one in members]:
            return


Join: TypeAlias = Callable[..., Member]


@contextmanager
def members(server_url: str) -> Iterator[Join]:
    """Makes members, and closes their connections in the end."""
    made: list[Member] = []

    def join(group: str, topic: str, name: str = "", *, url: str = server_url, **options: Any) -> Member:
        made.append(Member(url, group, topic, name, **options))
        return made[-1]

    yield join
    for one in made:
        one.close()

"""Every REST route, Kafka API, SQS operation and gRPC method, asked by somebody of another tenant with every right:
nothing of the first is told, and nothing of it is changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.door.acls import test_grpc_matrix as by_grpc
from tests.door.acls import test_kafka_matrix as by_kafka
from tests.door.acls import test_rest_matrix as by_rest
from tests.door.acls import test_sqs_matrix as by_sqs
from tests.door.acls.ruled import ALL, Ruled, as_tenant, ruled_node

SECRET = "what-only-the-first-may-read"
TENANT = "other"
LISTS = ("/topics", "/groups", "/subjects", "/transactions", "/staged", "/admin/users", "/admin/keys", "/admin/quotas")
THINGS = ("/topics/orders", "/topics/orders/messages", "/groups/g", "/groups/g/offsets", "/subjects/s/versions/1")
NOT_ASKED = {"POST /admin/reassignment"}  # of a cluster


class First:
    """What is there, and belongs to no tenant."""

    def __init__(self, client: httpx.AsyncClient, access: Ruled) -> None:
        self.client = client
        self.access = access
        self.ids: set[str] = set()

    async def set_up(self) -> None:
        message = {"value": SECRET, "key": SECRET}
        (await self.client.post("/topics/orders/messages", json={"messages": [message]})).raise_for_status()
        (await self.client.post("/admin/tenants", json={"name": TENANT})).raise_for_status()
        self.ids = {(await self.client.get("/topics/orders")).json()["id"]}

    async def look(self) -> dict[str, Any]:
        self.access.set(ALL)
        found: dict[str, Any] = {}
        for path in LISTS:
            listed = (await self.client.get(path)).json()
            held = listed if isinstance(listed, list) else next(iter(listed.values()))
            found[path] = [_lasting(one) for one in held if f"{TENANT}~" not in str(one)]
        for path in THINGS:
            answer = await self.client.get(path)
            found[path] = (answer.status_code, answer.text)
        return found

    def told_in(self, text: str) -> bool:
        return SECRET in text or f"{TENANT}~" in text or any(one in text for one in self.ids)


def _lasting(one: Any) -> Any:
    """Without what changes as time goes by."""
    return {name: value for name, value in one.items() if not name.endswith("_ms")} if isinstance(one, dict) else one


@pytest.mark.asyncio
async def test_no_request_of_another_tenant_tells_or_changes_anything(tmp_path: Path) -> None:
    async with (
        ruled_node(tmp_path) as (access, started),
        httpx.AsyncClient(base_url=started.addresses["REST"], timeout=30) as client,
        httpx.AsyncClient(base_url=started.addresses["SQS"], timeout=30) as sqs,
        grpc.aio.insecure_channel(started.addresses["gRPC"]) as channel,
    ):
        walk = by_rest.Walk(client, access)
        await walk.set_up()
        (await client.post("/topics", json={"name": "q"})).raise_for_status()
        first = First(client, access)
        await first.set_up()
        before = await first.look()
        shown: list[str] = []
        with as_tenant(TENANT):
            for case in by_rest.CASES:
                if case.route not in NOT_ASKED:
                    answer = await walk.ask(case, ALL)
                    if first.told_in(answer.text) or answer.status_code >= 500:
                        shown.append(f"{case.route}: {answer.status_code} {answer.text[:300]}")
            for one in by_sqs.CASES:
                text = (await by_sqs.ask(sqs, one.operation, one.body)).text
                shown += [f"{one.operation}: {text[:300]}"] if first.told_in(text) or "InternalError" in text else []
            for method in by_grpc.CASES:
                text = await by_grpc.ask(channel, method)
                shown += [f"{method.method}: {text[:300]}"] if first.told_in(text) or "INTERNAL" in text else []
            for api in by_kafka.CASES:
                text = await _kafka(started.addresses["Kafka"], api, first.ids)
                shown += [f"{api.api}: {text[:300]}"] if first.told_in(text) else []
        assert shown == [], "\n".join(shown)
        assert await first.look() == before


async def _kafka(address: str, case: by_kafka.Case, ids: set[str]) -> str:
    host, _, port = address.rpartition(":")
    (topic_id,) = ids
    line = by_kafka.Line(*await asyncio.open_connection(host, int(port)), bytes.fromhex(topic_id.replace("-", "")))
    try:
        return repr(await asyncio.wait_for(line.ask(case.api, case.body), 20))
    finally:
        await line.close()

"""Every REST route, asked with no right, with too little and with just enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.door.acls.ruled import ALL, FREE, LISTED, Ruled, ruled_node, too_little

RECEIPT = "orders:0:7:1:nonce"
WHO = {"producer_id": "PRODUCER", "epoch": 0}
MESSAGES = [{"value": "v"}]
SCHEMA = {"schema": '"string"'}
CLUSTER, TXN = "describe cluster", "write transactional_id:txn"
READ_TOPIC, WRITE_TOPIC, SEE_TOPIC = "read topic:orders", "write topic:orders", "describe topic:orders"
READ_GROUP, SEE_GROUP = "read group:g", "describe group:g"
LETTERS = "orders.dlq"
SEE_SUBJECT, ALL_SUBJECTS = "describe subject:s", "alter subject:*"


class Case(NamedTuple):
    route: str
    needed: Sequence[str]
    body: Any = None
    query: dict[str, str] = {}


CASES = [
    Case("GET /topics", LISTED),
    Case("POST /topics", ["create topic:orders"], {"name": "orders"}),
    Case(
        "POST /topics",
        ["create topic:orders", "read topic:grave", "write topic:grave", "delete topic:grave"],
        {"name": "orders", "config": {"queue.dead.letter.topic": "grave"}},
    ),
    Case("GET /topics/{topic}", [SEE_TOPIC]),
    Case("PATCH /topics/{topic}", ["alter_configs topic:orders"], {"config": {"retention.ms": "7000000"}}),
    Case("PATCH /topics/{topic}", ["alter topic:orders"], {"num_partitions": 1}),
    Case("POST /admin/topics/{topic}/partitions", ["alter topic:orders"], {"partitions": 1}),
    Case("DELETE /topics/{topic}", ["delete topic:gone"]),
    Case("GET /topics/{topic}/partitions", [SEE_TOPIC]),
    Case("POST /topics/{topic}/messages", [WRITE_TOPIC], {"messages": MESSAGES}),
    Case("GET /topics/{topic}/messages", [READ_TOPIC]),
    Case("GET /topics/{topic}/partitions/{partition}/messages", [READ_TOPIC]),
    Case("GET /topics/{topic}/tail", [READ_TOPIC], query={"from": "latest"}),
    Case("GET /topics/{topic}/search", [READ_TOPIC]),
    Case("GET /topics/{topic}/delayed", [READ_TOPIC]),
    Case("GET /topics/{topic}/delayed/calendar", [SEE_TOPIC]),
    Case("GET /topics/{topic}/delayed/{partition}/{offset}", [READ_TOPIC]),
    Case("DELETE /topics/{topic}/delayed/{partition}/{offset}", [WRITE_TOPIC]),
    Case("GET /delay/stats", ["describe topic:*"]),
    Case("GET /groups", LISTED),
    Case("GET /groups/{group}", [SEE_GROUP]),
    Case("DELETE /groups/{group}", ["delete group:g"]),
    Case("POST /groups/{group}/join", [READ_GROUP, READ_TOPIC], {"client_id": "c", "topics": ["orders"]}),
    Case("POST /groups/{group}/heartbeat", [READ_GROUP], {"member_id": "m", "generation": 1}),
    Case("POST /groups/{group}/revoke", [READ_GROUP], {"member_id": "m", "generation": 1, "partitions": []}),
    Case("POST /groups/{group}/leave", [READ_GROUP], {"member_id": "m"}),
    Case("GET /groups/{group}/poll", [READ_GROUP], query={"member_id": "m", "generation": "1"}),
    Case("GET /groups/{group}/offsets", [SEE_GROUP]),
    Case(
        "POST /groups/{group}/offsets",
        [READ_GROUP, READ_TOPIC],
        {"offsets": [{"topic": "orders", "partition": 0, "offset": 0}]},
    ),
    Case("POST /groups/{group}/offsets/reset", [READ_GROUP, READ_TOPIC], {"topic": "orders", "to": "earliest"}),
    Case("GET /groups/{group}/rebalance/stats", [SEE_GROUP]),
    Case("POST /messages/ack", [READ_TOPIC], {"receipt": RECEIPT}),
    Case("POST /messages/nack", [READ_TOPIC], {"receipt": RECEIPT}),
    Case("POST /messages/reject", [READ_TOPIC], {"receipt": RECEIPT}),
    Case("POST /messages/visibility", [READ_TOPIC], {"receipt": RECEIPT, "timeout": 1}),
    Case("POST /producers/init", [TXN], {"transactional_id": "txn"}),
    Case("POST /producers/init", ["write transactional_id:*"], {}),
    Case("POST /producers/{producer}/heartbeat", [TXN], {}),
    Case("POST /transactions/begin", [TXN], WHO),
    Case("POST /transactions/publish", [TXN, WRITE_TOPIC], {**WHO, "topic": "orders", "messages": MESSAGES}),
    Case("POST /transactions/add-partition", [TXN, WRITE_TOPIC], {**WHO, "topic": "orders", "partition": 0}),
    Case(
        "POST /transactions/offsets",
        [TXN, READ_GROUP, READ_TOPIC],
        {**WHO, "group": "g", "offsets": [{"topic": "orders", "partition": 0, "offset": 0}]},
    ),
    Case("POST /transactions/ack", [TXN, READ_TOPIC], {**WHO, "receipt": RECEIPT}),
    Case("POST /transactions/nack", [TXN, READ_TOPIC], {**WHO, "receipt": RECEIPT}),
    Case("POST /transactions/reject", [TXN, READ_TOPIC], {**WHO, "receipt": RECEIPT}),
    Case("POST /transactions/commit", [TXN], WHO),
    Case("POST /transactions/abort", [TXN], WHO),
    Case("POST /transactions/abort", ["alter cluster"], {"transactional_id": "txn"}),
    Case("GET /transactions", LISTED, query={"state": "all"}),
    Case("GET /transactions/stats", ["describe transactional_id:*"]),
    Case("GET /transactions/{id}", ["describe transactional_id:txn"]),
    Case("POST /staged/{owner}/{batch}/writers", ["write transactional_id:o"], {"writer": "w"}),
    Case("POST /staged/{owner}/{batch}/commit", ["write transactional_id:o"], {"writers": []}),
    Case("POST /staged/{owner}/{batch}/abort", ["write transactional_id:o"]),
    Case("GET /staged", LISTED),
    Case("GET /staged/{owner}", ["describe transactional_id:o"]),
    Case("GET /topics/{topic}/dlq", [READ_TOPIC]),
    Case("GET /topics/{topic}/dlq/stats", [SEE_TOPIC]),
    Case("POST /topics/{topic}/dlq/redrive", [SEE_TOPIC, f"alter topic:{LETTERS}", "write topic:to"], {"to": "to"}),
    Case("POST /topics/{topic}/dlq/redrive", [f"alter topic:{LETTERS}", WRITE_TOPIC], {}),
    Case("POST /topics/{topic}/dlq/redrive", [SEE_TOPIC, f"describe topic:{LETTERS}"], {"dry_run": True}),
    Case(
        "POST /topics/{topic}/dlq/redrive",
        [SEE_TOPIC, f"describe topic:{LETTERS}", "write topic:to"],
        {"dry_run": True, "to": "to"},
    ),
    Case("GET /topics/{topic}/dlq/redrive", [SEE_TOPIC, f"describe topic:{LETTERS}"]),
    Case("GET /topics/{topic}/dlq/{partition}/{offset}", [READ_TOPIC]),
    Case("DELETE /topics/{topic}/dlq/{partition}/{offset}", ["delete topic:orders"]),
    Case("GET /queues/{group}/{topic}/leases", [READ_GROUP, READ_TOPIC]),
    Case("GET /queues/{group}/{topic}/peek", [READ_GROUP, READ_TOPIC]),
    Case("GET /reliability/stats", LISTED),
    Case("GET /priority/stats", LISTED),
    Case("GET /traces", [CLUSTER]),
    Case("GET /traces/search", [CLUSTER], query={"topic": "orders"}),
    Case("GET /traces/stats", [CLUSTER]),
    Case("GET /traces/{id}", [CLUSTER]),
    Case("GET /subjects", LISTED),
    Case("GET /subjects/{subject}/versions/{version}/schema", [SEE_SUBJECT]),
    Case("GET /subjects/{subject}/versions/{version}/referencedby", [SEE_SUBJECT]),
    Case("GET /subjects/{subject}/versions/{version}", [SEE_SUBJECT]),
    Case("DELETE /subjects/{subject}/versions/{version}", ["delete subject:gone"]),
    Case("GET /subjects/{subject}/versions", [SEE_SUBJECT]),
    Case("POST /subjects/{subject}/versions", ["write subject:s"], SCHEMA),
    Case("GET /subjects/{subject}/metadata", [SEE_SUBJECT]),
    Case("POST /subjects/{subject}", [SEE_SUBJECT], SCHEMA),
    Case("DELETE /subjects/{subject}", ["delete subject:gone"]),
    Case("GET /schemas", LISTED),
    Case("GET /schemas/types", FREE),
    Case("GET /schemas/stats", ["describe subject:*"]),
    Case("GET /schemas/ids/{id}/schema", ["hidden", SEE_SUBJECT]),
    Case("GET /schemas/ids/{id}/subjects", ["hidden", SEE_SUBJECT]),
    Case("GET /schemas/ids/{id}/versions", ["hidden", SEE_SUBJECT]),
    Case("GET /schemas/ids/{id}", ["hidden", SEE_SUBJECT]),
    Case("GET /schemas/guids/{guid}/ids", ["hidden", SEE_SUBJECT]),
    Case("GET /schemas/guids/{guid}", ["hidden", SEE_SUBJECT]),
    Case("POST /compatibility/subjects/{subject}/versions/{version}", [SEE_SUBJECT], SCHEMA),
    Case("POST /compatibility/subjects/{subject}/versions", [SEE_SUBJECT], SCHEMA),
    Case("POST /schemas/decode", FREE, {"values": [{"value": "AAAAAAEC", "encoding": "base64"}]}),
    Case("GET /contexts", FREE),
    Case("GET /metadata/version", FREE),
    Case("GET /config", ["describe subject:*"]),
    Case("PUT /config", [ALL_SUBJECTS], {"compatibility": "NONE"}),
    Case("DELETE /config", [ALL_SUBJECTS]),
    Case("GET /config/{subject}", [SEE_SUBJECT]),
    Case("PUT /config/{subject}", ["alter subject:s"], {"compatibility": "NONE"}),
    Case("DELETE /config/{subject}", ["alter subject:s"]),
    Case("GET /mode", ["describe subject:*"]),
    Case("PUT /mode", [ALL_SUBJECTS], {"mode": "READWRITE"}),
    Case("DELETE /mode", [ALL_SUBJECTS]),
    Case("GET /mode/{subject}", [SEE_SUBJECT]),
    Case("PUT /mode/{subject}", ["alter subject:s"], {"mode": "READWRITE"}),
    Case("DELETE /mode/{subject}", ["alter subject:s"]),
    Case("GET /admin/acls", [CLUSTER]),
    Case("POST /admin/acls", ["alter cluster"], {"rules": []}),
    Case("DELETE /admin/acls", ["alter cluster"], query={"name": "nothing"}),
    Case("GET /admin/acls/explain", [CLUSTER], query={"user": "a", "operation": "read", "resource": "topic:t"}),
    Case("GET /usage", FREE),
    Case("GET /admin/tenants", [CLUSTER]),
    Case("POST /admin/tenants", ["alter cluster"], {"name": "new"}),
    Case("GET /admin/tenants/{tenant}", [CLUSTER]),
    Case("DELETE /admin/tenants/{tenant}", ["alter cluster"]),
    Case("POST /admin/backups", ["alter cluster"]),
    Case("GET /admin/backups", ["alter cluster"]),
    Case("GET /admin/backups/{backup}/files", ["alter cluster"]),
    Case("POST /admin/backups/{backup}/read", ["alter cluster"], {"parts": [{"file": 0, "position": 0, "size": 0}]}),
    Case("DELETE /admin/backups/{backup}", ["alter cluster"]),
    Case("GET /admin/users", [CLUSTER]),
    Case("POST /admin/users", ["alter cluster"], {"name": "new", "password": "a password"}),
    Case("GET /admin/users/{user}", [CLUSTER]),
    Case("PATCH /admin/users/{user}", ["alter cluster"], {"disabled": False}),
    Case("GET /admin/keys", [CLUSTER]),
    Case("POST /admin/keys", ["alter cluster"], {"owner": "ada"}),
    Case("POST /admin/keys/{key}/rotate", ["alter cluster"], {}),
    Case("DELETE /admin/keys/{key}", ["alter cluster"]),
    Case("DELETE /admin/users/{user}", ["alter cluster"]),
    Case("GET /admin/quotas", ["describe_configs cluster"]),
    Case("POST /admin/quotas", ["alter_configs cluster"], {"user": "x", "limits": {}}),
    Case("DELETE /admin/quotas", ["alter_configs cluster"], query={"user": "x"}),
    Case("GET /cluster/state", [CLUSTER]),
    Case("GET /cluster/health", [CLUSTER]),
    Case("GET /cluster/metadata", [CLUSTER]),
    Case("GET /cluster/nodes", [CLUSTER]),
    Case("GET /cluster/shards", [CLUSTER]),
    Case("POST /admin/reassignment", [CLUSTER], {"rebalance": True, "dry_run": True}),
    Case("POST /admin/reassignment", ["alter cluster"], {"rebalance": True}),
    Case("GET /admin/reassignment", [CLUSTER]),
    Case("PATCH /admin/reassignment", ["alter cluster"], {"throttle": 0}),
    Case("DELETE /admin/reassignment", ["alter cluster"]),
    Case("DELETE /cluster/nodes/{node}", ["alter cluster"]),
    Case("POST /cluster/nodes/{node}/fill", ["alter cluster"]),
    Case("GET /cluster/nodes/{node}/restart-safe", [CLUSTER]),
    Case("POST /cluster/nodes/{node}/hand-over", ["alter cluster"]),
    Case("DELETE /cluster/nodes/{node}/hand-over", ["alter cluster"]),
    Case("POST /cluster/shards/{shard}/elect", ["alter cluster"]),
    Case("GET /healthz", FREE),
    Case("GET /livez", FREE),
    Case("GET /readyz", FREE),
    Case("GET /version", FREE),
    Case("GET /stats", [CLUSTER]),
    Case("GET /metrics", [CLUSTER]),
    Case("GET /doors", FREE),
    Case("GET /whoami", FREE),
    Case("GET /settings/topics", FREE),
    Case("GET /history", [CLUSTER]),
    Case("GET /admin/audit", [CLUSTER]),
]
# An id of a redrive is looked up first: it is one that was never given here, for everybody.
WITHOUT_THING = {"GET /topics/{topic}/dlq/redrive/{id}", "DELETE /topics/{topic}/dlq/redrive/{id}"}
PATHS = {
    "partition": "0",
    "offset": "0",
    "group": "g",
    "owner": "o",
    "batch": "1",
    "version": "1",
    "node": "1",
    "shard": "0",
}


class Walk:
    def __init__(self, client: httpx.AsyncClient, access: Ruled) -> None:
        self._client = client
        self._access = access
        self.names: dict[str, str] = dict(PATHS)

    async def set_up(self) -> None:
        self._access.set(ALL)
        for topic in ("orders", "to"):
            (await self._client.post("/topics", json={"name": topic})).raise_for_status()
        (await self._client.post("/topics/orders/messages", json={"messages": MESSAGES})).raise_for_status()
        made = (await self._client.post("/producers/init", json={"transactional_id": "txn"})).json()
        self.names["producer"] = str(made["producer_id"])
        await self._client.post("/groups/g/join", json={"client_id": "c", "topics": ["orders"]})
        await self._client.post("/staged/o/1/writers", json={"writer": "w"})
        await self._client.post("/admin/users", json={"name": "ada", "password": "a password"})
        key = (await self._client.post("/admin/keys", json={"owner": "ada"})).json()["key"]["id"]
        await self._client.post("/admin/tenants", json={"name": "t"})
        backup = (await self._client.post("/admin/backups")).json()["id"]
        self.names |= {"user": "ada", "key": key, "tenant": "t", "backup": backup}
        schema = (await self._client.post("/subjects/s/versions", json=SCHEMA)).json()
        self.names |= {"guid": schema["guid"], "schema": str(schema["id"])}

    async def ask(self, case: Case, rights: Sequence[str]) -> httpx.Response:
        self._access.set(rights)
        method, _, path = case.route.partition(" ")
        resources = [right.partition(" ")[2].partition(":")[2] for right in case.needed]
        gone = "gone" in resources
        names = {"topic": "gone" if gone else "orders", "subject": "gone" if gone else "s", **self.names}
        names["id"] = self.names["schema"] if path.startswith("/schemas") else "txn"
        body = case.body
        if isinstance(body, dict) and body.get("producer_id") == "PRODUCER":
            body = {**body, "producer_id": int(self.names["producer"])}
        request = self._client.build_request(method, path.format(**names), json=body, params=case.query)
        answer = await self._client.send(request, stream=True)
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):  # which never ends
            await answer.aread()
        else:
            answer._content = b""
        await answer.aclose()
        return answer


async def mistakes_in(walk: Walk, case: Case) -> list[str]:
    if case.needed in (FREE, LISTED):
        answer = await walk.ask(case, [])
        everything = await walk.ask(case, ALL)
        if case.needed == FREE:
            return [] if answer.status_code != 403 else [f"{case.route} is refused"]
        hides = answer.status_code == 200 and "orders" not in answer.text and "txn" not in answer.text
        return [] if hides and everything.status_code == 200 else [f"{case.route} shows {answer.text}"]
    refused = 404 if case.needed[0] == "hidden" else 403
    needed = [right for right in case.needed if right != "hidden"]
    found: list[str] = []
    for rights in [[], *too_little(needed)]:
        answer = await walk.ask(case, rights)
        if answer.status_code != refused:
            found.append(f"{case.route} with {rights} is {answer.status_code}: {answer.text[:200]}")
    answer = await walk.ask(case, needed)
    if answer.status_code in (403, 405, 422, 500, refused):
        found.append(f"{case.route} with {needed} is {answer.status_code}: {answer.text[:200]}")
    if answer.status_code == 400:
        found.append(f"{case.route} is asked wrongly: {answer.text[:200]}")
    return found


@pytest.mark.asyncio
async def test_every_route_is_refused_without_its_right_and_answered_with_it(tmp_path: Path) -> None:
    async with (
        ruled_node(tmp_path) as (access, started),
        httpx.AsyncClient(base_url=started.addresses["REST"]) as client,
    ):
        walk = Walk(client, access)
        await walk.set_up()
        documented = (await client.get("/openapi.json")).json()["paths"]
        routes = {f"{method.upper()} {path}" for path, methods in documented.items() for method in methods}
        assert routes == {case.route for case in CASES} | WITHOUT_THING, "a route without a rule"
        found = [mistake for case in CASES for mistake in await mistakes_in(walk, case)]
        assert found == [], "\n".join(found)

"""A little of everything that a node counts, so that every panel has something to show."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.node_process import NodeProcess
from goqueue.pipeline.counters import Counters, render


class Load:
    """`step` does it once; it is called until all is seen."""

    def __init__(self, node: NodeProcess) -> None:
        self.topic = f"orders-{uuid.uuid4().hex[:6]}"
        self.group = f"g-{self.topic}"
        self._kafka = node.kafka
        self._http = httpx.Client(base_url=node.url, timeout=60)
        self._http.post("/topics", json={"name": self.topic}).raise_for_status()
        joined = self._post(f"/groups/{self.group}/join", client_id="c", topics=[self.topic])
        self._member = {"member_id": joined["member_id"], "generation": joined["generation"]}
        self._producer = Producer({"bootstrap.servers": node.kafka, "transactional.id": self.topic})
        self._producer.init_transactions(60)

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._http.post(path, json=body).raise_for_status().json()
        return found

    def step(self) -> None:
        plain = [{"value": str(one), "priority": ("high", "normal")[one % 2]} for one in range(12)]
        self._post(f"/topics/{self.topic}/messages", messages=[*plain, {"value": "later", "delay": "50ms"}])
        self._http.get(f"/topics/{self.topic}/messages")
        page = self._http.get(f"/groups/{self.group}/poll", params={**self._member, "limit": 6}).json()["messages"]
        receipts = [one["receipt"] for one in page]
        self._answer("ack", receipts[:3])
        self._answer("nack", receipts[3:4])
        self._answer("reject", receipts[4:5])
        self._commit()
        self._in_transaction()

    def _answer(self, verb: str, receipts: list[str]) -> None:
        if receipts:
            self._post(f"/messages/{verb}", receipts=receipts)

    def _commit(self) -> None:
        with contextlib.closing(Consumer({"bootstrap.servers": self._kafka, "group.id": f"k-{self.group}"})) as one:
            one.commit(offsets=[TopicPartition(self.topic, 0, 1)], asynchronous=False)

    def _in_transaction(self) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self.topic, b"t")
        self._producer.commit_transaction(60)

    def close(self) -> None:
        self._http.close()


@contextlib.contextmanager
def pipeline_page() -> Iterator[str]:
    """The numbers of a pipeline, served as a lake's directory would be; its URL."""
    text = render(
        "bronze", Counters(runs=3, failures=1, rows_in=10, rows_out=9, batches=2, seconds=4, facts={"late": 1})
    )

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/bronze.prom"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

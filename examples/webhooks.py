"""Deliver webhooks: what cannot be delivered is tried again with a growing pause, and becomes a dead letter in the end.

python examples/webhooks.py [http://localhost:8080]
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx

from goqueue.client import Client

BROKER = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"


class Customer(BaseHTTPRequestHandler):
    """Somebody who wants to be told, and is away at the first try."""

    heard: list[str] = []
    tries = 0

    def do_POST(self) -> None:
        Customer.tries += 1
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(503 if Customer.tries == 1 else 204)
        self.end_headers()
        if Customer.tries > 1:
            Customer.heard.append(json.loads(body)["event"])

    def log_message(self, *_: object) -> None: ...


server = HTTPServer(("127.0.0.1", 0), Customer)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/hook"

with Client(BROKER) as client:
    client.create_topic("webhooks", config={"queue.retry.ms": 100, "queue.max.failures": 5}, exist_ok=True)
    for event in ("order.paid", "order.sent"):
        client.publish("webhooks", json.dumps({"url": url, "event": event}), key=url)
    with client.consumer("webhook-senders", ["webhooks"], mode="shared") as consumer:
        for message in consumer:
            hook = json.loads(message.text)
            answer = httpx.post(hook["url"], json={"event": hook["event"]})
            if answer.is_error:
                message.nack(reason=f"HTTP {answer.status_code}")
            else:
                message.ack()
            if len(Customer.heard) == 2:
                break
server.shutdown()
server.server_close()
print(sorted(Customer.heard), "after", Customer.tries, "tries")

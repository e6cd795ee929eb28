"""One event, several departments: every group gets every message, and goes at its own pace.

python examples/fan_out.py [http://localhost:8080]
"""

import sys

from goqueue.client import Client

with Client(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080") as client:
    client.create_topic("sales", partitions=1, exist_ok=True)
    client.publish_many("sales", ["teapot", "cup"])
    for group in ("billing", "shipping", "statistics"):
        with client.consumer(f"sales-{group}", ["sales"]) as consumer:
            sold = consumer.poll(limit=2, timeout=30.0)
            consumer.ack(*sold)
            print(group, [message.text for message in sold])

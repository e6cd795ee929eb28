"""Answer urgent tickets first, without letting the others wait for ever: priorities are lanes with shares.

python examples/support_tickets.py [http://localhost:8080]
"""

import sys
from collections import Counter

from goqueue.client import Client, NewMessage

with Client(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080") as client:
    client.create_topic("tickets", partitions=1, exist_ok=True)
    client.publish_many("tickets", [NewMessage(f"question {n}", priority="low") for n in range(100)])
    client.publish_many("tickets", [NewMessage(f"outage {n}", priority="critical") for n in range(100)])
    with client.consumer("support", ["tickets"], mode="shared") as consumer:
        first = consumer.poll(limit=57, timeout=30.0)
        consumer.ack(*first)
        answered = Counter(message.text.split()[0] for message in first)
print("of the first", sum(answered.values()), "tickets", answered["outage"], "were outages")

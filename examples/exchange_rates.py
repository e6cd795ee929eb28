"""A table that everybody can read: a compacted topic keeps the last value of every key.

python examples/exchange_rates.py [http://localhost:8080]
"""

import sys

from goqueue.client import Client, NewMessage


def table(client: Client) -> dict[str, str]:
    """The newest value of each key, read from the beginning."""
    found: dict[str, str] = {}
    page = client.read("rates", from_="earliest")
    while page.messages:
        found |= {(message.key or b"").decode(): message.text for message in page.messages}
        page = client.read("rates", from_=page.next)
    return found


with Client(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080") as client:
    client.create_topic("rates", partitions=2, config={"cleanup.policy": "compact"}, exist_ok=True)
    quotes = [("EUR/USD", "1.08"), ("EUR/CHF", "0.95"), ("EUR/USD", "1.09")]
    client.publish_many("rates", [NewMessage(rate, key=pair) for pair, rate in quotes])
    print(sorted(table(client).items()))

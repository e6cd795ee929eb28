"""Ask another program and wait for its answer, through the broker: neither needs the address of the other.

python examples/price_service.py [http://localhost:8080]
"""

import sys
import threading

from goqueue.client import Client

BROKER = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
PRICES = {"teapot": "25 EUR", "cup": "8 EUR"}


def serve(count: int) -> None:
    with Client(BROKER) as client, client.consume("price-servers", ["price-questions"]) as messages:
        for message in messages:
            client.reply(message, PRICES.get(message.text, "unknown"))
            count -= 1
            if not count:
                return


with Client(BROKER) as client:
    client.create_topic("price-questions", exist_ok=True)
    server = threading.Thread(target=serve, args=(2,))
    server.start()
    with client.requester() as ask:
        for article in ("teapot", "spoon"):
            print(article, ask.request("price-questions", article, timeout=30).text)
    server.join()

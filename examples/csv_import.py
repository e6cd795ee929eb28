"""Put a CSV file into a topic, a message for each row, fast and without holding the file in memory.

python examples/csv_import.py [http://localhost:8080] < people.csv
"""

import csv
import json
import sys

from goqueue.client import Client, Producer

with Client(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080") as client:
    client.create_topic("people", exist_ok=True)
    with Producer(client) as producer:  # leaving the block raises if a row was not stored
        for row in csv.DictReader(sys.stdin):
            producer.send("people", json.dumps(row), key=row["id"])
    print("the topic has", client.topic("people").messages, "messages")

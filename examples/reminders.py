"""Remind people later, and change your mind: a delayed message waits in the broker and can be cancelled.

python examples/reminders.py [http://localhost:8080]
"""

import sys
from datetime import timedelta

from goqueue.client import Client, Scheduled

with Client(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080") as client:
    client.create_topic("reminders-sent", partitions=1, exist_ok=True)
    soon = client.publish("reminders-sent", "your tea is ready", delay=timedelta(milliseconds=200))
    later = client.publish("reminders-sent", "renew the lease", delay=timedelta(days=30))
    assert isinstance(soon, Scheduled) and isinstance(later, Scheduled)
    client.cancel_delayed("reminders-sent", later.partition, later.scheduled)
    with client.consume("reminder-senders", ["reminders-sent"]) as messages:
        for message in messages:
            print("say:", message.text)
            break
    print("30 days ahead:", client.delayed_message("reminders-sent", later.partition, later.scheduled).state)

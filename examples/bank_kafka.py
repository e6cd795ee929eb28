"""Read, decide and write exactly once, with Kafka's C client: a transaction holds what was read and what was written.

python examples/bank_kafka.py [localhost:9092]
"""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

BROKER = {"bootstrap.servers": sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"}

orders = Producer({**BROKER, "enable.idempotence": True})
for cents in (100, 250, 9_000_000):
    orders.produce("transfers", str(cents), partition=0)
orders.flush(30)

consumer = Consumer({**BROKER, "group.id": "bank", "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.assign([TopicPartition("transfers", 0, 0)])
producer = Producer({**BROKER, "transactional.id": "bank-1"})
producer.init_transactions(30)
done = 0
while done < 3:
    message = consumer.poll(10)
    if message is None or message.error():
        continue
    producer.begin_transaction()
    topic = "refused" if int(message.value()) > 1_000_000 else "booked"
    producer.produce(topic, message.value())
    position = [TopicPartition("transfers", 0, message.offset() + 1)]
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    done += 1
    print(topic, message.value().decode())
consumer.close()

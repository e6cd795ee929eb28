"""A worker on SQS's protocol with boto3: the same program runs against AWS.

python examples/mail_sqs.py [http://localhost:9324]
"""

import json
import sys

import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url=sys.argv[1] if len(sys.argv) > 1 else "http://localhost:9324",
    region_name="us-east-1",
    aws_access_key_id="anything",
    aws_secret_access_key="anything",
)
queue = sqs.create_queue(QueueName="outgoing-mails")["QueueUrl"]
people = ("ann", "bob", "cem")
sqs.send_message_batch(
    QueueUrl=queue, Entries=[{"Id": name, "MessageBody": json.dumps({"to": f"{name}@example.org"})} for name in people]
)
sent: list[str] = []
while len(sent) < len(people):
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=10)
    for message in found.get("Messages", ()):
        sent.append(json.loads(message["Body"])["to"])
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
sqs.close()
print("sent to", sorted(sent))

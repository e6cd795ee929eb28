"""Run in a pod of GoQueue's own image: one message through every door, by names of the Kubernetes cluster.

Arguments: the name of the client Service, and `user:password`.
"""

import asyncio
import base64
import json
import sys
import urllib.request

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from goqueue.client import Client

HOST, KEY = sys.argv[1:3]
USER, PASSWORD = KEY.split(":", 1)
BASIC = "Basic " + base64.b64encode(KEY.encode()).decode()


def ask(url: str, body: object, **headers: str) -> dict[str, object]:
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Authorization": BASIC, **headers})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        found: dict[str, object] = json.loads(answer.read() or b"{}")
        return found


async def kafka() -> set[str]:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    login |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    async with AIOKafkaProducer(bootstrap_servers=f"{HOST}:9092", acks="all", **login) as producer:
        for number in range(30):
            await producer.send_and_wait("inside", f"kafka {number}".encode())
    seen: set[str] = set()
    begin = {"auto_offset_reset": "earliest", "group_id": "inside-kafka"}
    async with AIOKafkaConsumer("inside", bootstrap_servers=f"{HOST}:9092", **begin, **login) as consumer:
        while len(seen) < 30:
            seen.add((await asyncio.wait_for(consumer.getone(), 30)).value.decode())
    return seen


def rest() -> int:
    ask(f"http://{HOST}:8080/topics/inside/messages", {"messages": [{"value": "by REST"}]})
    with Client(f"http://{HOST}:8080", key=KEY) as client:
        return client.topic("inside").messages


def sqs() -> str:
    def call(action: str, body: object) -> dict[str, object]:
        kind = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        return ask(f"http://{HOST}:9324/", body, **kind)

    url = call("CreateQueue", {"QueueName": "inside-queue"})["QueueUrl"]
    call("SendMessage", {"QueueUrl": url, "MessageBody": "by SQS"})
    found = call("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 10})["Messages"]
    assert isinstance(found, list)
    return str(found[0]["Body"])


def grpc() -> int:
    with Client(f"grpc://{HOST}:9000", key=KEY) as client:
        client.publish("inside", "by gRPC")
        return client.topic("inside").messages


def main() -> None:
    assert len(asyncio.run(kafka())) == 30
    assert rest() == 31
    assert sqs() == "by SQS"
    assert grpc() == 32
    print("all doors answered")


if __name__ == "__main__":
    main()

"""Run in a pod of GoQueue's own image: one message through every door, over TLS, by names of the Kubernetes cluster.

Arguments: the name of the client Service, `user:password`, and the file of the authority.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import sys
import urllib.request
from datetime import UTC, datetime

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from goqueue.client import Client

HOST, KEY, AUTHORITY = sys.argv[1:4]
USER, PASSWORD = KEY.split(":", 1)
TRUST = ssl.create_default_context(cafile=AUTHORITY)
BASIC = "Basic " + base64.b64encode(KEY.encode()).decode()


def ask(url: str, body: object, headers: dict[str, str]) -> dict[str, object]:
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30, context=TRUST) as answer:
        found: dict[str, object] = json.loads(answer.read() or b"{}")
        return found


async def kafka() -> set[str]:
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "ssl_context": TRUST}
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
    ask(f"https://{HOST}:8080/topics/inside/messages", {"messages": [{"value": "by REST"}]}, {"Authorization": BASIC})
    with Client(f"https://{HOST}:8080", key=KEY, ca_file=AUTHORITY) as client:
        return client.topic("inside").messages


def signing_key() -> tuple[str, str]:
    """Name and secret of a new key, for requests that are signed."""
    made = ask(f"https://{HOST}:8080/admin/keys", {"owner": USER, "signs": True}, {"Authorization": BASIC})
    assert isinstance(made["key"], dict)
    return made["key"]["id"], str(made["secret"])


def signed(name: str, secret: str, action: str, body: bytes) -> dict[str, str]:
    """Headers of a request to SQS, with Amazon's fourth kind of signature."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": "application/x-amz-json-1.0", "host": f"{HOST}:9324", "x-amz-date": now}
    headers["x-amz-target"] = f"AmazonSQS.{action}"
    lines, names = "".join(f"{key}:{headers[key]}\n" for key in sorted(headers)), ";".join(sorted(headers))
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{now[:8]}/us-east-1/sqs/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    proof = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={name}/{scope}, SignedHeaders={names}, Signature={proof}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def sqs() -> str:
    name, secret = signing_key()

    def call(action: str, body: object) -> dict[str, object]:
        return ask(f"https://{HOST}:9324/", body, signed(name, secret, action, json.dumps(body).encode()))

    url = call("CreateQueue", {"QueueName": "inside-queue"})["QueueUrl"]
    call("SendMessage", {"QueueUrl": url, "MessageBody": "by SQS"})
    found = call("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 10})["Messages"]
    assert isinstance(found, list)
    return str(found[0]["Body"])


def grpc() -> int:
    with Client(f"grpcs://{HOST}:9000", key=KEY, ca_file=AUTHORITY) as client:
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

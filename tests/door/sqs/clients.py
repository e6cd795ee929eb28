"""boto3 as it is, told only where the node is; and boto3 that speaks the older query protocol.

Today's botocore has only the JSON form of SQS. The query form differs in names that its older models had; they are put
back here, so that the same client code serializes forms and parses XML.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

_numbers = itertools.count(1)
_LISTS = {
    "AttributeNameList": "AttributeName",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "TagKeyList": "TagKey",
    "QueueUrlList": "QueueUrl",
    "MessageList": "Message",
}
_MAPS = {
    "QueueAttributeMap": ("Attribute", "Name"),
    "MessageSystemAttributeMap": ("Attribute", "Name"),
    "MessageBodyAttributeMap": ("MessageAttribute", "Name"),
    "MessageBodySystemAttributeMap": ("MessageSystemAttribute", "Name"),
    "TagMap": ("Tag", "Key"),
}


def unique(stem: str = "q", suffix: str = "") -> str:
    return f"{stem}-{next(_numbers)}{suffix}"


@contextmanager
def client(url: str, protocol: str = "json", scratch: Path | None = None, key: str = "test") -> Iterator[Any]:
    session = botocore.session.Session()
    if protocol == "query":
        assert scratch is not None
        write_query_model(session, scratch)
    made = boto3.Session(botocore_session=session).client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=30),
    )
    try:
        yield made
    finally:
        made.close()


def write_query_model(session: botocore.session.Session, scratch: Path) -> None:
    loader = session.get_component("data_loader")
    model = query_model(loader.load_service_model("sqs", "service-2"))
    directory = scratch / "sqs" / "2012-11-05"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "service-2.json").write_text(json.dumps(model))
    fresh = botocore.loaders.create_loader(str(scratch))
    session.register_component("data_loader", fresh)


def query_model(today: dict[str, Any]) -> dict[str, Any]:
    model = copy.deepcopy(today)
    metadata = model["metadata"]
    metadata.pop("awsQueryCompatible", None)
    metadata |= {
        "protocol": "query",
        "protocols": ["query"],
        "xmlNamespace": "http://queue.amazonaws.com/doc/2012-11-05/",
    }
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    for name, shape in model["shapes"].items():
        if shape["type"] == "list" and (name in _LISTS or name.endswith("EntryList")):
            shape["member"]["locationName"] = _LISTS.get(name, name.removesuffix("List"))
        elif shape["type"] == "map":
            shape["key"]["locationName"] = _MAPS[name][1]
            shape["value"]["locationName"] = "Value"
    for shape in model["shapes"].values():
        for member in shape.get("members", {}).values():
            if member["shape"] in _MAPS:
                member["locationName"] = _MAPS[member["shape"]][0]
    return model


def bodies(answer: dict[str, Any]) -> list[str]:
    return [message["Body"] for message in answer.get("Messages", [])]


def handles(answer: dict[str, Any]) -> list[str]:
    return [message["ReceiptHandle"] for message in answer.get("Messages", [])]


def drain(sqs: Any, url: str, count: int, **asked: Any) -> list[dict[str, Any]]:
    """Receives and deletes until so many came."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=10, **asked)
        assert answer.get("Messages"), f"{len(found)} of {count} came"
        for message in answer["Messages"]:
            found.append(message)
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found

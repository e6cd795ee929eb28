"""Who was let in and no longer should be is cut off, in connections and requests that are under way."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.door.security.line import Line
from tests.door.security.secure import SecureNode

CUT_S = 5.0


def _disable(secure: SecureNode, name: str) -> None:
    assert secure.admin.patch(f"/admin/users/{name}", json={"disabled": True}).status_code == 200


def _delete(secure: SecureNode, name: str) -> None:
    assert secure.admin.delete(f"/admin/users/{name}").status_code == 204


@pytest.mark.parametrize("end", [_disable, _delete])
def test_a_kafka_connection_of_a_user_is_cut(secure: SecureNode, end: Callable[[SecureNode, str], None]) -> None:
    name, password = secure.user(f"cut-{end.__name__.strip('_')}")
    with Line(secure.node.kafka) as line:
        assert line.plain(name, password).error_code == 0
        assert line.metadata().brokers
        end(secure, name)
        _ends(line.answer)


def test_a_kafka_connection_of_a_key_is_cut(secure: SecureNode) -> None:
    secure.user("cut-key")
    key = secure.key("cut-key")
    with Line(secure.node.kafka) as line:
        assert line.plain(key["id"], key["secret"]).error_code == 0
        assert secure.admin.delete(f"/admin/keys/{key['id']}").status_code == 204
        _ends(line.answer)


def test_a_kafka_connection_of_a_key_that_runs_out_is_cut(secure: SecureNode) -> None:
    secure.user("cut-late")
    key = secure.key("cut-late", lives_ms=2_000)
    with Line(secure.node.kafka) as line:
        answer = line.plain(key["id"], key["secret"])
        assert 0 < answer.session_lifetime_ms <= 2_000
        _ends(line.answer, CUT_S + 2)


def test_others_stay(secure: SecureNode) -> None:
    name, password = secure.user("stays")
    gone, _ = secure.user("goes")
    with Line(secure.node.kafka) as line:
        line.plain(name, password)
        _delete(secure, gone)
        assert line.metadata().brokers


def _ends(answer: Callable[[], object], seconds: float = CUT_S) -> None:
    began = time.monotonic()
    with pytest.raises(EOFError):
        answer()
    assert time.monotonic() - began < seconds


def test_a_request_of_sqs_that_waits_is_cut(secure: SecureNode) -> None:
    secure.user("cut-sqs")
    key = secure.key("cut-sqs", signs=True)
    sqs: Any = boto3.client(
        "sqs",
        endpoint_url=secure.node.sqs,
        region_name="eu-central-1",
        aws_access_key_id=key["id"],
        aws_secret_access_key=key["secret"],
        config=Config(retries={"total_max_attempts": 1}),
    )
    url = sqs.create_queue(QueueName="cut")["QueueUrl"]
    revoked = threading.Timer(1, lambda: secure.admin.delete(f"/admin/keys/{key['id']}"))
    revoked.start()
    began = time.monotonic()
    with pytest.raises(ClientError) as refused:
        sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
    revoked.join()
    sqs.close()
    assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"
    assert time.monotonic() - began < 1 + CUT_S


def test_a_request_of_rest_is_refused_as_soon_as_its_key_is_revoked(secure: SecureNode) -> None:
    secure.user("cut-rest")
    key = secure.key("cut-rest")
    shown = {"Authorization": f"Bearer {key['token']}"}
    with httpx.Client(base_url=secure.node.url, headers=shown) as kept:
        assert kept.get("/topics").status_code == 200
        secure.admin.delete(f"/admin/keys/{key['id']}")
        assert kept.get("/topics").status_code == 401


def test_a_request_of_rest_that_waits_is_cut(secure: SecureNode) -> None:
    secure.user("cut-poll")
    key = secure.key("cut-poll")
    assert secure.admin.post("/topics", json={"name": "cut-poll", "num_partitions": 1}).status_code == 201
    shown = {"Authorization": f"Bearer {key['token']}"}
    revoked = threading.Timer(1, lambda: secure.admin.delete(f"/admin/keys/{key['id']}"))
    revoked.start()
    began = time.monotonic()
    url = f"{secure.node.url}/topics/cut-poll/messages"
    answer = httpx.get(url, params={"timeout": "20s"}, headers=shown, timeout=60)
    revoked.join()
    assert answer.status_code == 401
    assert time.monotonic() - began < 1 + CUT_S


def test_a_live_tail_is_cut(secure: SecureNode) -> None:
    secure.user("cut-tail")
    key = secure.key("cut-tail")
    assert secure.admin.post("/topics", json={"name": "cut-tail", "num_partitions": 1}).status_code == 201
    shown = {"Authorization": f"Bearer {key['token']}"}
    with httpx.stream("GET", f"{secure.node.url}/topics/cut-tail/tail", headers=shown, timeout=60) as tail:
        assert tail.status_code == 200
        assert secure.admin.delete(f"/admin/keys/{key['id']}").status_code == 204
        began = time.monotonic()
        with contextlib.suppress(httpx.TransportError):
            tail.read()
        assert time.monotonic() - began < CUT_S

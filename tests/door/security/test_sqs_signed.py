"""SQS by AWS Signature v4: boto3 as it is, and requests that somebody changed, kept or made up."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import botocore.auth
import httpx
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, SSLError

from tests.door.security.secure import Certs, SecureNode, make_certs

LIST = b"Action=ListQueues&Version=2012-11-05"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def key(secure: SecureNode) -> dict[str, Any]:
    secure.user("sam")
    return secure.key("sam", signs=True)


def _boto(url: str, key_id: str, secret: str, verify: str | None = None) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        verify=verify,
        config=Config(retries={"total_max_attempts": 1}),
    )


def _code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


# --- boto3 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["secure", "encrypted"])
def test_boto3_sends_and_receives(door: str, request: pytest.FixtureRequest) -> None:
    node: SecureNode = request.getfixturevalue(door)
    node.user("boto")
    made = node.key("boto", signs=True)
    sqs = _boto(node.node.sqs, made["id"], made["secret"], node.certs and node.certs.ca)
    url = sqs.create_queue(QueueName="signed")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="grüße & =+%", MessageAttributes={})
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"][0]["Body"] == "grüße & =+%"


def test_a_wrong_secret_is_told(secure: SecureNode, key: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as refused:
        _boto(secure.node.sqs, key["id"], "not it").list_queues()
    assert _code(refused) == "SignatureDoesNotMatch"


def test_a_key_that_is_not_there_is_told(secure: SecureNode) -> None:
    with pytest.raises(ClientError) as refused:
        _boto(secure.node.sqs, "AKIAIOSFODNN7EXAMPLE", "not it").list_queues()
    assert _code(refused) == "InvalidClientTokenId"


def test_a_key_that_was_not_made_for_it_does_not_sign(secure: SecureNode) -> None:
    secure.user("plain-key")
    made = secure.key("plain-key")
    with pytest.raises(ClientError) as refused:
        _boto(secure.node.sqs, made["id"], made["secret"]).list_queues()
    assert _code(refused) == "InvalidClientTokenId"


def test_a_key_that_has_run_out_is_told(secure: SecureNode) -> None:
    secure.user("short")
    made = secure.key("short", signs=True, lives_ms=1)
    with pytest.raises(ClientError) as refused:
        _boto(secure.node.sqs, made["id"], made["secret"]).list_queues()
    assert _code(refused) == "InvalidClientTokenId"


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_clock_that_is_wrong_is_told(
    secure: SecureNode, key: dict[str, Any], monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    _shift(monkeypatch, minutes)
    with pytest.raises(ClientError) as refused:
        _boto(secure.node.sqs, key["id"], key["secret"]).list_queues()
    assert _code(refused) == "SignatureDoesNotMatch"
    assert ("expired" if minutes < 0 else "not yet current") in str(refused.value)


def _shift(monkeypatch: pytest.MonkeyPatch, minutes: float) -> None:
    now = botocore.auth.get_current_datetime
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: now() + datetime.timedelta(minutes=minutes))


def test_another_authority_is_not_believed(
    encrypted: SecureNode, key: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    other: Certs = make_certs(tmp_path_factory.mktemp("other"))
    with pytest.raises(SSLError):
        _boto(encrypted.node.sqs, key["id"], key["secret"], other.ca).list_queues()


# --- by hand ----------------------------------------------------------------------------------------------------


class Signer:
    def __init__(self, url: str, key: Mapping[str, Any]) -> None:
        self.url = url
        self.http = httpx.Client(timeout=20)
        self._credentials = Credentials(key["id"], key["secret"])

    def headers(self, body: bytes = LIST, url: str = "", more: Mapping[str, str] = FORM) -> dict[str, str]:
        request = AWSRequest("POST", url or f"{self.url}/", headers=dict(more), data=body)
        SigV4Auth(self._credentials, "sqs", "eu-central-1").add_auth(request)
        return dict(request.headers)

    def link(self, query: str, expires: int = 60) -> str:
        request = AWSRequest("GET", f"{self.url}/?{query}")
        SigV4QueryAuth(self._credentials, "sqs", "eu-central-1", expires=expires).add_auth(request)
        return str(request.url)

    def post(self, headers: Mapping[str, str], body: bytes = LIST, path: str = "/") -> httpx.Response:
        return self.http.post(f"{self.url}{path}", headers=dict(headers), content=body)


@pytest.fixture
def signer(secure: SecureNode, key: dict[str, Any]) -> Iterator[Signer]:
    made = Signer(secure.node.sqs, key)
    with made.http:
        yield made


def test_a_signed_form_is_served(signer: Signer) -> None:
    assert signer.post(signer.headers()).status_code == 200


def test_a_request_without_a_signature_is_refused(signer: Signer) -> None:
    answer = signer.post(FORM)
    assert answer.status_code == 403
    assert "MissingAuthenticationToken" in answer.text


def _wrong(answer: httpx.Response) -> bool:
    told = answer.text + answer.headers.get("x-amzn-query-error", "")
    return answer.status_code in (400, 403) and "SignatureDoesNotMatch" in told


def test_another_body_than_the_signed_one_is_refused(signer: Signer) -> None:
    assert _wrong(signer.post(signer.headers(), b"Action=CreateQueue&QueueName=forged"))


def test_another_path_or_query_than_the_signed_one_is_refused(signer: Signer) -> None:
    assert _wrong(signer.post(signer.headers(), path="/000000000000/other"))
    assert _wrong(signer.post(signer.headers(), path="/?a=b"))


def test_another_host_than_the_signed_one_is_refused(signer: Signer) -> None:
    assert _wrong(signer.post({**signer.headers(), "Host": "localhost"}))


@pytest.mark.parametrize("name", ["X-Amz-Target", "X-Amz-Security-Token", "X-Amz-Content-SHA256"])
def test_a_header_that_means_something_has_to_be_signed(signer: Signer, name: str) -> None:
    assert _wrong(signer.post({**signer.headers(), name: "AmazonSQS.ListQueues"}))


@pytest.mark.parametrize("said", ["UNSIGNED-PAYLOAD", "0" * 64, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"])
def test_the_body_is_always_hashed_here(signer: Signer, said: str) -> None:
    assert _wrong(signer.post(signer.headers(more={**FORM, "X-Amz-Content-SHA256": said})))


def test_a_later_date_does_not_make_it_young_again(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    old = signer.headers()
    _shift(monkeypatch, 1)
    assert _wrong(signer.post({**old, "X-Amz-Date": signer.headers()["X-Amz-Date"]}))


def test_a_kept_request_is_refused_when_its_time_is_over(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    _shift(monkeypatch, -5.5)
    assert _wrong(signer.post(signer.headers()))


@pytest.mark.parametrize(
    "shown",
    [
        "AWS4-HMAC-SHA256 Credential",
        "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=b",
        "AWS4-HMAC-SHA256 Credential=A/20260101/r/s/aws4_request, SignedHeaders=;, Signature=" + "0" * 64,
        "AWS4-HMAC-SHA256 Credential=A/20260101/r/s/aws4_request, SignedHeaders=host, Signature=" + "0" * 63,
        "AWS4-HMAC-SHA256 " + "Credential=A," * 400,
    ],
)
def test_what_is_no_signature_is_refused(signer: Signer, shown: str) -> None:
    answer = signer.post({**signer.headers(), "Authorization": shown})
    assert answer.status_code in (400, 403)
    assert "IncompleteSignature" in answer.text or "InvalidClientTokenId" in answer.text


# --- links ------------------------------------------------------------------------------------------------------


def test_a_link_is_served(signer: Signer) -> None:
    assert signer.http.get(signer.link("Action=ListQueues&QueueNamePrefix=a%20b")).status_code == 200


def test_a_link_for_one_thing_is_not_for_another(signer: Signer) -> None:
    link = signer.link("Action=ListQueues")
    assert _wrong(signer.http.get(link.replace("ListQueues", "CreateQueue")))
    assert _wrong(signer.http.get(f"{link}&Action=CreateQueue&QueueName=forged"))
    assert _wrong(signer.http.post(link))


def test_a_link_cannot_be_made_to_last(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    link = signer.link("Action=ListQueues", 60)
    assert _wrong(signer.http.get(link.replace("X-Amz-Expires=60", "X-Amz-Expires=600")))
    assert _wrong(signer.http.get(f"{link}&X-Amz-Expires=600"))
    _shift(monkeypatch, -2)
    assert _wrong(signer.http.get(signer.link("Action=ListQueues", 60)))


@pytest.mark.parametrize("seconds", [0, -1, 604_801, 1_000_009_999])
def test_a_link_lasts_a_week_at_most(signer: Signer, seconds: int) -> None:
    answer = signer.http.get(signer.link("Action=ListQueues", seconds))
    assert answer.status_code == 400
    assert "IncompleteSignature" in answer.text

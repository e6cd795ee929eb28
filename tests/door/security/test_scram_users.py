"""Users that Kafka's own tools make and change: they log in at every door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from goqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from goqueue.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.door.security.line import Line
from tests.door.security.secure import ADMIN, SecureNode
from tests.wire.client import APIS

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.fixture
def admin(secure: SecureNode) -> AdminClient:
    return AdminClient(secure.confluent("SCRAM-SHA-512", *ADMIN))


def _put(admin: AdminClient, name: str, password: bytes, kind: ScramMechanism = SHA_256, rounds: int = 4096) -> None:
    change = UserScramCredentialUpsertion(name, ScramCredentialInfo(kind, rounds), password)
    admin.alter_user_scram_credentials([change])[name].result(20)


def _lists(secure: SecureNode, mechanism: str, name: str, password: str) -> bool:
    with Line(secure.node.kafka) as line:
        line.handshake(mechanism)
        if mechanism == "PLAIN":
            return line.authenticate(f"\0{name}\0{password}".encode()).error_code == 0
    return bool(AdminClient(secure.confluent(mechanism, name, password)).list_topics(timeout=20).brokers)


def test_a_user_made_by_a_kafka_client_comes_in_at_every_door(secure: SecureNode, admin: AdminClient) -> None:
    _put(admin, "made-by-kafka", b"a password")
    assert _lists(secure, "SCRAM-SHA-256", "made-by-kafka", "a password")
    assert _lists(secure, "PLAIN", "made-by-kafka", "a password")
    assert httpx.get(f"{secure.node.url}/topics", auth=("made-by-kafka", "a password")).status_code == 200
    assert httpx.get(f"{secure.node.url}/topics", auth=("made-by-kafka", "another")).status_code == 401


def test_users_made_by_rest_are_described(secure: SecureNode, admin: AdminClient) -> None:
    name, _ = secure.user("made-by-rest")
    found = _described(admin, name)
    assert {(one.mechanism, one.iterations) for one in found.scram_credential_infos} == {
        (SHA_256, 16_384),
        (SHA_512, 16_384),
    }
    everybody: Any = admin.describe_user_scram_credentials()
    assert name in everybody.result(20)


def test_a_password_is_changed_and_deleted(secure: SecureNode, admin: AdminClient) -> None:
    _put(admin, "changing", b"first password")
    _put(admin, "changing", b"second password", SHA_512)
    found = _described(admin, "changing")
    assert len(found.scram_credential_infos) == 2
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("changing", SHA_256)])["changing"].result(20)
    assert _lists(secure, "SCRAM-SHA-512", "changing", "second password")
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("changing", SHA_512)])["changing"].result(20)
    assert _code(admin, "changing") == KafkaError.RESOURCE_NOT_FOUND
    assert not _lists(secure, "PLAIN", "changing", "second password")


def _described(admin: AdminClient, name: str) -> Any:
    told: Any = admin.describe_user_scram_credentials([name])
    return told[name].result(20)


def _code(admin: AdminClient, name: str) -> int:
    with pytest.raises(KafkaException) as refused:
        _described(admin, name)
    code: int = refused.value.args[0].code()
    return code


def test_what_is_not_there_is_not_deleted(admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("never", SHA_256)])["never"].result(20)
    assert refused.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


# --- by hand --------------------------------------------------------------------------------------------------


@pytest.fixture
def line(secure: SecureNode) -> Iterator[Line]:
    with Line(secure.node.kafka) as made:
        assert made.plain(*ADMIN).error_code == 0
        yield made


def alter(line: Line, request: AlterUserScramCredentialsRequest) -> dict[str, int]:
    answer: AlterUserScramCredentialsResponse = APIS[51].decode_response(0, line.ask(51, 0, request), 5)
    return {one.user: one.error_code for one in answer.results}


def put(
    name: str, mechanism: int = 1, rounds: int = 4096, salt: bytes = b"salt", size: int = 32
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, rounds, salt, b"p" * size)


@pytest.mark.parametrize(
    ("upsertion", "code"),
    [
        (put("bad", mechanism=0), KafkaError.UNSUPPORTED_SASL_MECHANISM),
        (put("bad", mechanism=3), KafkaError.UNSUPPORTED_SASL_MECHANISM),
        (put("bad", rounds=4095), KafkaError.UNACCEPTABLE_CREDENTIAL),
        (put("bad", rounds=16_385), KafkaError.UNACCEPTABLE_CREDENTIAL),
        (put("bad", salt=b""), KafkaError.UNACCEPTABLE_CREDENTIAL),
        (put("bad", size=31), KafkaError.UNACCEPTABLE_CREDENTIAL),
        (put("bad", mechanism=2), KafkaError.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_credential_that_cannot_be_used_is_refused(
    line: Line, upsertion: ScramCredentialUpsertion, code: int
) -> None:
    good = ScramCredentialUpsertion("good", 1, 4096, b"salt", b"p" * 32)
    assert alter(line, AlterUserScramCredentialsRequest([], [upsertion, good])) == {"bad": code, "good": 0}


@pytest.mark.parametrize("name", ["", "anonymous", "GQKABC", "a/b", "x" * 250])
def test_a_name_that_no_user_can_have_is_refused(line: Line, name: str) -> None:
    assert alter(line, AlterUserScramCredentialsRequest([], [put(name)]))[name] != 0


def test_one_credential_twice_is_refused(line: Line) -> None:
    twice = AlterUserScramCredentialsRequest([ScramCredentialDeletion("twice", 1)], [put("twice")])
    assert alter(line, twice) == {"twice": KafkaError.DUPLICATE_RESOURCE}


def test_a_user_asked_for_twice_is_told_once(line: Line) -> None:
    asked = DescribeUserScramCredentialsRequest([UserName("admin"), UserName("admin"), UserName("never")])
    answer: DescribeUserScramCredentialsResponse = APIS[50].decode_response(0, line.ask(50, 0, asked), 5)
    assert {one.user: one.error_code for one in answer.results} == {
        "admin": KafkaError.DUPLICATE_RESOURCE,
        "never": KafkaError.RESOURCE_NOT_FOUND,
    }

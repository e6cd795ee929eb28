"""REST, the schema registry, the client and the command line with security on."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from goqueue.base.limits import TOKEN_CHARS_MAX
from goqueue.cli import app
from goqueue.client import Client
from goqueue.client.errors import GoQueueClientError
from tests.door.security.issuer import Issuer
from tests.door.security.secure import SecureNode, make_certs

SCHEMA = Schema('{"type": "record", "name": "A", "fields": []}', "AVRO")


def _get(node: SecureNode, shown: str | None, path: str = "/topics") -> httpx.Response:
    headers = {} if shown is None else {"Authorization": shown}
    return httpx.get(node.node.url + path, headers=headers, timeout=20)


# --- httpx ------------------------------------------------------------------------------------------------------


def test_a_key_and_a_password_come_in(secure: SecureNode) -> None:
    name, password = secure.user("rest")
    key = secure.key(name)
    assert httpx.get(f"{secure.node.url}/topics", auth=(name, password)).status_code == 200
    assert httpx.get(f"{secure.node.url}/topics", auth=(key["id"], key["secret"])).status_code == 200
    assert secure.bearer(key["token"]).status_code == 200


def _basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Bearer",
        "Bearer GQK",
        "Bearer GQKAAAAAAAAAAAAAAAA.x",
        "Bearer a.b.c",
        "Bearer " + "a" * (TOKEN_CHARS_MAX + 1),
        "Basic",
        "Basic !!!",
        _basic(b"victim"),
        _basic(b"victim:"),
        _basic(b"victim:wrong"),
        _basic(b"nobody:wrong"),
        _basic(b"\xff\xfe:\xff"),
        _basic(b"a" * 300 + b":x"),
        "Digest admin",
        "AWS4-HMAC-SHA256 x",
    ],
)
def test_whoever_does_not_show_who_it_is_is_refused_alike(secure: SecureNode, shown: str | None) -> None:
    for path in ("/topics", "/v1/topics", "/metrics", "/subjects", "/admin/users", "/nothing"):
        answer = _get(secure, shown, path)
        assert answer.status_code in (401, 431), (path, answer.text)
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"].startswith("Basic")


def test_two_authorizations_count_as_none(secure: SecureNode) -> None:
    right = _basic(b"admin:admin password")
    answer = httpx.get(f"{secure.node.url}/topics", headers=[("Authorization", right), ("Authorization", right)])
    assert answer.status_code == 401


def test_the_same_is_told_of_users_that_are_there_and_that_are_not(secure: SecureNode) -> None:
    secure.user("guessed")
    known, unknown = (_get(secure, _basic(b"%s:wrong" % name)) for name in (b"guessed", b"no-such-user"))
    assert known.content == unknown.content


def test_health_needs_nobody(secure: SecureNode) -> None:
    assert [_get(secure, None, path).status_code for path in ("/healthz", "/livez", "/readyz", "/docs")] == [200] * 4


def test_a_key_that_has_run_out_or_was_revoked_is_refused(secure: SecureNode) -> None:
    secure.user("keyed")
    assert secure.bearer(secure.key("keyed", lives_ms=1)["token"]).status_code == 401
    key = secure.key("keyed")
    assert secure.admin.delete(f"/admin/keys/{key['id']}").status_code == 204
    assert secure.bearer(key["token"]).status_code == 401


def test_a_key_that_is_replaced_counts_until_its_overlap_is_over(secure: SecureNode) -> None:
    secure.user("rotating")
    old = secure.key("rotating")
    kept = secure.admin.post(f"/admin/keys/{old['id']}/rotate", json={"overlap_ms": 3_600_000}).json()
    assert [secure.bearer(one).status_code for one in (old["token"], kept["token"])] == [200, 200]
    last = secure.admin.post(f"/admin/keys/{kept['key']['id']}/rotate", json={"overlap_ms": 0}).json()
    assert [secure.bearer(one).status_code for one in (kept["token"], last["token"])] == [401, 200]


def test_a_secret_is_told_once_and_kept_nowhere(secure: SecureNode) -> None:
    name, password = secure.user("secretive", "a password like no other")
    key, signing = secure.key(name), secure.key(name, signs=True)
    for token in (key["token"], signing["token"]):
        assert secure.bearer(token).status_code == 200
    _get(secure, _basic(f"{name}:wrong guess like no other".encode()))
    secrets = (key["secret"], signing["secret"], password, "wrong guess like no other")
    told = (
        secure.admin.get("/admin/keys").text + secure.admin.get("/admin/users").text + secure.admin.get("/metrics").text
    )
    kept = [path for path in secure.node.data_dir.parent.rglob("*") if path.is_file()]
    for secret in secrets:
        assert secret not in told
        assert not [path for path in kept if secret.encode() in path.read_bytes()]


# --- tokens -----------------------------------------------------------------------------------------------------


def test_a_signed_token_comes_in(encrypted: SecureNode, issuer: Issuer) -> None:
    assert encrypted.bearer(issuer.token()).status_code == 200
    assert encrypted.bearer(issuer.token(lives_s=-60)).status_code == 401
    assert encrypted.bearer(Issuer().token()).status_code == 401


def test_a_token_of_a_disabled_user_is_refused_at_once(encrypted: SecureNode, issuer: Issuer) -> None:
    name, _ = encrypted.user("nora")
    token = issuer.token(name)
    assert encrypted.bearer(token).status_code == 200
    encrypted.admin.patch(f"/admin/users/{name}", json={"disabled": True}).raise_for_status()
    assert encrypted.bearer(token).status_code == 401


# --- the registry -----------------------------------------------------------------------------------------------


def test_confluents_registry_client_by_basic_and_bearer(secure: SecureNode) -> None:
    name, password = secure.user("registrar")
    token = secure.key(name)["token"]
    bearer = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": token}
    bearer |= {"bearer.auth.logical.cluster": "", "bearer.auth.identity.pool.id": ""}
    ways: list[dict[str, Any]] = [{"basic.auth.user.info": f"{name}:{password}"}, bearer]
    for number, way in enumerate(ways):
        with SchemaRegistryClient({"url": secure.node.url, **way}) as client:
            assert client.register_schema(f"s{number}", SCHEMA) > 0
            assert f"s{number}" in client.get_subjects()


def test_confluents_registry_client_is_told(secure: SecureNode) -> None:
    wrong = {"url": secure.node.url, "basic.auth.user.info": "registrar:wrong"}
    with pytest.raises(SchemaRegistryError) as refused, SchemaRegistryClient(wrong) as client:
        client.get_subjects()
    assert refused.value.http_status_code == 401


# --- our own ----------------------------------------------------------------------------------------------------


def test_the_client_comes_in_over_tls(encrypted: SecureNode) -> None:
    assert encrypted.certs is not None
    name, password = encrypted.user("own")
    key = encrypted.key(name)["token"]
    for shown in (key, f"{name}:{password}"):
        with Client(encrypted.node.url, key=shown, ca_file=encrypted.certs.ca) as client:
            client.topics()
    with (
        pytest.raises(GoQueueClientError, match="credentials-refused"),
        Client(encrypted.node.url, key="GQKA.b", ca_file=encrypted.certs.ca) as one,
    ):
        one.topics()


def test_the_client_does_not_believe_another_authority(
    encrypted: SecureNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_certs(tmp_path_factory.mktemp("another"))
    with pytest.raises(Exception, match=r"(?i)certificate"), Client(encrypted.node.url, ca_file=other.ca) as client:
        client.topics()


def test_the_command_line_comes_in(encrypted: SecureNode, tmp_path: Path) -> None:
    assert encrypted.certs is not None
    name, password = encrypted.user("cli")
    (tmp_path / "key").write_text(f"{encrypted.key(name)['token']}\n")
    server = {"GOQUEUE_SERVER": encrypted.node.url, "GOQUEUE_CA_FILE": encrypted.certs.ca}
    right = [{"GOQUEUE_KEY_FILE": str(tmp_path / "key")}, {"GOQUEUE_KEY": f"{name}:{password}"}]
    for shown in right:
        done = CliRunner().invoke(app, ["topic", "list"], env=server | shown)
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["topic", "list"], env=server | {"GOQUEUE_KEY": f"{name}:wrong"})
    assert done.exit_code != 0
    assert "credentials" in done.output
    assert "wrong, have" in done.output or "refused" in done.output


# --- browsers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["secure", "encrypted"])
def test_a_page_of_another_site_is_refused_even_with_the_right_credentials(
    door: str, request: pytest.FixtureRequest
) -> None:
    """A browser sends a password that it was told before with every request to this site, whoever asks for it."""
    node: SecureNode = request.getfixturevalue(door)
    body = {"name": "from-afar"}
    own = node.node.url
    for headers in (
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Origin": own + ".evil.example.org"},
    ):
        assert node.admin.post("/topics", json=body, headers=headers).status_code == 403, headers
    assert node.admin.get("/topics/from-afar").status_code == 404
    assert node.admin.post("/topics", json={**body, "name": f"own-{door}"}, headers={"Origin": own}).status_code == 201


@pytest.mark.parametrize("door", ["secure", "encrypted"])
def test_a_name_that_somebody_pointed_here_is_refused(door: str, request: pytest.FixtureRequest) -> None:
    node: SecureNode = request.getfixturevalue(door)
    for path in ("/topics", "/docs", "/healthz"):
        assert node.admin.get(path, headers={"Host": "rebound.evil.example.org"}).status_code == 421
    answer = node.admin.get("/docs")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers
    assert "set-cookie" not in answer.headers


def test_a_context_brings_its_key_and_its_authority(encrypted: SecureNode, tmp_path: Path) -> None:
    assert encrypted.certs is not None
    name, _ = encrypted.user("context")
    (tmp_path / "key").write_text(f"{encrypted.key(name)['token']}\n")
    none = dict.fromkeys(("GOQUEUE_SERVER", "GOQUEUE_KEY", "GOQUEUE_KEY_FILE", "GOQUEUE_CA_FILE", "GOQUEUE_CONTEXT"))
    home = {**none, "XDG_CONFIG_HOME": str(tmp_path)}
    words = ["context", "add", "safe", "--server", encrypted.node.url, "--use"]
    secrets = ["--key-file", str(tmp_path / "key"), "--ca-file", encrypted.certs.ca]
    assert CliRunner().invoke(app, [*words, *secrets], env=home).exit_code == 0
    for command in (["topic", "list"], ["status"], ["queue", "list"], ["doctor"], ["copy", "no-such", "-"]):
        done = CliRunner().invoke(app, command, env=home)
        assert done.exit_code == (1 if command[0] == "copy" else 0), done.output
    assert "(unknown-topic)" in done.output, "it came in, and asked for what is not there"
    known = CliRunner().invoke(app, ["topic", "list"], env={**home, "GOQUEUE_KEY": f"{name}:wrong"})
    assert known.exit_code == 1 and "credentials" in known.output, "the environment wins over the current context"

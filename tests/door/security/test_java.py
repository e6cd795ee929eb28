"""Kafka's own Java client comes in by every way that there is, and understands why it does not."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.maven import java_program
from tests.door.security.issuer import Issuer
from tests.door.security.secure import Certs, SecureNode, make_certs

PROGRAM = Path(__file__).parent / "SecureClient.java"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_LOGIN = "org.apache.kafka.common.security"
IN, DENIED = "hello", "SaslAuthenticationException"
UNSAFE, NOT_OFFERED = "SslAuthenticationException", "UnsupportedSaslMechanismException"


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = java_program(tmp_path_factory.mktemp("java"), PROGRAM)
    if found is None:
        pytest.skip("there are no jars of Kafka's clients here; KAFKA_FETCH=1 lets Maven download them")
    return found


def plain(mechanism: str, name: str, password: str) -> dict[str, str]:
    module = f"{_LOGIN}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{_LOGIN}.scram.ScramLoginModule"
    login = f'{module} required username="{name}" password="{password}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": login}


def bearer(token: str) -> dict[str, str]:
    login = f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required token="{token}";'
    handler = "SecureClient$Token"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": login,
        "sasl.login.callback.handler.class": handler,
    }


def over_tls(settings: Mapping[str, str], ca: str) -> dict[str, str]:
    protocol = "SASL_SSL" if "sasl.mechanism" in settings else "SSL"
    return {
        **settings,
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca,
    }


def with_certificate(certs: Certs, folder: Path) -> dict[str, str]:
    """Carol's, as Java reads it: key and certificate in one file."""
    both = folder / "carol.pem"
    both.write_text(Path(certs.file("carol.key")).read_text() + Path(certs.file("carol.crt")).read_text())
    return over_tls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}, certs.ca)


def ran(class_path: str, folder: Path, cases: Mapping[tuple[SecureNode, str], dict[str, str]]) -> dict[str, str]:
    """What came of each case, all of them in one Java process."""
    files = []
    for (node, name), settings in cases.items():
        file = folder / f"{name}.properties"
        lines = {"case": name, "bootstrap.servers": node.node.kafka.replace("127.0.0.1", "localhost"), **settings}
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        files.append(str(file))
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path, "SecureClient"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_java_comes_in_by_every_way_and_is_told_why_not(
    class_path: str,
    secure: SecureNode,
    encrypted: SecureNode,
    issuer: Issuer,
    certs: Certs,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for node in (secure, encrypted):
        node.user("duke", "java password")
    other = make_certs(tmp_path_factory.mktemp("others")).ca
    right, wrong = ("duke", "java password"), ("duke", "not it")
    token, expired = bearer(issuer.token("tess")), bearer(issuer.token("tess", lives_s=-600))
    forged = bearer(Issuer("first").token("tess"))
    asked: dict[tuple[SecureNode, str], tuple[dict[str, str], str]] = {
        (secure, "plain"): (plain("PLAIN", *right), IN),
        (secure, "scram-256"): (plain("SCRAM-SHA-256", *right), IN),
        (secure, "scram-512"): (plain("SCRAM-SHA-512", *right), IN),
        (secure, "not-offered"): (token, NOT_OFFERED),
        (secure, "wrong-plain"): (plain("PLAIN", *wrong), DENIED),
        (encrypted, "tls-plain"): (over_tls(plain("PLAIN", *right), certs.ca), IN),
        (encrypted, "tls-scram-512"): (over_tls(plain("SCRAM-SHA-512", *right), certs.ca), IN),
        (encrypted, "token"): (over_tls(token, certs.ca), IN),
        (encrypted, "certificate"): (with_certificate(certs, tmp_path), IN),
        (encrypted, "expired-token"): (over_tls(expired, certs.ca), DENIED),
        (encrypted, "forged-token"): (over_tls(forged, certs.ca), DENIED),
        (encrypted, "wrong-authority"): (over_tls(plain("PLAIN", *right), other), UNSAFE),
        # the last, since whoever guesses wrongly waits
        (encrypted, "wrong-scram-256"): (over_tls(plain("SCRAM-SHA-256", *wrong), certs.ca), DENIED),
        (encrypted, "wrong-scram-512"): (over_tls(plain("SCRAM-SHA-512", *wrong), certs.ca), DENIED),
    }
    told = ran(class_path, tmp_path, {case: settings for case, (settings, _) in asked.items()})
    assert {name: what.split(":")[0] for name, what in told.items()} == {
        name: expected for (_, name), (_, expected) in asked.items()
    }, told
    assert not any("not it" in what or "java password" in what for what in told.values())

"""A release with TLS, users, rules and network policies, on a real Kubernetes.

Its certificate is renewed and a pod replaced while a client writes. Policies are accepted here and not enforced: the
pods' network of the lab knows none.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.certificates import Authority, CertificateFiles
from tests.cluster.clients import Writer, check_kept, read_from
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.release import NAME, Release
from tests.kubernetes.secret import of_files, secret

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPACE: Final = "secured"
TOPIC: Final = "orders"
USERS: Final = {"admin": "admin secret", "metrics": "metrics secret", "shop": "shop secret"}
VALUES: Final[dict[str, Any]] = {
    "auth": {
        "existingSecret": "people",
        "authorization": True,
        "acls": [{"user": "shop", "operations": "read,write", "resource": f"topic:{TOPIC}"}],
    },
    "tls": {"enabled": True, "secretName": "certificate"},
    "networkPolicy": {"enabled": True},
    "external": {"enabled": True},
}


def test_tls_users_rules_and_a_certificate_that_is_renewed(lab: KubernetesLab, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    files = certificate(lab, authority)
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    lab.apply(secret(SPACE, "people", _people()), secret(SPACE, "certificate", of_files(files)))
    release = Release(lab, tmp_path, VALUES, SPACE)
    with release.installed() as seconds:
        print(f"\ninstalled with TLS and rules after {seconds:.1f} s", flush=True)
        servers = ",".join(f"{one.address}:{31090 + number}" for one, number in placed(lab, release))
        refuses_others(servers, files)
        clients_inside(lab)
        with Writer(_At(servers), TOPIC, pause_s=0.01, client=client("shop", files)) as writer:
            writer.wait_more()
            renew(lab, release, authority)
            replace_a_pod(release, writer)
        assert release.failed_hooks() == []
        assert writer.failed == []
        check_kept(writer, read_from(servers, TOPIC, client("admin", files)))


def replace_a_pod(release: Release, writer: Writer) -> None:
    before, writer.longest_s = release.uid(f"{NAME}-1"), 0.0
    release.delete(f"{NAME}-1")
    release.wait_new(f"{NAME}-1", before)
    release.wait_ready(3)
    writer.wait_more()
    print(f"a pod replaced; longest wait for an acknowledgement {writer.longest_s:.2f} s", flush=True)


class _At:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def certificate(lab: KubernetesLab, authority: Authority) -> CertificateFiles:
    domain = f"{SPACE}.svc.cluster.local"
    names = ["localhost", f"*.{NAME}-nodes.{domain}", f"{NAME}.{domain}"]
    hosts = [f"DNS:{one}" for one in names] + [f"IP:{one.address}" for one in lab.machines]
    return authority.sign("node", ",".join(hosts))


def _people() -> dict[str, str]:
    users = "".join(f"{name}:{password}\n" for name, password in USERS.items())
    scrape = {"scrape-user": "metrics", "scrape-password": USERS["metrics"]}
    return {
        "users": users,
        "operator": f"admin:{USERS['admin']}",
        "cluster": "what-nodes-prove-to-each-other",
        **scrape,
    }


def client(user: str, files: CertificateFiles) -> dict[str, Any]:
    return {
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(files.ca),
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


def placed(lab: KubernetesLab, release: Release) -> list[tuple[Any, int]]:
    """The machine of each node."""
    machines = {one.name: one for one in lab.machines}
    found = release.pods()
    return [(machines[found[f"{NAME}-{number}"]["spec"]["nodeName"]], number) for number in range(3)]


def refuses_others(servers: str, files: CertificateFiles) -> None:
    """The topic is made by the operator; the shop may write to it, and to nothing else."""
    admin = AdminClient({"bootstrap.servers": servers, **client("admin", files)})
    for made in admin.create_topics([NewTopic(TOPIC, 6), NewTopic("books", 1)]).values():
        made.result(60)
    told: list[str] = []
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 10_000, **client("shop", files)})
    producer.produce("books", b"x", on_delivery=lambda error, _: told.append(str(error)))
    producer.flush(30)
    assert len(told) == 1 and "authoriz" in told[0].lower(), told
    stranger = AdminClient({"bootstrap.servers": servers, **client("shop", files), "sasl.password": "guess"})
    try:
        stranger.list_topics(timeout=5)
        raise AssertionError("a wrong password was taken")
    except KafkaException:
        pass


def clients_inside(lab: KubernetesLab) -> None:
    script = (Path(__file__).parent / "inside.py").read_text()
    key = f"admin:{USERS['admin']}"
    command = ["/usr/bin/python3.11", "-c", script, f"{NAME}.{SPACE}.svc.cluster.local", key, "/tls/ca.crt"]
    container: dict[str, Any] = {
        "name": "client",
        "image": "goqueue:0.1.0",
        "imagePullPolicy": "Never",
        "command": command,
    }
    container["volumeMounts"] = [{"name": "tls", "mountPath": "/tls"}]
    volumes = [{"name": "tls", "secret": {"secretName": "certificate"}}]
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": SPACE}, "spec": spec})
    ended = ("Succeeded", "Failed")
    seconds = lab.wait(lambda: lab.phase(SPACE, "client") in ended, "the client in a pod did not end", 300)
    told = lab.kubectl("logs", "client", "--namespace", SPACE).stdout
    assert lab.phase(SPACE, "client") == "Succeeded" and "all doors answered" in told, told
    print(f"clients of all doors in a pod, over TLS: {seconds:.1f} s", flush=True)


def renew(lab: KubernetesLab, release: Release, authority: Authority) -> None:
    """In the Secret, as cert-manager does; nodes take it over without a restart."""
    files = certificate(lab, authority)
    restarts = [release.restarts(f"{NAME}-{number}") for number in range(3)]
    lab.apply(secret(SPACE, "certificate", of_files(files)))
    (expected,) = {ssl.PEM_cert_to_DER_cert(files.cert.read_text())}
    seconds = lab.wait(lambda: all(_shown(release, number) == expected for number in range(3)), "not taken over", 240)
    assert [release.restarts(f"{NAME}-{number}") for number in range(3)] == restarts
    print(f"a new certificate, until all nodes show it: {seconds:.1f} s", flush=True)


def _shown(release: Release, number: int) -> bytes:
    address = release.pods()[f"{NAME}-{number}"]["status"]["podIP"]
    try:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((address, 8080), timeout=5))
    except OSError as error:
        raise httpx.ConnectError(str(error)) from None

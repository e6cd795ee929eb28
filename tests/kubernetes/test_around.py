"""A release amid what is there already: an etcd that asks for certificates and users, and load balancers.

Its volumes are made larger as the page says. What the chart makes for cert-manager and for Prometheus' operator is
shown to the API server with their own definitions.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from bench.etcd_process import EtcdMember, Host, etcd_members
from tests.certificates import Authority, CertificateFiles
from tests.cluster.clients import Writer, check_kept, make_topic, read_from
from tests.deploy.helm import rendered
from tests.deploy.test_chart import FORMS
from tests.etcd import allow_only_root
from tests.go_programs import module_folder
from tests.kubernetes.balancers import ADDRESSES, LoadBalancers
from tests.kubernetes.lab import HOST, KubernetesLab
from tests.kubernetes.release import NAME, Release
from tests.kubernetes.secret import of_files, secret

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SPACE: Final = "around"
LARGER: Final = "30Gi"
DEFINITIONS: Final = {
    "Certificate": ("github.com/cert-manager/cert-manager", "1.21.2", "deploy/crds/cert-manager.io_certificates.yaml"),
    "ServiceMonitor": (
        *("github.com/prometheus-operator/prometheus-operator", "0.85.0"),
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    "PrometheusRule": (
        *("github.com/prometheus-operator/prometheus-operator", "0.85.0"),
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}


def test_an_etcd_that_is_there_load_balancers_and_larger_volumes(lab: KubernetesLab, tmp_path: Path) -> None:
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    with guarded_etcd(tmp_path) as (member, files), LoadBalancers(lab):
        lab.apply(
            secret(SPACE, "etcd-client", of_files(files)),
            secret(SPACE, "etcd-user", {"user": "root", "password": "secret"}),
        )
        release = Release(lab, tmp_path, values(member), SPACE)
        with release.installed() as seconds:
            print(f"\ninstalled with an etcd that was there, and load balancers, after {seconds:.1f} s", flush=True)
            assert release.pods("etcd") == {}
            places = Balanced(lab, release)
            topic = make_topic(places, partitions=6)
            with Writer(places, topic, pause_s=0.01) as writer:
                writer.wait_more()
                make_volumes_larger(lab, release)
                writer.wait_more()
            assert writer.failed == []
            check_kept(writer, read_from(places.bootstrap, topic, {}))


def values(member: EtcdMember) -> dict[str, Any]:
    return {
        "etcd": {
            "enabled": False,
            "endpoints": [member.client],
            "tlsSecret": "etcd-client",
            "userSecret": "etcd-user",
        },
        "auth": {"enabled": False},
        "external": {"enabled": True, "type": "LoadBalancer", "host": f"{ADDRESSES}.1{{id}}"},
        "service": {"type": "LoadBalancer"},
    }


@contextmanager
def guarded_etcd(folder: Path) -> Iterator[tuple[EtcdMember, CertificateFiles]]:
    """Outside of Kubernetes, for those with a certificate and a password; the files are a client's."""
    authority = Authority(folder / "etcd-authority")
    own, client = authority.sign("etcd", f"IP:{HOST}"), authority.sign("client")
    flags = (f"--cert-file={own.cert}", f"--key-file={own.key}", f"--trusted-ca-file={own.ca}", "--client-cert-auth")
    with etcd_members(folder, 1, *flags, scheme="https", hosts=[Host(HOST)]) as (member,):
        trust = ssl.create_default_context(cafile=str(client.ca))
        trust.load_cert_chain(client.cert, client.key)
        allow_only_root(f"https://{member.client}", trust)
        yield member, client


class Place:
    """Where the client Service's load balancer leads to, and one node's."""

    def __init__(self, release: Release, number: int) -> None:
        self._pod = f"{NAME}-{number}"
        self._release = release
        self.url = f"http://{ADDRESSES}.100:8080"
        self.sqs = f"http://{ADDRESSES}.100:9324"
        self.kafka = f"{ADDRESSES}.1{number}:9094"

    @property
    def data_dir(self) -> Path:
        return self._release.volume(self._pod) / "goqueue"


class Balanced:
    def __init__(self, lab: KubernetesLab, release: Release) -> None:
        self.running = [0, 1, 2]
        self.nodes = [Place(release, number) for number in self.running]
        assert release.advertised() == {number: one.kafka for number, one in enumerate(self.nodes)}
        ready = f"{self.nodes[0].url}/readyz"
        lab.wait(lambda: httpx.get(ready, timeout=5).status_code == 200, "the load balancer leads nowhere")

    @property
    def bootstrap(self) -> str:
        return ",".join(one.kafka for one in self.nodes)


def make_volumes_larger(lab: KubernetesLab, release: Release) -> None:
    """By what docs/kubernetes.md says. What a storage driver then does to a disk is not tried here."""
    before = {name: release.uid(name) for name in release.ready()}
    patch = f'{{"spec": {{"resources": {{"requests": {{"storage": "{LARGER}"}}}}}}}}'
    for name in before:
        lab.kubectl("patch", "pvc", f"data-{name}", "--namespace", SPACE, "--patch", patch)
    lab.kubectl("delete", "statefulset", NAME, "--namespace", SPACE, "--cascade=orphan")
    release.upgrade({"persistence": {"size": LARGER}})
    release.wait_whole(3)
    assert {name: release.uid(name) for name in release.ready()} == before, "pods were replaced"
    (found,) = [one for one in lab.objects("statefulsets") if one["metadata"]["namespace"] == SPACE]
    (claim,) = found["spec"]["volumeClaimTemplates"]
    asked = {
        lab.get(SPACE, "persistentvolumeclaims", f"data-{name}")["spec"]["resources"]["requests"]["storage"]
        for name in before
    }
    assert asked == {LARGER} and claim["spec"]["resources"]["requests"]["storage"] == LARGER


def test_what_is_made_for_operators_is_what_they_define(lab: KubernetesLab, tmp_path: Path) -> None:
    """Shown to the API server, which keeps to their definitions and takes no field that these do not have."""
    definitions = [module_folder(module, version) / path for module, version, path in DEFINITIONS.values()]
    for one in definitions:
        lab.kubectl("apply", "--server-side", "--filename", str(one))
    made = [one for one in rendered(FORMS["everything"], tmp_path) if one["kind"] in DEFINITIONS]
    assert {one["kind"] for one in made} == DEFINITIONS.keys()
    shown = yaml.safe_dump_all([{**one, "metadata": {**one["metadata"], "namespace": "default"}} for one in made])
    dry = ("apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    lab.wait(lambda: lab.kubectl(*dry, input=shown, check=False).returncode == 0, "they are not taken", 60)
    wrong = shown.replace("issuerRef:", "issuer:")
    assert lab.kubectl(*dry, input=wrong, check=False).returncode != 0, "anything would be taken"

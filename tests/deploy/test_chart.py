"""The Helm chart: it renders with all kinds of values, what belongs together matches, and wrong values are refused."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from goqueue import __version__
from goqueue.base.etcd_versions import has_known_faults
from goqueue.base.settings import Settings, load_settings
from tests.deploy.helm import CHART, KUBERNETES, Manifest, helm, rendered
from tools.dashboards.files import files

FULLNAME: Final = "shop-goqueue"
_EVERYTHING: Final = {
    "replicas": 5,
    "external": {"enabled": True, "annotations": {"external-dns.alpha.kubernetes.io/hostname": "k-{id}.example.org"}},
    "auth": {"authorization": True, "acls": [{"user": "u", "operations": "read,write", "resource": "topic:orders"}]},
    "tls": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "ca"}}, "clientAuth": "optional"},
    "networkPolicy": {"enabled": True, "clients": [{"namespaceSelector": {}}]},
    "metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboards": {"enabled": True}},
    "settings": {"log": {"fsync": "always"}, "topics": {"partitions": 6}},
    "antiAffinity": "required",
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "as it is": {},
    "everything": _EVERYTHING,
    "one node": {
        "replicas": 1,
        "cluster": {"initialNodes": 1, "replicationFactor": 1},
        "auth": {"enabled": False},
        "persistence": {"enabled": False},
        "etcd": {"replicas": 1, "persistence": {"enabled": False}},
        "rack": {"fromNodeLabel": False},
    },
    "what is there": {
        "etcd": {"enabled": False, "endpoints": ["e-0.etcd:2379"], "tlsSecret": "etcd-tls", "userSecret": "etcd-user"},
        "auth": {"existingSecret": "people"},
        "tls": {"enabled": True, "secretName": "own-certificates"},
        "external": {"enabled": True, "type": "LoadBalancer", "host": "kafka-{id}.example.org"},
        "metrics": {"rules": {"enabled": True, "kind": "ConfigMap"}},
    },
}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Manifest]]:
    made: dict[str, list[Manifest]] = {}

    def render(form: str) -> list[Manifest]:
        if form not in made:
            made[form] = rendered(FORMS[form], tmp_path_factory.mktemp("chart"))
        return made[form]

    return render


@pytest.fixture(params=FORMS)
def manifests(request: pytest.FixtureRequest, chart: Callable[[str], list[Manifest]]) -> list[Manifest]:
    return chart(request.param)


def named(manifests: list[Manifest], kind: str, name: str = FULLNAME) -> Manifest:
    (found,) = [one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def of_kind(manifests: list[Manifest], *kinds: str) -> list[Manifest]:
    return [one for one in manifests if one["kind"] in kinds]


def pods(manifests: list[Manifest]) -> Iterator[Manifest]:
    for one in of_kind(manifests, "StatefulSet", "Job"):
        yield one["spec"]["template"]


def containers(manifests: list[Manifest]) -> Iterator[Manifest]:
    for pod in pods(manifests):
        yield from [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def environment(manifests: list[Manifest]) -> dict[str, Any]:
    (main,) = named(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value") for one in main["env"]}


def settings_of(manifests: list[Manifest], number: int, folder: Path) -> Settings:
    """As the node with this number reads them; files that a pod mounts are named and not there."""
    text = named(manifests, "ConfigMap")["data"]["goqueue.toml"].replace("/run/goqueue/rack", str(folder / "rack"))
    (folder / "goqueue.toml").write_text(text)
    (folder / "rack").write_text("zone-a")
    variables = {name: text for name, text in environment(manifests).items() if name.startswith("GOQUEUE_")}
    given = {name: (text or "x").replace("$(HOST_IP)", "10.0.0.9") for name, text in variables.items()}
    return load_settings(folder / "goqueue.toml", given, {}, f"{FULLNAME}-{number}")


# --- what belongs together ----------------------------------------------------------------------------------------


def test_selectors_match_pods_and_names_are_unique(manifests: list[Manifest]) -> None:
    names = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in manifests]
    assert len(names) == len(set(names))
    labels = [pod["metadata"]["labels"] for pod in pods(manifests)]
    selectors = [one["spec"]["selector"] for one in of_kind(manifests, "Service")]
    chosen = of_kind(manifests, "StatefulSet", "PodDisruptionBudget")
    selectors += [one["spec"]["selector"]["matchLabels"] for one in chosen]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of_kind(manifests, "NetworkPolicy")]
    for selector in selectors:
        wanted = {key: value for key, value in selector.items() if not key.startswith("statefulset.")}
        matching = [one for one in labels if wanted.items() <= one.items()]
        assert len(matching) == 1, f"{selector} chooses one kind of pod"
    for one in of_kind(manifests, "StatefulSet"):
        assert one["spec"]["serviceName"] in [service["metadata"]["name"] for service in of_kind(manifests, "Service")]


def test_ports_of_services_and_probes_are_ports_of_containers(manifests: list[Manifest]) -> None:
    by_component = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: {
            port["name"]: port["containerPort"] for port in one["spec"]["template"]["spec"]["containers"][0]["ports"]
        }
        for one in of_kind(manifests, "StatefulSet")
    }
    for service in of_kind(manifests, "Service"):
        ports = by_component[service["spec"]["selector"]["app.kubernetes.io/component"]]
        assert {one["targetPort"] for one in service["spec"]["ports"]} <= ports.keys()
    for policy in of_kind(manifests, "NetworkPolicy"):
        ports = by_component[policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]]
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports.keys()
    for pod in of_kind(manifests, "StatefulSet"):
        (main,) = pod["spec"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert main[probe]["httpGet"]["port"] in {one["name"] for one in main["ports"]}


def test_the_node_s_settings_are_right_and_say_the_same_ports(manifests: list[Manifest], tmp_path: Path) -> None:
    settings = settings_of(manifests, 2, tmp_path)
    (main,) = named(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in main["ports"]}
    listens = {
        "rest": settings.rest.listen,
        "kafka": settings.kafka.listen,
        "external": settings.kafka.external_listen,
        "sqs": settings.sqs.listen,
        "grpc": settings.grpc.listen,
        "node": settings.cluster.listen,
    }
    assert {name: f"0.0.0.0:{port}" for name, port in ports.items()} == {
        name: address for name, address in listens.items() if address != "off"
    }
    own = f"{FULLNAME}-2.{FULLNAME}-nodes.apps.svc.cluster.local"
    assert (settings.node.id, settings.node.host) == (2, own)
    assert (settings.kafka.advertised, settings.cluster.advertised) == (f"{own}:9092", f"{own}:7000")
    assert settings.data.dir.startswith(next(one["mountPath"] for one in main["volumeMounts"] if one["name"] == "data"))
    is_open = settings.security.insecure == "on"
    assert is_open != (settings.security.authentication == "required")


def test_files_that_settings_name_are_mounted(manifests: list[Manifest]) -> None:
    spec = named(manifests, "StatefulSet")["spec"]["template"]["spec"]
    (main,) = spec["containers"]
    mounts = {one["mountPath"]: one["name"] for one in main["volumeMounts"]}
    told = tomllib.loads(named(manifests, "ConfigMap")["data"]["goqueue.toml"])
    values = [*environment(manifests).values(), *(value for part in told.values() for value in part.values())]
    for path in [one for one in values if isinstance(one, str) and one.startswith(("/etc/", "/run/"))]:
        assert str(Path(path).parent) in mounts, path
    claimed = [
        one["metadata"]["name"] for one in named(manifests, "StatefulSet")["spec"].get("volumeClaimTemplates", [])
    ]
    assert set(mounts.values()) <= {*(one["name"] for one in spec["volumes"]), *claimed}


def test_pods_run_as_nobody_special_on_a_root_that_cannot_be_written(manifests: list[Manifest]) -> None:
    for pod in pods(manifests):
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["enableServiceLinks"] is False
    for one in containers(manifests):
        security = one["securityContext"]
        assert security["readOnlyRootFilesystem"] is True and security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert one["resources"]["requests"].keys() == {"cpu", "memory"} and "memory" in one["resources"]["limits"]


def test_images_have_versions(manifests: list[Manifest]) -> None:
    images = {one["image"] for one in containers(manifests)}
    assert f"goqueue:{__version__}" in images
    assert all(re.fullmatch(r"\S+:v?\d[\w.-]*", one) for one in images), images


def test_a_pod_waits_longer_than_it_hands_over(manifests: list[Manifest]) -> None:
    spec = named(manifests, "StatefulSet")["spec"]["template"]["spec"]
    command = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    scheme = spec["containers"][0]["livenessProbe"]["httpGet"]["scheme"].lower()
    assert command[:3] == ["goqueue", "--server", f"{scheme}://localhost:8080"]
    assert int(command[-1].removesuffix("s")) < spec["terminationGracePeriodSeconds"]


# --- some forms ----------------------------------------------------------------------------------------------------


def test_outside_every_node_has_a_service_and_tells_its_address(
    chart: Callable[[str], list[Manifest]], tmp_path: Path
) -> None:
    manifests = chart("everything")
    for number in range(5):
        service = named(manifests, "Service", f"{FULLNAME}-{number}-external")["spec"]
        assert service["selector"]["statefulset.kubernetes.io/pod-name"] == f"{FULLNAME}-{number}"
        (port,) = service["ports"]
        told = settings_of(manifests, number, tmp_path).kafka.external_advertised
        assert told == f"10.0.0.9:{port['nodePort']}" == f"10.0.0.9:{31090 + number}"
    first = named(manifests, "Service", f"{FULLNAME}-0-external")["metadata"]["annotations"]
    assert first == {"external-dns.alpha.kubernetes.io/hostname": "k-0.example.org"}
    balanced = settings_of(chart("what is there"), 1, tmp_path)
    assert balanced.kafka.external_advertised == "kafka-1.example.org:9094"


def test_values_are_settings(chart: Callable[[str], list[Manifest]], tmp_path: Path) -> None:
    found = settings_of(chart("everything"), 0, tmp_path)
    assert (found.log.fsync, found.topics.partitions, found.cluster.rack) == ("always", 6, "zone-a")
    assert (found.security.authorization, found.security.tls_client_auth) == ("acl", "optional")
    external = settings_of(chart("what is there"), 0, tmp_path)
    assert external.cluster.store == "etcd://e-0.etcd:2379" and external.cluster.ca_file == "/etc/goqueue/etcd/ca.crt"


def test_rules_and_dashboards_are_those_of_deploy(chart: Callable[[str], list[Manifest]]) -> None:
    manifests = chart("everything")
    for name in ("recording", "alerts"):
        spec = named(manifests, "PrometheusRule", f"{FULLNAME}-{name}")["spec"]
        assert spec == yaml.safe_load(files()[f"prometheus/rules/{name}.yml"])
        data = named(chart("what is there"), "ConfigMap", f"{FULLNAME}-{name}")["data"]
        assert yaml.safe_load(data[f"{name}.yml"]) == spec
    shown = {name: text for one in of_kind(manifests, "ConfigMap") for name, text in one["data"].items()}
    for path, text in files().items():
        if path.startswith("grafana/"):
            assert shown[Path(path).name].strip() == text.strip()


def test_rules_of_access_are_added_one_by_one(chart: Callable[[str], list[Manifest]]) -> None:
    job = named(chart("everything"), "Job", f"{FULLNAME}-acls")
    steps = list(containers([job]))
    assert [one["args"][2:] for one in steps] == [
        ["acl", "add", "metrics", "describe", "cluster"],
        ["acl", "add", "u", "read,write", "topic:orders"],
    ]
    assert all(one["args"][:2] == ["--server", f"https://{FULLNAME}.apps.svc.cluster.local:8080"] for one in steps)


def test_the_etcd_beside_the_nodes_is_one_that_can_be_trusted() -> None:
    chosen = yaml.safe_load((CHART / "values.yaml").read_text())["etcd"]["image"]
    composed = yaml.safe_load((CHART.parents[1] / "compose.yaml").read_text())["services"]["etcd"]["image"]
    assert composed == f"{chosen['repository']}:{chosen['tag']}"
    assert not has_known_faults(chosen["tag"].removeprefix("v"))


def test_the_chart_and_the_program_have_one_version() -> None:
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert told["version"] == told["appVersion"] == __version__


# --- wrong values --------------------------------------------------------------------------------------------------


def test_lint_has_nothing_to_say(tmp_path: Path) -> None:
    done = helm("lint", str(CHART), "--strict", "--kube-version", KUBERNETES, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"replicas": 0}, "/replicas"),
        ({"image": {"tag": "latest"}}, "/image/tag"),
        ({"etcd": {"replicas": 2}}, "/etcd/replicas"),
        ({"cluster": {"balance": "sometimes"}}, "/cluster/balance"),
        ({"settings": {"log": {"Fsync": "always"}}}, "'Fsync' does not match pattern"),
        ({"auth": {"acls": [{"user": "u", "operations": "read", "resource": "orders"}]}}, "/auth/acls/0/resource"),
        ({"persistence": {"size": "much"}}, "/persistence/size"),
        ({"external": {"enabled": True, "type": "LoadBalancer"}}, "external.host must say what clients are told"),
        ({"tls": {"enabled": True}}, "tls.enabled needs tls.secretName"),
        ({"etcd": {"enabled": False}}, "etcd.endpoints must name an etcd"),
        ({"handOverSeconds": 120}, "terminationGracePeriodSeconds must be more than handOverSeconds"),
        ({"replicas": 2}, "cluster.replicationFactor must be at most replicas"),
    ],
)
def test_wrong_values_are_refused_with_a_word(values: Mapping[str, object], message: str, tmp_path: Path) -> None:
    arguments = ("template", "shop", str(CHART), "--kube-version", KUBERNETES)
    done = helm(*arguments, values=values, folder=tmp_path)
    assert done.returncode != 0 and message in done.stderr, done.stderr

"""A client that came through one door is told where the others are."""

from __future__ import annotations

from pathlib import Path

import httpx

from bench.node_process import NodeProcess
from goqueue.client import Client, Doors
from goqueue.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.door.kafka.raw import Line

BROKER = 4
NAME = "goqueue.rest.address"


def rest_by_kafka(kafka: str) -> str | None:
    asked = DescribeConfigsResource(BROKER, "0", [NAME])
    with Line(kafka) as line:
        (found,) = line.ask(DescribeConfigsRequest([asked])).results
    (config,) = found.configs
    assert config.name == NAME and config.read_only
    value: str | None = config.value
    return value


def port_of(address: str) -> str:
    return address.rpartition(":")[2]


def test_doors_at_one_address_are_told_as_they_are(node: NodeProcess) -> None:
    expected = {"rest": node.url, "kafka": node.kafka, "sqs": node.sqs, "grpc": node.grpc}
    assert httpx.get(f"{node.url}/doors").json() == expected
    assert httpx.get(f"{node.url}/doors", headers={"Host": "localhost"}).json() == expected
    with Client(node.url) as client:
        assert client.doors() == Doors(node.url, node.kafka, node.sqs, node.grpc)
    assert rest_by_kafka(node.kafka) == node.url


def test_doors_that_are_open_everywhere_are_where_the_client_reached_the_node(tmp_path: Path) -> None:
    everywhere = (
        "--rest",
        "0.0.0.0:0",
        "--kafka",
        "0.0.0.0:0",
        "--sqs",
        "0.0.0.0:0",
        "--grpc",
        "0.0.0.0:0",
        "--insecure",
    )
    names = {"GOQUEUE_REST_ALLOWED_HOSTS": "broker.example.org"}
    with NodeProcess(tmp_path / "data", *everywhere, settings=names) as node:
        rest, kafka, sqs, grpc = map(port_of, (node.url, node.kafka, node.sqs, node.grpc))
        url = f"http://127.0.0.1:{rest}/doors"
        assert httpx.get(url).json() == {
            "rest": f"http://127.0.0.1:{rest}",
            "kafka": f"127.0.0.1:{kafka}",
            "sqs": f"http://127.0.0.1:{sqs}",
            "grpc": f"127.0.0.1:{grpc}",
        }
        mapped = httpx.get(url, headers={"Host": "broker.example.org:18080"}).json()
        assert mapped == {
            "rest": "http://broker.example.org:18080",
            "kafka": f"broker.example.org:{kafka}",
            "sqs": f"http://broker.example.org:{sqs}",
            "grpc": f"broker.example.org:{grpc}",
        }
        six = httpx.get(url, headers={"Host": "[fe80::1]:8080"}).json()
        assert (six["rest"], six["kafka"]) == ("http://[fe80::1]:8080", f"[fe80::1]:{kafka}")
        for odd in ("a b", "[", "x@y", "a/b:80"):
            assert httpx.get(url, headers={"Host": odd}).json()["code"] == "malformed-request"
        assert httpx.get(url, headers={"Host": ""}).json()["kafka"] == f"127.0.0.1:{kafka}"
        assert rest_by_kafka(f"127.0.0.1:{kafka}") == f"http://127.0.0.1:{rest}"


def test_a_door_that_is_shut_is_null_and_an_advertised_one_is_told(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "a", "--kafka", "off", "--sqs", "off", "--grpc", "off") as node:
        assert httpx.get(f"{node.url}/doors").json() == {"rest": node.url, "kafka": None, "sqs": None, "grpc": None}
    advertised = {"GOQUEUE_KAFKA_ADVERTISED": "broker.example.org:9092"}
    with NodeProcess(tmp_path / "b", settings=advertised) as node:
        assert httpx.get(f"{node.url}/doors").json()["kafka"] == "broker.example.org:9092"

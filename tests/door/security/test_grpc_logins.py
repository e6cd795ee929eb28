"""Who asks over gRPC: an API key or a password in the metadata, a certificate; and TLS."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.node_process import NodeProcess
from goqueue.client import Client, ConnectionFailed, GoQueueClientError
from goqueue.wire import goqueue_pb2 as pb
from goqueue.wire import goqueue_pb2_grpc as rpc
from tests.door.grpc.stubs import Stubs, refused, stubs
from tests.door.security.secure import ADMIN, Certs, SecureNode, secure_settings

pytestmark = pytest.mark.timeout(120)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


def basic(name: str, password: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"),)


def listed(goqueue: Stubs, metadata: Any = None) -> Any:
    return goqueue.topics.ListTopics(pb.ListTopicsRequest(), metadata=metadata)


@pytest.mark.asyncio
async def test_a_call_shows_a_key_or_a_password_and_is_refused_without(secure: SecureNode) -> None:
    name, password = secure.user("grace")
    key = secure.key(name)
    async with stubs(secure.node.grpc) as goqueue:
        assert (await refused(listed(goqueue)))[:2] == ("UNAUTHENTICATED", "credentials-missing")
        for wrong in (
            bearer("nonsense"),
            bearer(key["token"][:-1] + "?"),
            basic(name, "other"),
            (("authorization", "x"),),
        ):
            assert (await refused(listed(goqueue, wrong)))[0] == "UNAUTHENTICATED"
        twice = bearer(key["token"]) * 2
        assert (await refused(listed(goqueue, twice)))[0] == "UNAUTHENTICATED"
        for right in (bearer(key["token"]), basic(name, password), basic(*ADMIN)):
            assert await listed(goqueue, right) is not None
        health = await health_pb2_grpc.HealthStub(goqueue.channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.asyncio
async def test_a_stream_ends_when_its_key_is_revoked(secure: SecureNode) -> None:
    name, _ = secure.user("heidi")
    key = secure.key(name)
    async with stubs(secure.node.grpc) as goqueue:
        await goqueue.topics.CreateTopic(pb.CreateTopicRequest(name="heidis"), metadata=basic(*ADMIN))
        call = goqueue.subscriber.Subscribe(metadata=bearer(key["token"]))
        await call.write(pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["heidis"], credit=1)))
        assert (await call.read()).HasField("joined")
        assert secure.admin.delete(f"/admin/keys/{key['id']}").status_code == 204
        assert await asyncio.wait_for(call.code(), 60) == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.asyncio
async def test_tls_and_the_name_of_a_certificate(tmp_path: Path, certs: Certs) -> None:
    settings = {**secure_settings(tmp_path), **certs.settings("required"), "GOQUEUE_REST_TLS_CLIENT_AUTH": "none"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, SecureNode(node, certs) as secure:
        secure.user("carol")
        ca, cert, key = (Path(certs.file(name)).read_bytes() for name in ("ca.crt", "carol.crt", "carol.key"))
        port = node.grpc.rpartition(":")[2]
        with_cert = grpc.ssl_channel_credentials(ca, key, cert)
        async with grpc.aio.secure_channel(f"localhost:{port}", with_cert) as channel:
            assert await rpc.TopicsStub(channel).ListTopics(pb.ListTopicsRequest()) is not None
        async with grpc.aio.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(ca)) as channel:
            assert (await refused(listed(Stubs(channel), basic(*ADMIN))))[0] == "UNAVAILABLE"
        async with grpc.aio.insecure_channel(node.grpc) as channel:
            assert (await refused(listed(Stubs(channel), basic(*ADMIN))))[0] == "UNAVAILABLE"


def test_the_python_client_shows_its_key_and_checks_the_certificate(tmp_path: Path, certs: Certs) -> None:
    settings = {**secure_settings(tmp_path), **certs.settings("none")}
    with NodeProcess(tmp_path / "data", settings=settings) as node, SecureNode(node, certs) as secure:
        name, password = secure.user("dora")
        token, port = secure.key(name)["token"], node.grpc.rpartition(":")[2]
        for scheme, address in (("grpcs", f"localhost:{port}"), ("https", node.url.partition("://")[2])):
            url, ca = f"{scheme}://{address.replace('127.0.0.1', 'localhost')}", str(certs.file("ca.crt"))
            for key in (token, f"{name}:{password}"):
                with Client(url, key=key, ca_file=ca) as client:
                    assert client.version().version
                    assert isinstance(client.topics(), list)
            for key in (None, "nonsense", f"{name}:other"):
                with Client(url, key=key, ca_file=ca) as client:
                    for ask in (client.topics, lambda: client.publish("t", "v")):
                        with pytest.raises(GoQueueClientError) as caught:
                            ask()
                        assert caught.value.status == 401, caught.value
            with Client(url, key=token) as client, pytest.raises(ConnectionFailed):  # whom nobody trusts
                client.version()

"""What strangers can do to the door: random bytes, too much at once, many idle streams, readers that do not read."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from bench.node_process import NodeProcess
from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, messages, refused, stubs, told, unique
from tests.waiting import wait_until_async

pytestmark = pytest.mark.timeout(240)
METHODS = [
    (f"/{service.full_name}/{method.name}", method.client_streaming, method.server_streaming)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
MIB = 1 << 20


def call_of(channel: grpc.aio.Channel, path: str, streams: tuple[bool, bool]) -> Any:
    kinds = {
        (False, False): channel.unary_unary,
        (True, False): channel.stream_unary,
        (False, True): channel.unary_stream,
        (True, True): channel.stream_stream,
    }
    return kinds[streams](path)


async def status_of(
    channel: grpc.aio.Channel, path: str, streams: tuple[bool, bool], data: bytes, seconds: float = 5
) -> str:
    async def once():  # type: ignore[no-untyped-def]
        yield data

    call = call_of(channel, path, streams)(once() if streams[0] else data, timeout=seconds)
    try:
        if streams[1]:
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


def noise(chance: random.Random) -> bytes:
    """Random bytes, or something that begins like a message."""
    kinds: list[bytes] = [
        chance.randbytes(chance.randrange(40)),
        b"\n" + bytes([chance.randrange(128)]) + chance.randbytes(20),
        pb.PublishRequest(topic="t", messages=messages("a")).SerializeToString() + chance.randbytes(3),
        b"\n\xff\xff\xff\xff\x07",
        b"\x12" * chance.randrange(200),
    ]
    return chance.choice(kinds)


@pytest.mark.parametrize(("path", "client", "server"), METHODS, ids=lambda one: str(one).rpartition("/")[2])
@pytest.mark.asyncio
async def test_random_bytes_are_refused_in_order(
    grpc_node: NodeProcess, goqueue: Stubs, path: str, client: bool, server: bool
) -> None:
    chance = random.Random(path)
    for _ in range(12):
        found = await status_of(goqueue.channel, path, (client, server), noise(chance))
        assert found not in ("INTERNAL", "UNKNOWN"), (path, found)
    assert (await goqueue.topics.ListTopics(pb.ListTopicsRequest())) is not None
    assert "Traceback" not in grpc_node.stderr


@pytest.mark.asyncio
async def test_methods_that_are_not_there_are_unimplemented(goqueue: Stubs) -> None:
    for path in ("/goqueue.v1.Topics/Nothing", "/goqueue.v2.Topics/CreateTopic", "/x"):
        assert await status_of(goqueue.channel, path, (False, False), b"") == "UNIMPLEMENTED"


@pytest.mark.asyncio
async def test_too_much_at_once_is_refused_with_a_time_to_try_again(tmp_path: Path) -> None:
    settings = {"GOQUEUE_GRPC_MESSAGE_BYTES_MAX": str(2 * MIB), "GOQUEUE_GRPC_REQUEST_BYTES_TOTAL_MAX": str(3 * MIB)}
    with NodeProcess(tmp_path / "data", settings={**settings, "GOQUEUE_GRPC_CALLS_MAX": "40"}) as node:
        async with stubs(node.grpc) as goqueue:
            topic = await goqueue.topic()
            large = pb.PublishRequest(topic=topic, messages=[pb.Message(value=bytes(3 * MIB))])
            assert (await refused(goqueue.publisher.Publish(large)))[0] == "RESOURCE_EXHAUSTED"
            # Each stream holds its request while its answer is not taken; together they are too much.
            calls = [goqueue.publisher.Publish(_of(topic, MIB)) for _ in range(20)]
            found = await asyncio.gather(*map(_outcome, calls))
            assert "OK" in found and set(found) <= {"OK", "overloaded"}
            streams = [goqueue.publisher.PublishStream() for _ in range(60)]
            # A write that meets a refusal would be told as an error of the client's own.
            await wait_until_async(lambda: sum(one.done() for one in streams) >= 20)
            refused_streams = [one for one in streams if one.done()]
            assert {(await one.code()).name for one in refused_streams} == {"RESOURCE_EXHAUSTED"}
            for one in streams:
                if one not in refused_streams:
                    await one.write(_of(topic, 1))
                    assert not (await asyncio.wait_for(one.read(), 5)).HasField("error")
            for one in streams:
                one.cancel()


def _of(topic: str, size: int) -> pb.PublishRequest:
    return pb.PublishRequest(topic=topic, messages=[pb.Message(value=bytes(size))])


async def _outcome(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        status, word, whole = told(error)
        assert status == "RESOURCE_EXHAUSTED" and any("RetryInfo" in one.type_url for one in whole.details)
        return word
    return "OK"


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_thousand_idle_streams_take_less_than_100_mb(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        async with stubs(node.grpc) as goqueue:
            topic = await goqueue.topic()
            warm = await goqueue.subscribe("warm", topic)
            before = node.rss_bytes()
            streams = [await goqueue.subscribe(f"g{number % 10}", topic, credit=10) for number in range(1_000)]
            took = node.rss_bytes() - before
            assert took < 100 * MIB, f"{took / MIB:.0f} MiB"
            await goqueue.publish(topic, "a")
            assert (await warm.take(1))[0].value == b"a"
            for one in streams:
                one.call.cancel()


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_reader_that_does_not_read_never_grows_the_node(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        async with stubs(node.grpc) as goqueue:
            topic = await goqueue.topic()
            large = bytes(100_000)
            for _ in range(30):
                await goqueue.publisher.Publish(pb.PublishRequest(topic=topic, messages=[pb.Message(value=large)] * 20))
            await goqueue.subscribe("warm", topic, credit=10)
            before = node.rss_bytes()
            held = [await goqueue.subscribe(f"g{number}", topic, credit=100_000) for number in range(10)]
            fetching = [goqueue.batches.FetchBatchStream(pb.FetchBatchesRequest(topic=topic)) for _ in range(10)]
            tail = pb.CallApiRequest(method="GET", path=f"/topics/{topic}/tail", query="from=earliest")
            fetching += [goqueue.api.StreamApi(pb.StreamApiRequest(request=tail)) for _ in range(10)]
            await asyncio.sleep(3)
            took = node.rss_bytes() - before
            assert took < 200 * MIB, f"{took / MIB:.0f} MiB for 30 readers of 60 MB each"
            for one in [*(one.call for one in held), *fetching]:
                one.cancel()


# --- health and reflection ----------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_health_is_checked_and_watched_to_the_end(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        async with grpc.aio.insecure_channel(node.grpc) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            serving = health_pb2.HealthCheckResponse.SERVING
            for service in ("", "goqueue.v1.Publisher"):
                request = health_pb2.HealthCheckRequest(service=service)
                assert (await health.Check(request)).status == serving
            unknown = health_pb2.HealthCheckRequest(service="none")
            assert (await refused(health.Check(unknown)))[0] == "NOT_FOUND"
            watching = health.Watch(health_pb2.HealthCheckRequest())
            assert (await watching.read()).status == serving
            other = health.Watch(unknown)
            assert (await other.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
            stopping = asyncio.create_task(asyncio.to_thread(node.stop))
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert await stopping == 0


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.asyncio
async def test_reflection_tells_services_and_their_messages(goqueue: Stubs, version: str) -> None:
    ask = goqueue.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )()
    await ask.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    names = {one.name for one in (await ask.read()).list_services_response.service}
    assert {"goqueue.v1.Publisher", "goqueue.v1.Subscriber", "grpc.health.v1.Health"} <= names
    await ask.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol="goqueue.v1.Topics"))
    (file,) = (await ask.read()).file_descriptor_response.file_descriptor_proto
    assert b"goqueue/v1/goqueue.proto" in file
    await ask.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=unique("none")))
    assert (await ask.read()).error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    await ask.done_writing()


@pytest.mark.asyncio
async def test_a_stream_is_not_gathered_into_one_answer(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, *("x" * 1_000 for _ in range(100)))
    tail = pb.CallApiRequest(method="GET", path=f"/topics/{topic}/tail", query="from=earliest")
    assert (await refused(goqueue.api.CallApi(tail, timeout=20)))[0] == "INVALID_ARGUMENT"
    whole = pb.CallApiRequest(method="GET", path=f"/topics/{topic}/messages", query="from=earliest")
    assert (await goqueue.api.CallApi(whole, timeout=20)).status == 200
    streaming = goqueue.api.StreamApi(pb.StreamApiRequest(request=tail), timeout=20)
    async for part in streaming:
        if b"xxx" in part.body:
            break
    streaming.cancel()
    tail.body = bytes(MIB)
    streaming = goqueue.api.StreamApi(pb.StreamApiRequest(request=tail), timeout=20)
    with pytest.raises(grpc.aio.AioRpcError, match="65536 bytes"):
        await streaming.read()

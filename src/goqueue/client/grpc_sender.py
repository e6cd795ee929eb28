"""Sends requests over gRPC, from threads or on asyncio. Needs the extra `grpc`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import grpc

from goqueue.client.calls import RestCall
from goqueue.client.errors import bad_reply, error_of_reply
from goqueue.client.grpc_calls import STREAM, grpc_request, stream_part, stream_request
from goqueue.client.grpc_failures import failure_of
from goqueue.client.transport import GRPC_TLS, ClientIdentity, grpc_target, host_of, tls_context

T = TypeVar("T")
# A node that comes back is found at once, and one that does not answer is given up after five seconds.
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    # A connection that broke without a word is noticed also while nothing comes.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class _Channels:
    """One for each address, made when it is first asked for."""

    def __init__(self, identity: ClientIdentity, plain: Callable[..., Any], secure: Callable[..., Any]) -> None:
        self._identity = identity
        self._plain = plain
        self._secure = secure
        self._lock = Lock()
        self._open: dict[str, Any] = {}
        self._methods: dict[tuple[str, str], Any] = {}
        self.metadata = _metadata(identity)

    def method(self, url: str, name: str) -> Any:
        """A multi-callable, from bytes to bytes."""
        found = self._methods.get((url, name))
        if found is None:
            channel = self._channel(url)
            kind = channel.unary_stream if name == STREAM else channel.unary_unary
            found = self._methods[url, name] = kind(name)
        return found

    def _channel(self, url: str) -> Any:
        with self._lock:
            if url not in self._open:
                self._open[url] = self._new(url)
            return self._open[url]

    def _new(self, url: str) -> Any:
        if not url.startswith(GRPC_TLS):
            return self._plain(grpc_target(url), options=_OPTIONS)
        tls_context(self._identity)  # says what is wrong with a file; gRPC only finds nobody
        files = self._identity.ca_file, self._identity.cert_key_file, self._identity.cert_file
        trusted = grpc.ssl_channel_credentials(*(Path(file).read_bytes() if file else None for file in files))
        return self._secure(grpc_target(url), trusted, options=_OPTIONS)

    def take(self) -> list[Any]:
        """All of them, to be closed."""
        with self._lock:
            channels, self._open = list(self._open.values()), {}
            self._methods.clear()
        return channels


class GrpcSender:
    """For threads."""

    def __init__(self, timeout: float, identity: ClientIdentity) -> None:
        self._timeout = timeout
        self._channels = _Channels(identity, grpc.insecure_channel, grpc.secure_channel)

    def perform(self, url: str, call: RestCall[T]) -> T:
        request = grpc_request(call, host_of(url))
        ask = self._channels.method(url, request.method)
        seconds = self._timeout + call.wait_seconds
        try:
            answer = ask(request.data, timeout=seconds, metadata=self._channels.metadata)
        except grpc.RpcError as error:
            raise failure_of(error, url) from error
        except ValueError as error:
            raise _closed(error) from None
        return _read(request.read, answer)

    @contextmanager
    def stream(self, url: str, call: RestCall[Any]) -> Generator[Iterator[bytes], None, None]:
        ask = self._channels.method(url, STREAM)
        parts = ask(stream_request(call, host_of(url)), metadata=self._channels.metadata)
        try:
            status, body = stream_part(next(parts))
            if status != 200:
                raise error_of_reply(status, body + b"".join(stream_part(part)[1] for part in parts))
            yield (stream_part(part)[1] for part in parts)
        except grpc.RpcError as error:
            raise failure_of(error, url) from error
        finally:
            parts.cancel()

    def close(self) -> None:
        for channel in self._channels.take():
            channel.close()


class AsyncGrpcSender:
    """For asyncio. Channels belong to the loop that asks first."""

    def __init__(self, timeout: float, identity: ClientIdentity) -> None:
        self._timeout = timeout
        self._channels = _Channels(identity, grpc.aio.insecure_channel, grpc.aio.secure_channel)

    async def perform(self, url: str, call: RestCall[T]) -> T:
        request = grpc_request(call, host_of(url))
        ask = self._channels.method(url, request.method)
        seconds = self._timeout + call.wait_seconds
        try:
            answer = await ask(request.data, timeout=seconds, metadata=self._channels.metadata)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error, url) from error
        except grpc.aio.UsageError as error:
            raise _closed(error) from None
        return _read(request.read, answer)

    @asynccontextmanager
    async def stream(self, url: str, call: RestCall[Any]) -> AsyncGenerator[AsyncIterator[bytes], None]:
        ask = self._channels.method(url, STREAM)
        parts = ask(stream_request(call, host_of(url)), metadata=self._channels.metadata)
        try:
            status, body = stream_part(await anext(aiter(parts)))
            if status != 200:
                raise error_of_reply(status, body + b"".join([stream_part(part)[1] async for part in parts]))
            yield (stream_part(part)[1] async for part in parts)
        except grpc.aio.AioRpcError as error:
            raise failure_of(error, url) from error
        finally:
            parts.cancel()

    async def close(self) -> None:
        for channel in self._channels.take():
            await channel.close()


def _read(read: Callable[[bytes], T], answer: bytes) -> T:
    try:
        return read(answer)
    except ValueError as error:
        raise bad_reply(error) from None


def _closed(error: Exception) -> RuntimeError:
    return RuntimeError(f"The client is closed ({error}).")


def _metadata(identity: ClientIdentity) -> tuple[tuple[str, str], ...]:
    shown = identity.key
    if not shown:
        return ()
    if ":" in shown:
        return (("authorization", f"Basic {b64encode(shown.encode()).decode()}"),)
    return (("authorization", f"Bearer {shown}"),)

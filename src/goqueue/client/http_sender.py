"""Sends requests over HTTP, from threads or on asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx

from goqueue.client.batch_calls import needs_grpc
from goqueue.client.calls import RestCall, finish
from goqueue.client.errors import error_of_reply
from goqueue.client.transport import ClientIdentity, client_options, failure_of, request_options, stream_options

T = TypeVar("T")


class HttpSender:
    """For threads."""

    def __init__(self, timeout: float, identity: ClientIdentity, transport: httpx.BaseTransport | None) -> None:
        self._timeout = timeout
        self._http = httpx.Client(**client_options(timeout, identity), transport=transport)

    def perform(self, url: str, call: RestCall[T]) -> T:
        if not call.method:
            raise needs_grpc()
        try:
            response = self._http.request(**request_options(url, call, self._timeout))
        except httpx.HTTPError as error:
            raise failure_of(error, url) from error
        return finish(call, response.status_code, response.content)

    @contextmanager
    def stream(self, url: str, call: RestCall[Any]) -> Generator[Iterator[bytes], None, None]:
        try:
            with self._http.stream(**stream_options(url, call, self._timeout)) as response:
                if response.status_code != 200:
                    raise error_of_reply(response.status_code, response.read())
                yield response.iter_bytes()
        except httpx.HTTPError as error:
            raise failure_of(error, url) from error

    def close(self) -> None:
        self._http.close()


class AsyncHttpSender:
    """For asyncio."""

    def __init__(self, timeout: float, identity: ClientIdentity, transport: httpx.AsyncBaseTransport | None) -> None:
        self._timeout = timeout
        self._http = httpx.AsyncClient(**client_options(timeout, identity), transport=transport)

    async def perform(self, url: str, call: RestCall[T]) -> T:
        if not call.method:
            raise needs_grpc()
        try:
            response = await self._http.request(**request_options(url, call, self._timeout))
        except httpx.HTTPError as error:
            raise failure_of(error, url) from error
        return finish(call, response.status_code, response.content)

    @asynccontextmanager
    async def stream(self, url: str, call: RestCall[Any]) -> AsyncGenerator[AsyncIterator[bytes], None]:
        try:
            async with self._http.stream(**stream_options(url, call, self._timeout)) as response:
                if response.status_code != 200:
                    raise error_of_reply(response.status_code, await response.aread())
                yield response.aiter_bytes()
        except httpx.HTTPError as error:
            raise failure_of(error, url) from error

    async def close(self) -> None:
        await self._http.aclose()

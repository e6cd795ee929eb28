"""Kafka's protocol by hand."""

from __future__ import annotations

import socket
import ssl
import struct

from goqueue.wire.api import RequestHeader
from goqueue.wire.messages.metadata import MetadataRequest, MetadataResponse
from goqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from goqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.wire.client import APIS, encode_request_frame


class Line:
    """Kafka's protocol, one request at a time."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=20)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, request: object) -> memoryview:
        self._socket.sendall(b"".join(encode_request_frame(APIS[api], RequestHeader(api, version, 1, "me"), request)))
        return self.answer()

    def answer(self) -> memoryview:
        """`EOFError` if the connection was closed."""
        (size,) = struct.unpack(">i", self._read(4))
        return memoryview(self._read(size))

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                part = self._socket.recv(size - len(found))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError
            found += part
        return found

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def handshake(self, mechanism: str) -> SaslHandshakeResponse:
        found = self.ask(17, 1, SaslHandshakeRequest(mechanism))
        answer: SaslHandshakeResponse = APIS[17].decode_response(1, found, 4)
        return answer

    def authenticate(self, data: bytes) -> SaslAuthenticateResponse:
        found = self.ask(36, 2, SaslAuthenticateRequest(data))
        answer: SaslAuthenticateResponse = APIS[36].decode_response(2, found, 5)
        return answer

    def plain(self, name: str, password: str) -> SaslAuthenticateResponse:
        self.handshake("PLAIN")
        return self.authenticate(f"\0{name}\0{password}".encode())

    def metadata(self) -> MetadataResponse:
        """Something that only those may ask who are in."""
        answer: MetadataResponse = APIS[3].decode_response(1, self.ask(3, 1, MetadataRequest(topics=[])), 4)
        return answer

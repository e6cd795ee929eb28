"""One connection to Kafka's door: requests go out, answers come back in their order. It knows nothing of retries."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from struct import Struct
from typing import Any, Final

from goqueue.base.limits import MIB
from goqueue.pipeline.link.errors import BrokerRefused, PipelineError
from goqueue.pipeline.link.identity import NodeIdentity
from goqueue.pipeline.link.login import NodeLogin
from goqueue.wire.codes import UNSUPPORTED_VERSION
from goqueue.wire.errors import WireError
from goqueue.wire.frames import decode_response_frame, encode_request_frame
from goqueue.wire.messages.api_versions import API as API_VERSIONS
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.shape import ClientApi

CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0  # a node that is silent for longer counts as gone
ANSWER_BYTES_MAX: Final = 1024 * MIB
_CLIENT_ID: Final = b"goqueue-pipeline"
_SIZE: Final = Struct(">i")
_HTTP: Final = b"HTTP"
_SASL: Final = 17
_NOBODY: Final = NodeIdentity()
# Where not the newest version that both sides know is spoken: what follows is for brokers among themselves (24), or
# names topics by an id (0).
_VERSION_MAX: Final = {0: 12, 18: 0, 24: 3}


class ReceiveBuffer:
    """Memory that answers are received into, over and over: large ones would cost more to reserve than to fill."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, size: int) -> memoryview:
        """What was taken before is overwritten."""
        if len(self._bytes) < size:
            self._bytes = bytearray(size)
        return memoryview(self._bytes)[:size]


class BrokerConnection:
    """Opens at once; `OSError` if that fails or the line breaks later. Not for two threads at a time."""

    def __init__(self, host: str, port: int, identity: NodeIdentity = _NOBODY) -> None:
        self._address = f"{host}:{port}"
        self._identity, self._login = identity, NodeLogin(identity, self._address)
        context = identity.context()
        self._socket = socket.create_connection((host, port), timeout=CONNECT_S)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = self._encrypted(context, host)
            self._socket.settimeout(ANSWER_S)
            self._sent = 0
            self._awaited: deque[tuple[ClientApi, int, int]] = deque()  # with version and correlation id
            self._versions: dict[int, tuple[int, int]] = {}
            self._versions = self._ask_versions() if context is None else self._greet()
            if _SASL in self._versions:  # one that asks nobody is not told
                self._login.show(self.ask)
        except BaseException:
            self._socket.close()
            raise

    def _encrypted(self, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        try:
            return context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise PipelineError(
                f"The node at {self._address} shows a certificate that is not trusted ({error.verify_message}); check "
                "the address, and the file that caFile names."
            ) from None

    def _greet(self) -> dict[int, tuple[int, int]]:
        """By TLS 1.3 a node objects to the client's certificate, or to none, when the line is open for the client."""
        try:
            return self._ask_versions()
        except (ConnectionError, ssl.SSLError) as error:
            raise ConnectionResetError(f"{error}; {self._identity.objection()}") from error

    @property
    def address(self) -> str:
        return self._address

    @property
    def is_quiet(self) -> bool:
        """No answer is on its way."""
        return not self._awaited

    def close(self) -> None:
        self._socket.close()

    # --- requests and answers --------------------------------------------------------------------------------

    def ask(self, api: ClientApi, request: Any) -> Any:
        """Sends and waits; nothing else may be under way."""
        self.send(api, request)
        return self.receive(ReceiveBuffer())

    def send(self, api: ClientApi, request: Any) -> None:
        """Returns when the system took it; the answer is collected by `receive`."""
        if self._login.is_due and self.is_quiet:
            self._login.renew(self.ask)
        version = self.version_of(api)
        self._sent += 1
        self._awaited.append((api, version, self._sent))
        for buffer in encode_request_frame(api, version, self._sent, _CLIENT_ID, request):
            self._socket.sendall(buffer)

    def receive(self, room: ReceiveBuffer) -> Any:
        """The oldest answer that is due. Its bytes live in `room` until that is used again."""
        api, version, expected = self._awaited[0]
        frame = self._frame(room)
        try:
            answer = decode_response_frame(api, version, expected, frame)
        except WireError as error:
            raise self._not_kafka(str(error)) from error
        # Only now: who was interrupted before must not take the rest for another answer.
        self._awaited.popleft()
        return answer

    def version_of(self, api: ClientApi) -> int:
        """The newest version that both sides speak."""
        if api is API_VERSIONS:
            return 0
        lowest, highest = self._versions.get(api.key, (1, 0))
        version = min(highest, api.max_version, _VERSION_MAX.get(api.key, api.max_version))
        if version < max(lowest, api.min_version):
            message = (
                f"The node at {self._address} does not speak {api.name} as this client does; use matching releases."
            )
            raise BrokerRefused(UNSUPPORTED_VERSION, message)
        return version

    # --- bytes -----------------------------------------------------------------------------------------------

    def _frame(self, room: ReceiveBuffer) -> memoryview:
        prefix = bytearray(_SIZE.size)
        self._fill(memoryview(prefix))
        (size,) = _SIZE.unpack(prefix)
        if bytes(prefix) == _HTTP:
            raise self._not_kafka("it answers in HTTP")
        if not 4 <= size <= ANSWER_BYTES_MAX:
            raise self._not_kafka(f"it sent an answer of {size} bytes")
        view = room.take(size)
        self._fill(view)
        return view.toreadonly()

    def _fill(self, view: memoryview) -> None:
        at, size = 0, len(view)
        while at < size:
            count = self._socket.recv_into(view[at:])
            if not count:
                raise ConnectionResetError("the node closed the connection")
            at += count

    def _not_kafka(self, why: str) -> PipelineError:
        return PipelineError(
            f"What listens at {self._address} does not speak Kafka's protocol ({why}). Give the address of the Kafka "
            "door, which the node prints when it starts; the REST door goes into the option `url`."
        )

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self.ask(API_VERSIONS, ApiVersionsRequest())
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

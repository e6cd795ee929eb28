"""Calls to etcd: every one has a deadline, and a member that failed one is left for the next.

A member may be dead, cut off, without a leader or stopped in the middle; what tells is that a call fails or that its
deadline passes. A call whose answer did not come may have been carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc
import msgspec

from goqueue.base.errors import GoQueueError, MetadataTooLarge, SessionLost, StoreOutOfReach
from goqueue.base.etcd_versions import NEEDED, has_known_faults
from goqueue.wire import etcd_pb2 as etcd

Q = TypeVar("Q")
A = TypeVar("A")

_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
)
_OF_THE_MEMBER: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
_NEVER_SENT: Final = "failed to connect"
_USERS_CHANGED: Final = "revision of auth store is old"  # a signed token (JWT) is of the users as they were


class EtcdSettings(msgspec.Struct, frozen=True):
    """Where the store is and who asks. Files are PEM."""

    members: Sequence[str]  # host:port
    prefix: str = "goqueue/"  # of all keys
    session_s: int = 5
    call_s: float = 2.0
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    user: str = ""
    password: str = ""


class ProtoMessage(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802


class Method(Generic[Q, A]):
    """One that etcd offers."""

    def __init__(self, path: str, answer: type[A]) -> None:
        self.path = f"/etcdserverpb.{path}"
        self._answer = answer

    def encode(self, request: ProtoMessage) -> bytes:
        return request.SerializeToString()

    def decode(self, data: bytes) -> A:
        found: A = self._answer.FromString(data)  # type: ignore[attr-defined]
        return found


RANGE: Final = Method[etcd.RangeRequest, etcd.RangeResponse]("KV/Range", etcd.RangeResponse)
TXN: Final = Method[etcd.TxnRequest, etcd.TxnResponse]("KV/Txn", etcd.TxnResponse)
COMPACT: Final = Method[etcd.CompactRequest, etcd.CompactResponse]("KV/Compact", etcd.CompactResponse)
GRANT: Final = Method[etcd.GrantRequest, etcd.GrantResponse]("Lease/LeaseGrant", etcd.GrantResponse)
REVOKE: Final = Method[etcd.RevokeRequest, etcd.RevokeResponse]("Lease/LeaseRevoke", etcd.RevokeResponse)
KEEP_ALIVE: Final = Method[etcd.KeepAliveRequest, etcd.KeepAliveResponse](
    "Lease/LeaseKeepAlive", etcd.KeepAliveResponse
)
WATCH: Final = Method[etcd.WatchRequest, etcd.WatchResponse]("Watch/Watch", etcd.WatchResponse)
STATUS: Final = Method[etcd.StatusRequest, etcd.StatusResponse]("Maintenance/Status", etcd.StatusResponse)
LOGIN: Final = Method[etcd.LoginRequest, etcd.LoginResponse]("Auth/Authenticate", etcd.LoginResponse)


class EtcdCalls:
    """One channel for each member, of which one is asked until it fails."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings
        self._channels = [_channel(settings, member) for member in settings.members]
        self._current = 0
        self._token = ""

    async def ask(self, method: Method[Q, A], request: Q) -> A:
        """What may be done twice: every member is tried once."""
        return await self._try(method, request, twice=True)

    async def ask_once(self, method: Method[Q, A], request: Q) -> A:
        """What must not be done twice: another member is tried only if the call never left this machine."""
        return await self._try(method, request, twice=False)

    async def _try(self, method: Method[Q, A], request: Q, twice: bool) -> A:
        failed: grpc.aio.AioRpcError | None = None
        for _ in self._channels:
            current = self._current
            try:
                return await self._call(method, request)
            except grpc.aio.AioRpcError as error:
                if error.code() not in _OF_THE_MEMBER:
                    raise refusal(error) from error
                self.leave(current)
                failed = error
                if not twice and _NEVER_SENT not in (error.details() or ""):
                    break
        raise StoreOutOfReach(f"The metadata store cannot be reached ({_told(failed)}); try again.")

    async def _call(self, method: Method[Q, A], request: Q) -> A:
        try:
            return await self._send(method, request)
        except grpc.aio.AioRpcError as error:
            if not self._settings.user or not _is_outdated(error):
                raise
        self._token = ""
        return await self._send(method, request)

    async def _send(self, method: Method[Q, A], request: Q) -> A:
        channel = self._channels[self._current]
        call = channel.unary_unary(method.path, method.encode, method.decode)
        token = await self._metadata(channel)
        answer: A = await call(request, timeout=self._settings.call_s, metadata=token)
        return answer

    async def stream(self, method: Method[Q, A]) -> tuple[int, Any]:
        """A stream to the member that is asked now, with its number to leave it by. No deadline: the caller has one."""
        current = self._current
        channel = self._channels[current]
        call = channel.stream_stream(method.path, method.encode, method.decode)
        try:
            metadata = await self._metadata(channel)
        except grpc.aio.AioRpcError as error:
            self.leave(current)
            raise StoreOutOfReach(f"The metadata store cannot be reached ({_told(error)}).") from error
        # A member that is cut off from the others says so instead of being silent.
        return current, call(metadata=(*metadata, ("hasleader", "true")))

    async def _metadata(self, channel: grpc.aio.Channel) -> tuple[tuple[str, str], ...]:
        if not self._settings.user:
            return ()
        if not self._token:
            login = channel.unary_unary(LOGIN.path, LOGIN.encode, LOGIN.decode)
            request = etcd.LoginRequest(name=self._settings.user, password=self._settings.password)
            self._token = (await login(request, timeout=self._settings.call_s)).token
        return (("token", self._token),)

    def leave(self, member: int) -> None:
        """It failed: the next one is asked from now on. Also after a token that it no longer takes."""
        if member == self._current:
            self._current = (member + 1) % len(self._channels)
            self._token = ""

    async def check_version(self) -> None:
        """Of the member that answers; the others of a cluster are at most one version away."""
        told = (await self.ask(STATUS, etcd.StatusRequest())).version
        if has_known_faults(told):
            raise StoreOutOfReach(f"etcd {told} has known faults; {NEEDED}.")

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


def refusal(error: grpc.aio.AioRpcError) -> GoQueueError:
    """What a member said, in our words."""
    told = error.details() or error.code().name
    if "requested lease not found" in told:
        return SessionLost("The session with the metadata store is over; begin another.")
    if "request is too large" in told or "too many operations" in told:
        return MetadataTooLarge(f"The change is over the metadata store's limits ({told}).")
    return StoreOutOfReach(f"The metadata store refused: {told}.")


def _is_outdated(error: grpc.aio.AioRpcError) -> bool:
    """The token; nothing was done."""
    return error.code() is grpc.StatusCode.UNAUTHENTICATED or _USERS_CHANGED in (error.details() or "")


def _told(error: grpc.aio.AioRpcError | None) -> str:
    return "no member is named" if error is None else f"{error.code().name.lower()}: {(error.details() or '')[:200]}"


def _channel(settings: EtcdSettings, member: str) -> grpc.aio.Channel:
    if not settings.ca_file:
        return grpc.aio.insecure_channel(member, _OPTIONS)
    own = (_read(settings.key_file), _read(settings.cert_file))
    return grpc.aio.secure_channel(member, grpc.ssl_channel_credentials(_read(settings.ca_file), *own), _OPTIONS)


def _read(path: str) -> bytes | None:
    return Path(path).read_bytes() if path else None

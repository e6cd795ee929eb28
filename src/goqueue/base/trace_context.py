"""W3C trace context: what the record header `traceparent` says, and what comes from elsewhere in other forms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.base.commands import Headers

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
_STATE_CHARS_MAX: Final = 512
_STATE_MEMBERS_MAX: Final = 32
_STATE_MEMBER_CHARS: Final = 128  # longer ones are the first to go if there is too much
_STATE_MEMBER: Final = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_SHAPE: Final = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_XRAY_ROOT: Final = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_XRAY_PARENT: Final = re.compile(r"[0-9a-f]{16}")
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A trace, and the span in it that caused what follows."""

    trace_id: str
    span_id: str
    is_sampled: bool = True


def parse_traceparent(value: bytes | None) -> TraceContext | None:
    """None if it is not one. Later versions may say more behind what this one knows."""
    found = _SHAPE.fullmatch(value or b"")
    if found is None or found[2] == _NO_TRACE or found[3] == _NO_SPAN or (found[1] == b"00" and found[5]):
        return None
    return TraceContext(found[2].decode(), found[3].decode(), bool(int(found[4], 16) & 1))


def parse_xray(value: str) -> TraceContext | None:
    """What AWS's `Root=1-…;Parent=…;Sampled=1` says. None if it leaves the decision, or the parent, to others."""
    parts = dict(part.strip().partition("=")[::2] for part in value.split(";"))
    root, parent = _XRAY_ROOT.fullmatch(parts.get("Root", "")), _XRAY_PARENT.fullmatch(parts.get("Parent", ""))
    if root is None or parent is None or parts.get("Sampled") not in ("0", "1"):
        return None
    return parse_traceparent(f"00-{root[1]}{root[2]}-{parent[0]}-0{parts['Sampled']}".encode())


def xray_text(context: TraceContext) -> str:
    """A context in AWS's form."""
    root = f"1-{context.trace_id[:8]}-{context.trace_id[8:]}"
    return f"Root={root};Parent={context.span_id};Sampled={int(context.is_sampled)}"


def join_tracestate(values: Sequence[str]) -> bytes:
    """What vendors say beside a trace, as one header; empty if it is not well-formed.

    Too much of it is cut as W3C says: long members first, then from the end.
    """
    members = [member.strip() for value in values for member in value.split(",") if member.strip()]
    if len(members) > _STATE_MEMBERS_MAX or not all(_STATE_MEMBER.fullmatch(member) for member in members):
        return b""
    if len(",".join(members)) > _STATE_CHARS_MAX:
        members = [member for member in members if len(member) <= _STATE_MEMBER_CHARS]
    while len(",".join(members)) > _STATE_CHARS_MAX:
        members.pop()
    return ",".join(members).encode()


def context_of(headers: Headers) -> TraceContext | None:
    """What a message's headers say. Two of them contradict each other, so they say nothing."""
    found = [value for name, value in headers if name == TRACEPARENT]
    return parse_traceparent(found[0]) if len(found) == 1 else None


def with_context(headers: Headers, context: TraceContext, state: bytes = b"") -> Headers:
    """The headers with this one instead of any other. What vendors said beside another does not belong to it."""
    value = f"00-{context.trace_id}-{context.span_id}-{'01' if context.is_sampled else '00'}".encode()
    replaced = (TRACEPARENT, TRACESTATE) if state or any(name == TRACEPARENT for name, _ in headers) else (TRACEPARENT,)
    kept = (pair for pair in headers if pair[0] not in replaced)
    return (*kept, (TRACEPARENT, value), *(((TRACESTATE, state),) if state else ()))


def within(headers: Headers, context: TraceContext | None, state: bytes = b"") -> Headers:
    """The headers, with this context if they say nothing themselves."""
    if context is None or any(name == TRACEPARENT for name, _ in headers):
        return headers
    return with_context(headers, context, state)

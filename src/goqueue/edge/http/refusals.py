"""What a connection is told before it is closed: a head that is too large, and the bytes of the last answer."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from goqueue.base.errors import GoQueueError, HeadTooLarge, UriTooLong
from goqueue.edge.http.connections import Connections, Rendered


def head_too_large(url: bytes, connections: Connections) -> tuple[GoQueueError, str]:
    """The error, and the reason it is counted under."""
    limits = connections.limits
    if len(url) > limits.request_line_bytes_max:
        most, name = limits.request_line_bytes_max, connections.setting("request_line_bytes_max")
        return UriTooLong(f"The path and query are longer than {most} bytes ({name})."), "request-line-bytes"
    most, name = limits.head_bytes_max, connections.setting("head_bytes_max")
    return HeadTooLarge(f"The head of the request is longer than {most} bytes ({name})."), "head-bytes"


def last_answer(shown: Rendered) -> bytes:
    """Written past the application, so with its own head."""
    head = b"content-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return STATUS_LINE[shown.status] + head % (shown.media_type.encode(), len(shown.body)) + shown.body

"""A door in front of the node's REST door, where a test decides what goes through."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Answer = tuple[int, bytes]
# Given the method, the path and what passes it on to the node; gives what the client hears.
Porter = Callable[[str, str, Callable[[], Answer]], Answer]


@contextmanager
def proxy(url: str, porter: Porter) -> Iterator[str]:
    """The address of the door; every request goes by the porter."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(urlsplit(url).netloc, porter))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(node: str, porter: Porter) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, answer = porter(self.command, self.path, lambda: _asked(node, self.command, self.path, body))
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = _pass  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Door


def _asked(node: str, method: str, path: str, body: bytes) -> Answer:
    line = http.client.HTTPConnection(node, timeout=30)
    try:
        line.request(method, path, body, {"content-type": "application/json"})
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()

"""Where a broker can be reached: any node of a cluster, and the next one after a failure."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.client.errors import ConnectionFailed, GoQueueClientError, invalid
from goqueue.client.transport import check_url, is_grpc


class Addresses:
    """One address or several. Who uses them asks the one that answered last."""

    def __init__(self, urls: str | Sequence[str]) -> None:
        given = [urls] if isinstance(urls, str) or not isinstance(urls, Sequence) else list(urls)
        if not given:
            raise invalid("Give at least one address.", "url")
        self._urls = [check_url(url) for url in given]
        if len({is_grpc(url) for url in self._urls}) > 1:
            raise invalid("Give addresses of one kind: http:// and https://, or grpc:// and grpcs://.", "url")
        self._place = 0

    @property
    def are_grpc(self) -> bool:
        return is_grpc(self.current)

    @property
    def current(self) -> str:
        return self._urls[self._place % len(self._urls)]

    def failed(self, url: str) -> None:
        """The next requests go to the next address, unless another request found that out already."""
        if url == self.current:
            self._place += 1

    def may_try_next(self, error: GoQueueClientError, tried: int) -> bool:
        """Whether a request that failed so often surely was not done, and there is somebody else to ask."""
        if tried >= len(self._urls):
            return False
        if isinstance(error, ConnectionFailed):
            return not error.may_have_arrived
        return error.status == 503 and error.code != "storage-failed"

"""Names of queues: the URL and the ARN that clients know a queue by, and the topic name behind both."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from goqueue.edge.sqs.errors import SqsError, invalid

ACCOUNT: Final = "000000000000"
FIFO: Final = ".fifo"
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,80}|[a-zA-Z0-9_-]{1,75}\.fifo")
_ARN: Final = re.compile(r"arn:[a-z-]+:sqs:[a-z0-9-]*:\d*:([a-zA-Z0-9._-]+)")


def is_queue_name(name: str) -> bool:
    """Whether SQS can carry the name. Topics with another one are reachable by URL, but not listed."""
    return _NAME.fullmatch(name) is not None


def check_queue_name(name: str, is_fifo: bool) -> None:
    """For a new queue: the suffix and the kind must agree."""
    if not is_queue_name(name) or (name.endswith(FIFO) and not is_fifo):
        raise invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
    if is_fifo and not name.endswith(FIFO):
        raise invalid(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with "
            ".fifo suffix and be 1 to 80 in length."
        )


def queue_url(base: str, name: str) -> str:
    return f"{base}/{ACCOUNT}/{name}"


def name_of_url(url: str) -> str:
    """The last part of the path; a bare name counts as one. Host and account are not looked at."""
    name = url.rpartition("/")[2]
    if "?" in url or "%" in name or not name:
        name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    if not name:
        raise SqsError("InvalidAddress", f"The address {url[:300]} is not valid for this endpoint.")
    return name


class Arns:
    """ARNs of this node's queues; the region is a setting."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._prefix = f"arn:aws:sqs:{region}:{ACCOUNT}:"

    def of(self, name: str) -> str:
        return self._prefix + name

    @staticmethod
    def name(arn: str) -> str | None:
        """The queue that an ARN names; None if it is not an ARN of SQS."""
        found = _ARN.fullmatch(arn)
        return found[1] if found else None

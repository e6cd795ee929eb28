"""Backups in a bucket of S3 or of storage that speaks its protocol, by boto3, with the settings that boto3 finds.

Objects are at most 4 MiB, so each is there whole or not at all. What is there is listed once. A lock is an object that
only one can create; who holds it renews it, and one that nobody renewed for a quarter of an hour is taken over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from goqueue.cli.failures import Failed, Misused, NoAnswer

SCHEME: Final = "s3://"
LOCK: Final = "lock"
_LOCK_S_MAX: Final = 15 * 60
_RENEW_S: Final = 60.0
_TAKEN: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_MISSING: Final = frozenset({"NoSuchKey", "404"})
_REFUSED: Final = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "403"})


class BucketPlace:
    """`url` is s3://BUCKET/PREFIX."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.name = url.rstrip("/")
        self._bucket, prefix = parts.netloc, parts.path.strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        if not self._bucket:
            raise Misused(f"{url} names no bucket. Write s3://BUCKET or s3://BUCKET/PREFIX.")
        self._client = _client()
        self._sizes: dict[str, int] | None = None
        self._lock_tag = ""
        self._renewed = 0.0

    # --- the lock ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        self._listed()  # whether the bucket is there, and the key good
        self._take_lock()
        try:
            yield
        finally:
            with contextlib.suppress(Failed):  # it ends by itself
                self.delete(LOCK)

    def _take_lock(self) -> None:
        try:
            self._put_lock(IfNoneMatch="*")
        except _Conflict:
            if (abandoned := self._abandoned_lock()) is None:
                raise
            self._put_lock(IfMatch=abandoned)

    def _abandoned_lock(self) -> str | None:
        """What tells it apart from a newer one; None while somebody renews it. By the clock of the storage."""
        found = self._ask("head_object", Key=self._prefix + LOCK)
        now = parsedate_to_datetime(found["ResponseMetadata"]["HTTPHeaders"]["date"])
        is_old = (now - found["LastModified"]).total_seconds() > _LOCK_S_MAX
        return str(found["ETag"]) if is_old else None

    def _put_lock(self, **condition: str) -> None:
        body = f"{time.time_ns()}\n".encode()
        self._lock_tag = self._ask("put_object", Key=self._prefix + LOCK, Body=body, **condition)["ETag"]
        self._renewed = time.monotonic()

    def _renew_lock(self) -> None:
        if time.monotonic() >= self._renewed + _RENEW_S:
            self._put_lock(IfMatch=self._lock_tag)

    # --- objects -----------------------------------------------------------------------------------------

    def read(self, key: str) -> bytes | None:
        try:
            data: bytes = self._ask("get_object", Key=self._prefix + key)["Body"].read()
        except _Missing:
            return None
        return data

    def size(self, key: str) -> int:
        return self._listed().get(key, -1)

    def keys(self, below: str) -> list[str]:
        return sorted(key for key in self._listed() if key.startswith(f"{below}/"))

    def write(self, key: str, data: bytes) -> None:
        self._renew_lock()
        self._ask("put_object", Key=self._prefix + key, Body=data)
        self._listed()[key] = len(data)

    def append(self, key: str, data: bytes) -> None:
        """Nothing: what is there is listed when the command is given again, and not sent again."""

    def delete(self, key: str) -> None:
        self._ask("delete_object", Key=self._prefix + key)
        self._listed().pop(key, None)

    def settle(self) -> None:
        """What was answered is safe."""

    def _listed(self) -> dict[str, int]:
        """By key, without the prefix."""
        if self._sizes is None:
            found: dict[str, int] = {}
            more: dict[str, str] = {}
            while True:
                page = self._ask("list_objects_v2", Prefix=self._prefix, **more)
                found |= {one["Key"].removeprefix(self._prefix): one["Size"] for one in page.get("Contents", ())}
                if not page["IsTruncated"]:
                    break
                more = {"ContinuationToken": page["NextContinuationToken"]}
            self._sizes = found
        return self._sizes

    def _ask(self, what: str, **named: Any) -> dict[str, Any]:
        from botocore import exceptions as boto

        try:
            answer: dict[str, Any] = getattr(self._client, what)(Bucket=self._bucket, **named)
        except boto.ClientError as error:
            raise self._failure(error.response["Error"]) from None
        except boto.NoCredentialsError:
            raise Failed(
                f"There is no key for {self.name}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            ) from None
        except (boto.ConnectionError, boto.HTTPClientError) as error:
            raise NoAnswer(f"{self.name} cannot be reached: {error}") from None
        except boto.BotoCoreError as error:
            raise Failed(f"{self.name}: {error}") from None
        return answer

    def _failure(self, error: dict[str, str]) -> Exception:
        code, message = error.get("Code", ""), error.get("Message", "")
        if code in _TAKEN:
            return _Conflict(f"Another backup writes to {self.name}; wait until it ends.")
        if code in _MISSING:
            return _Missing(f"{self.name}: {message.rstrip('.')} ({code}).")
        if code == "NoSuchBucket":
            return Failed(f"There is no bucket {self._bucket!r}. Create it first, or correct {self.name}.")
        if code in _REFUSED:
            return Failed(f"The storage refuses the key for {self.name}: {message.rstrip('.')} ({code}).")
        return Failed(f"{self.name}: {message.rstrip('.')} ({code}).")


class _Conflict(Failed):
    """Somebody else wrote it."""


class _Missing(Failed):
    """There is no such object."""


def _client() -> Any:
    try:
        import boto3
    except ModuleNotFoundError:
        raise Failed(
            "Backups to S3 need the package boto3, which is not installed. Install it with pip install 'goqueue[s3]'."
        ) from None
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.session.Session().client("s3")
    except (BotoCoreError, ValueError) as error:
        raise Misused(f"S3 cannot be used with these settings: {error}") from None

"""Objects below a prefix of a bucket, by boto3, with the settings that boto3 finds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

from goqueue.cli.backup_place import BackupDamaged
from goqueue.cli.failures import Failed, Misused, NoAnswer

SCHEME: Final = "s3://"
_READS_MAX: Final = 4  # of an object whose bytes do not come whole
_PAUSE_S: Final = 0.5
_UNMET: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "OperationAborted", "412", "409"})
_MISSING: Final = frozenset({"NoSuchKey", "404"})
_REFUSED: Final = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "403"})


class ConditionUnmet(Failed):
    """The object is not as the condition wants it, or another request changes it."""


class ObjectMissing(Failed):
    """There is no such object."""


class S3Object(NamedTuple):
    data: bytes
    tag: str  # differs for every content
    age_s: float | None  # by the clock of the storage; None if it does not tell the time


class S3Prefix:
    """`url` is s3://BUCKET/PREFIX."""

    def __init__(self, url: str) -> None:
        self.name = url.rstrip("/")
        self._bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        self._prefix = f"{prefix.strip('/')}/".lstrip("/")
        if not self._bucket:
            raise Misused(f"{url} names no bucket. Write s3://BUCKET or s3://BUCKET/PREFIX.")
        if "?" in url or "#" in url:
            raise Misused(f"{url} has a query or a fragment. Write s3://BUCKET/PREFIX without ? and #.")
        self._client = _client()

    def get(self, key: str) -> S3Object | None:
        """None if there is no such object. Raises `BackupDamaged`."""
        try:
            return self._get(key)
        except ObjectMissing:
            return None

    def put(self, key: str, data: bytes, **condition: str) -> str:
        """Its tag. Raises `ConditionUnmet` or `ObjectMissing` if the condition does not hold."""
        tag: str = self._ask("put_object", Key=self._prefix + key, Body=data, **condition)["ETag"]
        return tag

    def delete(self, key: str) -> None:
        self._ask("delete_object", Key=self._prefix + key)

    def sizes(self, folder: str) -> Iterator[dict[str, int]]:
        """By key, page by page."""
        more: dict[str, str] = {}
        while True:
            page = self._ask("list_objects_v2", Prefix=f"{self._prefix}{folder}/", **more)
            yield {one["Key"].removeprefix(self._prefix): one["Size"] for one in page.get("Contents", ())}
            if not page["IsTruncated"]:
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _get(self, key: str) -> S3Object:
        """boto3 repeats requests that fail, but not the reading of an answer that breaks off."""
        for left in reversed(range(_READS_MAX)):
            answer = self._ask("get_object", Key=self._prefix + key)
            try:
                with self._failures():
                    return S3Object(answer["Body"].read(), answer.get("ETag", ""), _age_s(answer))
            except (NoAnswer, BackupDamaged):
                if not left:
                    raise
            time.sleep(_PAUSE_S)
        raise AssertionError("the last one raises")

    def _ask(self, what: str, **named: Any) -> dict[str, Any]:
        with self._failures():
            answer: dict[str, Any] = getattr(self._client, what)(Bucket=self._bucket, **named)
        return answer

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        from botocore import exceptions as boto
        from urllib3.exceptions import HTTPError

        try:
            yield
        except boto.ClientError as error:
            raise self._failure(error.response["Error"]) from None
        except boto.NoCredentialsError:
            raise Failed(
                f"There is no key for {self.name}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            ) from None
        except boto.FlexibleChecksumError as error:
            raise BackupDamaged(f"{self.name}: {error}") from None
        except (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError, HTTPError) as error:
            raise NoAnswer(f"{self.name} cannot be reached: {error}") from None
        except boto.BotoCoreError as error:
            raise Failed(f"{self.name}: {error}") from None

    def _failure(self, error: dict[str, str]) -> Failed:
        code, message = error.get("Code", ""), error.get("Message", "")
        told = f"{message.rstrip('.')} ({code})."
        if code in _UNMET:
            return ConditionUnmet(f"{self.name}: {told}")
        if code in _MISSING:
            return ObjectMissing(f"{self.name}: {told}")
        if code == "NoSuchBucket":
            return Failed(f"There is no bucket {self._bucket!r}. Create it first, or correct {self.name}.")
        if code in _REFUSED:
            return Failed(f"The storage refuses the key for {self.name}: {told}")
        return Failed(f"{self.name}: {told}")


def _age_s(answer: dict[str, Any]) -> float | None:
    now, written = answer["ResponseMetadata"]["HTTPHeaders"].get("date"), answer.get("LastModified")
    return None if now is None or written is None else (parsedate_to_datetime(now) - written).total_seconds()


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

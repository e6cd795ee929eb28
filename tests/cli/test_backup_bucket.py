"""The lock of a bucket and reads that break off, against a local S3 server whose answers are changed on the way."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from botocore.response import StreamingBody

from goqueue.cli.backup_bucket import BucketPlace
from goqueue.cli.backup_restore import damaged_files
from goqueue.cli.backup_store import BackupStore, place_of
from goqueue.cli.failures import Failed, NoAnswer
from tests.cli.test_backup_place import FIRST, SECOND, THIRD, digest_of, whole
from tests.pipeline.buckets import needs_s3, s3_server

pytestmark = needs_s3
HELD = "Another backup writes to"
LOST = "lost its lock"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch, s3_server(tmp_path_factory.mktemp("s3"), monkeypatch):
        yield


@pytest.fixture
def prefix(server: None) -> str:
    return uuid.uuid4().hex


@pytest.fixture
def place(prefix: str) -> BucketPlace:
    return BucketPlace(f"s3://lake/{prefix}")


@pytest.fixture
def other(prefix: str) -> BucketPlace:
    return BucketPlace(f"s3://lake/{prefix}")


def client_of(place: BucketPlace) -> Any:
    return place._objects._client


def keys(prefix: str) -> set[str]:
    found = boto3.resource("s3").Bucket("lake").objects.filter(Prefix=f"{prefix}/")
    return {one.key.removeprefix(f"{prefix}/") for one in found}


def lock_of(prefix: str) -> Any:
    return boto3.resource("s3").Object("lake", f"{prefix}/lock")


def once(place: BucketPlace, event: str, act: Callable[[], object], header: str = "") -> None:
    """Runs before the first request of that kind, or that has this header."""
    events = client_of(place).meta.events

    def handle(params: dict[str, Any], **_: Any) -> None:
        if not header or header in params["headers"]:
            events.unregister(f"before-call.s3.{event}", handle)
            act()

    events.register(f"before-call.s3.{event}", handle)


@contextmanager
def abandoned_after(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("goqueue.cli.backup_lock._LOCK_S_MAX", seconds)
        yield


def test_a_backup_that_ends_while_another_begins_keeps_what_it_needs(place: BucketPlace, other: BucketPlace) -> None:
    late, early = BackupStore(place), BackupStore(other)
    with early.changing():
        early.finish(FIRST, whole(early, file=b"old"))

    def run_early() -> None:
        with early.changing():
            early.finish(SECOND, whole(early, file=b"new"))
            early.keep(1)

    once(place, "PutObject", run_early)
    with late.changing():
        late.finish(THIRD, whole(late, file=b"old"))
        assert late.keep(2) == 0
    store = BackupStore(BucketPlace(place.name))
    assert store.names() == [SECOND, THIRD]
    assert not any(damaged_files(store, store.manifest(name), lambda done: None) for name in store.names())


def test_one_at_a_time_writes(place: BucketPlace, other: BucketPlace, prefix: str) -> None:
    with place.changing():
        with pytest.raises(Failed, match=HELD), other.changing():
            pass
        assert keys(prefix) == {"lock"}
    assert not keys(prefix)
    with other.changing():
        pass


@pytest.mark.parametrize("change", ["write", "delete", "renew"])
def test_whatever_goes_on_renews_the_lock_when_that_is_due(
    change: str, place: BucketPlace, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Callable[[], None]] = {
        "write": lambda: place.write("objects/x", b"x"),
        "delete": lambda: place.delete("objects/x"),
        "renew": place.renew,
    }
    clock, passed = time.clock_gettime, 0.0
    monkeypatch.setattr(time, "clock_gettime", lambda which: clock(which) + passed)
    with place.changing():
        tag = lock_of(prefix).e_tag
        changes[change]()
        assert lock_of(prefix).e_tag == tag
        passed = 61.0  # time.monotonic stands still, as it does while the machine is suspended
        changes[change]()
        assert lock_of(prefix).e_tag != tag


def test_who_lost_the_lock_writes_nothing_more_and_leaves_it_to_its_owner(
    place: BucketPlace, other: BucketPlace, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with abandoned_after(-1), pytest.raises(Failed, match=LOST), place.changing():
        other._lock._take()
        monkeypatch.setattr("goqueue.cli.backup_lock._RENEW_S", 0.0)
        for _ in range(2):
            with pytest.raises(Failed, match=LOST):
                place.write("objects/x", b"x")
        with pytest.raises(Failed, match=LOST):
            place.delete("objects/x")
        place.confirm()
    assert keys(prefix) == {"lock"}
    other.confirm()


@pytest.mark.parametrize("what", ["finish", "keep"])
def test_a_backup_without_the_lock_makes_no_manifest_and_deletes_nothing(
    what: str, place: BucketPlace, other: BucketPlace, prefix: str
) -> None:
    store = BackupStore(place)
    with store.changing():
        store.finish(FIRST, whole(store, file=b"old"))
        store.finish(SECOND, whole(store, file=b"new"))
    before = keys(prefix)
    with abandoned_after(-1), store.changing():
        other._lock._take()
        with pytest.raises(Failed, match=LOST):
            store.keep(1) if what == "keep" else store.finish(THIRD, whole(store, file=b"new"))
    assert keys(prefix) == before | {"lock"}


def test_a_lock_that_somebody_deleted_is_lost(place: BucketPlace, prefix: str) -> None:
    with pytest.raises(Failed, match=LOST), place.changing():
        lock_of(prefix).delete()
        place.confirm()


def lose_an_answer(place: BucketPlace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """To the next request, which boto3 then repeats. Returns the methods of all that were sent."""
    session = client_of(place)._endpoint.http_session
    send, sent = session.send, list[str]()

    def send_some(request: Any) -> Any:
        sent.append(request.method)
        response = send(request)
        if len(sent) == 1:
            raise ConnectionClosedError(endpoint_url=request.url)
        return response

    monkeypatch.setattr(session, "send", send_some)
    return sent


def test_a_lock_whose_answer_was_lost_is_not_taken_for_that_of_another(
    place: BucketPlace, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = lose_an_answer(place, monkeypatch)
    with place.changing():
        assert sent[:3] == ["PUT", "PUT", "GET"]
        place.confirm()
    assert not keys(prefix)


def test_a_renewal_whose_answer_was_lost_ends_no_backup(
    place: BucketPlace, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.changing():
        sent = lose_an_answer(place, monkeypatch)
        place.confirm()
        assert sent == ["PUT", "PUT", "GET"]
        place.confirm()
    assert not keys(prefix)


def conflict(place: BucketPlace, header: str) -> list[None]:
    """Answers the first request with this header with a 409."""
    answered: list[None] = []

    def answer(request: Any, **_: Any) -> AWSResponse | None:
        if answered or header not in request.headers:
            return None
        answered.append(None)
        body = b"<Error><Code>ConditionalRequestConflict</Code><Message>Again.</Message></Error>"
        return AWSResponse(request.url, 409, {}, Raw(body))

    client_of(place).meta.events.register("before-send.s3.PutObject", answer)
    return answered


class Raw:
    """An answer's body as botocore wants it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


def test_a_conflict_with_a_request_under_way_is_tried_again(place: BucketPlace, prefix: str) -> None:
    taken = conflict(place, "If-None-Match")
    with place.changing():
        tag = lock_of(prefix).e_tag
        renewed = conflict(place, "If-Match")
        place.confirm()
        assert taken and renewed and lock_of(prefix).e_tag != tag
    assert not keys(prefix)


def test_a_lock_that_went_away_meanwhile_is_taken(place: BucketPlace, other: BucketPlace, prefix: str) -> None:
    lock_of(prefix).put(Body=b"somebody")
    once(place, "GetObject", lambda: lock_of(prefix).delete())
    with place.changing():
        pass
    lock_of(prefix).put(Body=b"somebody")
    once(other, "PutObject", lambda: lock_of(prefix).delete(), header="If-Match")
    with abandoned_after(-1), other.changing():
        pass
    assert not keys(prefix)


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_storage_that_ignores_conditions_is_refused(header: str, place: BucketPlace, prefix: str) -> None:
    def ignore(params: dict[str, Any], **_: Any) -> None:
        params["headers"].pop(header, None)

    client_of(place).meta.events.register("before-call.s3.PutObject", ignore)
    with pytest.raises(Failed, match=f"ignores conditional writes .{header.replace('-', '')}"), place.changing():
        pass
    assert not keys(prefix)


def test_a_lock_of_which_the_storage_tells_no_age_is_not_taken_over(place: BucketPlace, prefix: str) -> None:
    def forget(parsed: dict[str, Any], **_: Any) -> None:
        del parsed["ResponseMetadata"]["HTTPHeaders"]["date"]

    client_of(place).meta.events.register("after-call.s3.GetObject", forget)
    lock_of(prefix).put(Body=b"somebody")
    with abandoned_after(-1), pytest.raises(Failed, match=HELD), place.changing():
        pass
    assert keys(prefix) == {"lock"}


def test_the_case_of_the_scheme_does_not_matter(prefix: str) -> None:
    place = place_of(f"S3://lake/{prefix}/")
    assert place.name == f"s3://lake/{prefix}"
    with place.changing():
        assert keys(prefix) == {"lock"}


DATA = b"sound" * 1_000


class Answers(BaseHTTPRequestHandler):
    """What is sent, one after the other: an object, one that breaks off, or one with the checksum of another."""

    left: list[str]

    def do_GET(self) -> None:
        what = self.left.pop(0)
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.send_header("ETag", '"x"')
        if what == "wrong":
            self.send_header("x-amz-checksum-crc32", "AAAAAA==")
        self.end_headers()
        self.wfile.write(DATA[:100] if what == "cut" else DATA)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, *what: str) -> Iterator[BackupStore]:
    kind = type("Some", (Answers,), {"left": list(what)})
    monkeypatch.setattr("goqueue.cli.backup_s3._PAUSE_S", 0.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{http.server_port}")
        try:
            yield BackupStore(BucketPlace("s3://lake/main"))
        finally:
            http.shutdown()
            thread.join()


def test_an_object_that_breaks_off_is_read_again(server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, "cut", "wrong", "cut", "whole") as store:
        assert store.get(digest_of(DATA)) == DATA


def test_an_object_that_always_breaks_off_is_not_taken_for_damaged(
    server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(monkeypatch, *["cut"] * 9) as store, pytest.raises(NoAnswer, match="cannot be reached"):
        store.get(digest_of(DATA))


def test_a_read_that_takes_too_long_is_not_taken_for_damage(server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def time_out(body: StreamingBody, size: int | None = None) -> bytes:
        raise ReadTimeoutError(endpoint_url="http://x", error="timed out")

    with answering(monkeypatch, *["whole"] * 9) as store, pytest.raises(NoAnswer, match="cannot be reached"):
        monkeypatch.setattr(StreamingBody, "read", time_out)
        store.get(digest_of(DATA))


def test_an_object_whose_checksum_is_wrong_is_damaged(server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, *["wrong"] * 9) as store:
        assert store.get(digest_of(DATA)) is None

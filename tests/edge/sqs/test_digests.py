"""Digests against those that AWS itself gave."""

from __future__ import annotations

import pytest

from goqueue.edge.sqs.digests import Typed, attributes_md5, body_md5

TRACE = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"


@pytest.mark.parametrize(
    ("attributes", "digest"),
    [
        ([("timestamp", "Number", b"1493147359900")], "235c5c510d26fb653d073faed50ae77c"),
        ([("MyAttribute", "String", b"foobar")], "adb59cd4678ea5a855436b949cd07ab6"),
        ([("attr1", "Binary", TRACE)], "8cbe4db156db8a94db8b801b7addb984"),
        ([("Foo", "String", b"Bar")], "ae7155c6026991b6d54b11589678bf9c"),
        (
            [("Help.Me", "String", b"Me"), ("Hello", "String", b"There"), ("General", "String", b"Kenobi")],
            "4c360f3fdafd970e05fae2f149d997f5",
        ),
    ],
)
def test_attributes(attributes: list[Typed], digest: str) -> None:
    assert attributes_md5(attributes) == digest
    assert attributes_md5(reversed(attributes)) == digest, "the order in which they were sent does not matter"


@pytest.mark.parametrize(
    ("body", "digest"),
    [
        ("message-body-1", "19c9e282d65f9733bc6b35d50062c7ee"),
        ("msg", "6e2baaf3b97dbeef01c0043275f9a0e7"),
        ("test", "098f6bcd4621d373cade4e832627b4f6"),
    ],
)
def test_bodies(body: str, digest: str) -> None:
    assert body_md5(body.encode()) == digest

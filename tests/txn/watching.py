"""`watched`: after a test of transactions, what its node holds has to be a history that can be."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

_NODES = ("node", "module_node", "shared", "shared_node", "server_url")  # what fixtures of nodes are called


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Looks at the topics that the test made, on whichever node it used. A test with another one asks by itself."""
    from tests.txn.log_history import topics_of

    name = next(
        (one for one in ("node", "module_node", "shared", "shared_node", "server_url") if one in request.fixturenames),
        None,
    )
    if name is None:
        yield
        return
    before = topics_of(_url(request, name))
    yield
    url = _url(request, name)  # it may have been started again, at another address
    if made := topics_of(url) - before:
        assert_sound(url, made)


def _url(request: pytest.FixtureRequest, name: str) -> str:
    found = request.getfixturevalue(name)
    if isinstance(found, str):  # perhaps over gRPC
        found = request.getfixturevalue("server")
    url: str = found.url
    return url


def assert_sound(url: str, topics: Collection[str]) -> None:
    from tests.txn.checker import check
    from tests.txn.log_history import history_of

    assert check(history_of(url, sorted(topics))) == []

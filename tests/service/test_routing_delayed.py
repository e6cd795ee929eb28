"""What waits for its time at several nodes, looked at through any of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from goqueue.drive import schedule_pages
from tests.service.nodes import SHARD_COUNT, Nodes, nodes_story, send, to


@pytest.mark.parametrize("limit", [1, 4, 100])
def test_pages_of_what_waits_go_to_the_end_however_large_the_messages_are(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """A page of a node ends after some megabytes. What comes before it is not among them."""
    monkeypatch.setattr(schedule_pages, "READ_BYTES", 3_000)

    async def story(nodes: Nodes) -> None:
        wanted = []
        for number in range(24):
            text = f"{number:02}" + 900 * "x"
            place = number % 2 if number < 12 else number % SHARD_COUNT
            await send(nodes.brokers[0], "t", replace(to(place, text), delay_ms=3_600_000 + 1_000 * number))
            wanted.append(text.encode())
        for broker in nodes.brokers:
            found: list[bytes | None] = []
            listing = broker.routed(broker.scheduling)
            while page := await listing.list("t", limit, len(found)):
                assert len(page) <= limit
                found += [one.message.value for one in page if one.message is not None]
            assert found == wanted

    nodes_story(story)

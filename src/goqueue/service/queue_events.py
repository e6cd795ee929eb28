"""Who hears what happens to queue views and to the messages in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from goqueue.core.delivery.records import Record, ViewId

OnView = Callable[[ViewId], None]


@dataclass(frozen=True)
class QueueEvents:
    """The one sink of the queue's runner and verbs."""

    loaded: Callable[[], None]  # the views are others than before
    written: Callable[[ViewId, Sequence[Record]], None]  # appended and applied, not yet durable
    ready: OnView  # something can be handed out
    dead: OnView  # copies have to be made
    moved: OnView  # the group's position may have moved
    answered: Callable[[str, str], None]  # a consumer (group, owner) answers by receipt

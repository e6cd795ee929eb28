"""The messages of a queue: how many there are, for its attributes, and how all of them are let go."""

from __future__ import annotations

from goqueue.base.commands import Caller
from goqueue.service.front import Front, answer_of
from goqueue.service.leasing import Leasing
from goqueue.service.scheduling import Scheduling


class QueueContents:
    """As the door's group sees them, those that are delayed included."""

    def __init__(self, leasing: Front[Leasing], scheduling: Front[Scheduling], group: str) -> None:
        self._leasing = leasing
        self._scheduling = scheduling
        self._group = group

    async def attributes(self, caller: Caller, queue: str) -> dict[str, str]:
        counts = await answer_of(self._leasing.by(caller).counts(self._group, queue))
        return {
            "ApproximateNumberOfMessages": str(counts.ready),
            "ApproximateNumberOfMessagesNotVisible": str(counts.in_flight + counts.waiting),
            "ApproximateNumberOfMessagesDelayed": str(await answer_of(self._scheduling.by(caller).pending(queue))),
        }

    async def purge(self, caller: Caller, queue: str) -> None:
        """The delayed ones first: none of them may come while the others go."""
        await self._scheduling.by(caller).cancel_all(queue)
        await self._leasing.by(caller).skip_all(self._group, queue)

"""Where the journal is synced: on the event loop while that is short, off it otherwise.

A thread costs two changes of hands, about a tenth of a millisecond on a quiet machine and several on a busy one. A loop
that waits for the disk serves nobody meanwhile. So the last syncs decide: most of them were short, and none was long.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from goqueue.drive.offload import Offload
from goqueue.log.journal import JournalJob

_LOOKED_AT: Final = 15
_SHORT_S: Final = 0.0005
_LONG_S: Final = 0.01  # one of these, and the loop is left alone for a while


class SyncPlace:
    """One for a node's journal."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._recent: deque[float] = deque(maxlen=_LOOKED_AT)
        self._is_short = False

    async def run(self, job: JournalJob) -> None:
        if self._is_short:
            job.run()
        else:
            await self._offload(job.run)
        self._recent.append(job.seconds)
        times = sorted(self._recent)
        self._is_short = len(times) == _LOOKED_AT and times[_LOOKED_AT // 2] < _SHORT_S and times[-1] < _LONG_S

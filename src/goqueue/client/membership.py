"""One member's life in a group: join, poll, heartbeats, giving back, joining again, leaving. No I/O.

Joining again gives back what the member holds, so that is done by polls only, never behind the back of who works on a
message. The member must also join again where a poll's answer got lost: nobody knows what it handed out.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from msgspec.structs import replace

from goqueue.client import checks, member_calls
from goqueue.client.calls import RestCall
from goqueue.client.errors import ConnectionFailed, ConsumerClosed, GoQueueClientError, MustJoinAgain
from goqueue.client.leases import Leased
from goqueue.client.member_calls import Beat, Joining, Polled
from goqueue.client.replies import TopicParts
from goqueue.client.retry import backoff
from goqueue.client.steps import Clock, Pause, Rebalance, Steps, ask

logger = logging.getLogger("goqueue.client")

# One request waits at the broker for so long; a longer poll is several.
WAIT_SECONDS_MAX: Final = 10.0
_OUT: Final = frozenset({"unknown-member", "unknown-group", "illegal-generation"})
# The node that was asked did not hear, or does not know, what another one did.
_UNSURE: Final = frozenset({"bad-reply", "leader-changed", "peer-lost", "storage-failed"})
_PAUSE_FIRST: Final = 0.1
_PAUSE_MAX: Final = 5.0
# An empty answer that comes sooner than this did not wait; a few in a row are usual while a group changes.
_EARLY_SECONDS: Final = 0.1
_EARLY_FREE: Final = 3


class Membership:
    """Each verb is a series of steps. `beat` may run between two steps of another verb, or instead of one."""

    def __init__(self, joining: Joining, patience: float, clock: Clock) -> None:
        self.assignment: list[TopicParts] = []
        self.beat_seconds = 1.0
        self._is_unsure = False  # a poll went out and its answer never came
        self._is_forgotten = False  # a poll was refused; heartbeats may still be heard
        self._joining = joining
        self._patience = patience
        self._clock = clock
        self._generation = -1
        self._is_in = False
        self._was_in = False
        self._is_closed = False
        self._has_news = False  # for a heartbeat to tell
        self._revoking: list[TopicParts] = []
        self._gained: list[TopicParts] = []
        self._lost: list[TopicParts] = []
        self._ready: deque[Leased] = deque()  # taken, and not yet handed out
        self._heard_at = 0.0
        self._lost_at: float | None = None
        self._failed = 0
        self._early = 0

    def answers(self) -> None:
        """The caller answers for its messages: after joining again the broker must not do it either."""
        if self._joining.auto_commit is not False:
            self._joining = replace(self._joining, auto_commit=False)

    # --- in and out -----------------------------------------------------------------------------------

    def join(self) -> Steps[None]:
        """In the group, or in it again with nothing held."""
        if self._is_closed:
            raise ConsumerClosed
        joined = yield from ask(member_calls.join(self._joining))
        self.beat_seconds = min(joined.heartbeat_interval_ms, joined.session_timeout_ms / 3) / 1000
        self._lost, self._gained, self._revoking = self.assignment, joined.assignment, []
        self._generation, self.assignment = joined.generation, joined.assignment
        self._is_in = self._was_in = True
        self._is_unsure = self._is_forgotten = self._has_news = False
        self._ready.clear()
        self._heard_at = self._clock()

    def close(self, is_done: bool) -> Steps[None]:
        """Leaves. Unless all is done, the broker must not count what it handed out as done."""
        if self._is_closed or not self._was_in:
            self._is_closed = True
            return
        must_give_back = self._is_auto and (self._is_unsure or bool(self._ready) or not is_done)
        try:
            if must_give_back:
                yield from self.join()
            yield from ask(member_calls.leave(self._joining.group, self._joining.member_id))
        except GoQueueClientError as error:
            if error.code not in _OUT:
                logger.warning("could not leave group %r; the broker will notice: %s", self._joining.group, error)
        finally:
            self._is_closed, self._is_in = True, False

    @property
    def _is_auto(self) -> bool:
        asked = self._joining.auto_commit
        return asked if asked is not None else self._joining.mode == "partition"

    # --- polls ----------------------------------------------------------------------------------------

    def next(self, prefetch: int) -> Steps[Leased]:
        """One message, whenever it comes."""
        while True:
            found = yield from self.poll(1, WAIT_SECONDS_MAX, prefetch)
            if found:
                return found[0]

    @property
    def must_join(self) -> bool:
        """The next poll joins again, and so gives back what is held."""
        return not self._is_in or self._is_unsure or self._is_forgotten

    def poll(
        self, limit: int, timeout: float, prefetch: int | None = None, *, keep_held: bool = False
    ) -> Steps[list[Leased]]:
        """Up to `limit` messages of up to `prefetch` that are taken; none after `timeout` seconds without any."""
        checks.whole_number(limit, "limit")
        checks.seconds(timeout, "timeout")
        deadline = self._clock() + timeout
        while self.must_join or not self._ready:
            if keep_held and self.must_join:
                raise MustJoinAgain
            left = max(0.0, deadline - self._clock())
            try:
                pause = yield from self._take(prefetch or limit, min(left, WAIT_SECONDS_MAX))
            except GoQueueClientError as error:
                pause = self._pause_after(error)
            left = deadline - self._clock()
            if self._ready or left <= 0:
                break
            if pause:
                yield Pause(min(pause, left))
        return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]

    def _take(self, limit: int, wait: float) -> Steps[float]:
        """One poll; returns the seconds to wait before the next."""
        if self.must_join:
            self._is_in = False
            self._ready.clear()
            yield from self.join()
        yield from self._follow_rebalance()
        began = self._clock()
        polled = yield from self._ask_poll(limit, wait)
        self._failed, self._lost_at = 0, None
        self._ready.extend(polled.messages)
        is_early = not polled.messages and self._clock() - began < min(wait, _EARLY_SECONDS)
        self._early = self._early + 1 if is_early else 0
        return backoff(_PAUSE_FIRST, _PAUSE_MAX, self._early - _EARLY_FREE) if self._early > _EARLY_FREE else 0.0

    def _ask_poll(self, limit: int, wait: float) -> Steps[Polled]:
        self._is_unsure = True
        group, member_id = self._joining.group, self._joining.member_id
        try:
            polled = yield from ask(member_calls.poll(group, member_id, self._generation, limit, wait))
        except GoQueueClientError as error:
            self._is_unsure = _may_have_taken(error)
            raise
        self._is_unsure = False
        self._generation, self._has_news = polled.generation, polled.rebalance
        self._heard_at = self._clock()
        return polled

    def _pause_after(self, why: GoQueueClientError) -> float:
        """Seconds to wait before the next try; raises `why` where that is of no use."""
        self._failed += 1
        if why.code in _OUT:
            self._is_forgotten = True
            return 0.0 if self._failed == 1 else backoff(_PAUSE_FIRST, _PAUSE_MAX, self._failed - 1)
        now = self._clock()
        self._lost_at = now if self._lost_at is None else self._lost_at
        is_passing = isinstance(why, ConnectionFailed) or why.status == 503
        if not self._was_in or not is_passing or now - self._lost_at >= self._patience:
            raise why
        return backoff(_PAUSE_FIRST, _PAUSE_MAX, self._failed)

    # --- what changes ---------------------------------------------------------------------------------

    def beat(self) -> Steps[None]:
        """Stays in while nobody polls. What has to be given back, and joining again, is left to the next poll."""
        if not self._is_in or self._is_closed or self._clock() - self._heard_at < self.beat_seconds:
            return
        try:
            self._hear((yield from ask(self._heartbeat())))
        except GoQueueClientError as error:
            self._is_in = self._is_in and error.code not in _OUT
            logger.debug("heartbeat in group %r failed: %s", self._joining.group, error)

    def _follow_rebalance(self) -> Steps[None]:
        """Goes along with what changed; the caller is done with what earlier polls handed out."""
        if self._has_news:
            self._hear((yield from ask(self._heartbeat())))
        if self._lost or self._gained:
            change, self._lost, self._gained = Rebalance(self._lost, self._gained), [], []
            yield change
        if self._revoking:
            revoking = self._revoking
            yield Rebalance(revoking, [])
            group, member_id = self._joining.group, self._joining.member_id
            self._hear((yield from ask(member_calls.revoke(group, member_id, self._generation, revoking))))

    def _heartbeat(self) -> RestCall[Beat]:
        return member_calls.heartbeat(self._joining.group, self._joining.member_id, self._generation)

    def _hear(self, beat: Beat) -> None:
        self._generation, self.assignment, self._revoking = beat.generation, beat.assignment, beat.revoke
        self._gained = [*self._gained, *beat.gained]
        self._has_news = False
        self._heard_at = self._clock()


def _may_have_taken(why: GoQueueClientError) -> bool:
    return why.code in _UNSURE or (isinstance(why, ConnectionFailed) and why.may_have_arrived)

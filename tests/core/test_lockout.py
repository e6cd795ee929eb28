"""Who guesses has to wait, and cannot make that forgotten."""

from __future__ import annotations

import pytest

from goqueue.base.limits import FAILURES_FREE, LOCKOUT_MS, LOCKOUT_MS_MAX
from goqueue.core.lockout import Lockout, network_of

GUESSED = ("admin", "10.0.0.1")


def fail(lockout: Lockout, times: int, now_ms: int = 0) -> None:
    for _ in range(times):
        lockout.failed(GUESSED, now_ms)


def test_some_mistakes_are_free() -> None:
    lockout = Lockout()
    fail(lockout, FAILURES_FREE - 1)
    assert lockout.waits_ms(GUESSED, 0) == 0


def test_then_it_waits_twice_as_long_each_time_up_to_a_limit() -> None:
    lockout = Lockout()
    fail(lockout, FAILURES_FREE)
    waits = [lockout.waits_ms(GUESSED, 0)]
    for _ in range(10):
        fail(lockout, 1)
        waits.append(lockout.waits_ms(GUESSED, 0))
    assert waits[:3] == [LOCKOUT_MS, 2 * LOCKOUT_MS, 4 * LOCKOUT_MS]
    assert waits[-1] == LOCKOUT_MS_MAX


def test_others_do_not_wait() -> None:
    lockout = Lockout()
    fail(lockout, FAILURES_FREE)
    assert not lockout.waits_ms(("admin", "10.0.0.2"), 0)
    assert not lockout.waits_ms(("ada", "10.0.0.1"), 0)


def test_who_gets_in_starts_anew() -> None:
    lockout = Lockout()
    fail(lockout, FAILURES_FREE)
    lockout.succeeded(GUESSED)
    assert not lockout.waits_ms(GUESSED, 0)
    fail(lockout, FAILURES_FREE - 1)
    assert not lockout.waits_ms(GUESSED, 0)


def test_it_is_forgiven_after_long_peace() -> None:
    lockout = Lockout()
    fail(lockout, FAILURES_FREE)
    fail(lockout, 1, LOCKOUT_MS + 10 * LOCKOUT_MS_MAX + 1)
    assert not lockout.waits_ms(GUESSED, LOCKOUT_MS + 10 * LOCKOUT_MS_MAX + 1)


def test_failing_for_many_other_names_does_not_make_it_forgotten() -> None:
    lockout = Lockout(most=10)
    fail(lockout, FAILURES_FREE)
    for name in range(1_000):
        lockout.failed((f"n{name}", "10.0.0.1"), 0)
    assert lockout.waits_ms(GUESSED, 0) == LOCKOUT_MS


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_all_addresses_of_one_network_are_one_place(host: str, network: str) -> None:
    assert network_of(host) == network

"""How long clients wait because of their quotas."""

from __future__ import annotations

import pytest

from goqueue.base.limits import QUOTA_CLIENTS_KNOWN_MAX, THROTTLE_MS_MAX
from goqueue.base.quotas import BYTES_IN, BYTES_OUT, EACH, LIMIT_MAX, Quota, QuotaEntity, check_quota
from goqueue.core.quotas import Meter, QuotaClient, QuotaTable


def table(*quotas: tuple[str | None, str | None, float]) -> QuotaTable:
    return QuotaTable([Quota(QuotaEntity(user, client), {BYTES_IN: rate}) for user, client, rate in quotas])


def test_what_is_over_the_rate_is_owed_and_paid_off_with_time() -> None:
    meter = Meter(1000, 0)
    assert meter.charge(250, 0) == 0, "a quarter of a second's worth can be used at once"
    assert meter.charge(1000, 0) == 1000
    assert meter.wait_ms(400) == 600
    assert meter.wait_ms(1000) == 0
    assert meter.charge(1, 1000) == 1


@pytest.mark.parametrize("size", [1, 100, 5_000])
def test_a_client_that_waits_as_told_keeps_the_rate(size: int) -> None:
    meter, now, sent = Meter(10_000, 0), 0, 0
    while now < 60_000:
        sent += size
        now += max(meter.charge(size, now), 1 if size < 10 else 0)
    assert sent / (now / 1000) <= 10_000 * 1.05


def test_it_is_smooth_no_burst_after_a_pause_is_larger_than_a_quarter_of_a_second() -> None:
    meter = Meter(1000, 0)
    assert meter.charge(251, 3_600_000) > 0


def test_nobody_waits_for_longer_than_the_bound_and_owes_no_more() -> None:
    meter = Meter(1, 0)
    assert meter.charge(10**9, 0) == THROTTLE_MS_MAX
    assert meter.wait_ms(THROTTLE_MS_MAX) == 0


def test_the_most_specific_quota_that_has_the_limit_holds() -> None:
    entities = [
        (None, EACH),
        (None, "c"),
        (EACH, None),
        (EACH, EACH),
        (EACH, "c"),
        ("u", None),
        ("u", EACH),
        ("u", "c"),
    ]
    for count in range(1, len(entities) + 1):
        quotas = [(user, client, 2.0**number) for number, (user, client) in enumerate(entities[:count])]
        wait = table(*quotas).charge(QuotaClient("u", "c"), BYTES_IN, 2.0**count * 1.25, 0)
        holding = 2.0 ** (count - 1)
        assert wait == pytest.approx((2.0**count * 1.25 / holding - 0.25) * 1000, abs=1), entities[count - 1]


def test_a_quota_of_a_user_is_shared_and_one_of_each_is_not() -> None:
    shared = table(("u", None, 1000))
    assert shared.charge(QuotaClient("u", "a"), BYTES_IN, 1250, 0) == 1000
    assert shared.wait_ms(QuotaClient("u", "b"), BYTES_IN, 0) == 1000
    each = table((EACH, None, 1000))
    assert each.charge(QuotaClient("u", "a"), BYTES_IN, 1250, 0) == 1000
    assert each.wait_ms(QuotaClient("v", "a"), BYTES_IN, 0) == 0


def test_without_a_limit_nobody_waits() -> None:
    assert table().is_empty
    assert table().charge(QuotaClient("u", "c"), BYTES_IN, 10**12, 0) == 0
    other = table(("other", None, 1))
    assert other.charge(QuotaClient("u", "c"), BYTES_IN, 10**12, 0) == 0
    assert other.charge(QuotaClient("other", "c"), BYTES_OUT, 10**12, 0) == 0


def test_debts_of_very_many_clients_take_bounded_memory() -> None:
    quotas = table((None, EACH, 1000))
    for number in range(QUOTA_CLIENTS_KNOWN_MAX + 10):
        quotas.charge(QuotaClient("u", f"c{number}"), BYTES_IN, 1, 0)
    assert len(quotas._meters) == QUOTA_CLIENTS_KNOWN_MAX


def test_what_is_no_quota_is_told() -> None:
    check_quota(QuotaEntity("u"), {BYTES_IN: 1.0, BYTES_OUT: None})
    for entity, changes in (
        (QuotaEntity(), {BYTES_IN: 1.0}),
        (QuotaEntity("u"), {"speed": 1.0}),
        (QuotaEntity("u"), {BYTES_IN: 0.0}),
        (QuotaEntity("u"), {BYTES_IN: -1.0}),
        (QuotaEntity("u"), {BYTES_IN: float("nan")}),
        (QuotaEntity("u"), {BYTES_IN: LIMIT_MAX * 2}),
        (QuotaEntity("u" * 1000), {BYTES_IN: 1.0}),
    ):
        with pytest.raises(Exception, match=r"\."):
            check_quota(entity, changes)


def test_what_is_owed_stays_owed_when_another_quota_changes() -> None:
    quotas = table(("ada", None, 1_000))
    owed = quotas.charge(QuotaClient("ada", ""), BYTES_IN, 10_000, 0)
    assert owed > 9_000
    quotas.set([Quota(QuotaEntity("ada", None), {BYTES_IN: 1_000}), Quota(QuotaEntity("bob", None), {BYTES_IN: 1})])
    assert quotas.wait_ms(QuotaClient("ada", ""), BYTES_IN, 0) == owed
    quotas.set([Quota(QuotaEntity("ada", None), {BYTES_IN: 2_000})])
    assert quotas.wait_ms(QuotaClient("ada", ""), BYTES_IN, 0) == 0, "under another limit it begins anew"


def of_tenants(*quotas: tuple[QuotaEntity, float]) -> QuotaTable:
    return QuotaTable([Quota(entity, {BYTES_IN: rate}) for entity, rate in quotas])


def test_a_tenants_limit_is_shared_by_its_users_and_holds_beside_their_own() -> None:
    quotas = of_tenants((QuotaEntity(tenant="a"), 1_000.0), (QuotaEntity("u"), 100_000.0))
    assert quotas.charge(QuotaClient("u", "c", "a"), BYTES_IN, 1_250, 0) == 1_000
    assert quotas.wait_ms(QuotaClient("v", "", "a"), BYTES_IN, 0) == 1_000
    assert quotas.wait_ms(QuotaClient("u", "c", "b"), BYTES_IN, 0) == 0
    each = of_tenants((QuotaEntity(tenant=""), 1_000.0))
    assert each.charge(QuotaClient("u", "", "a"), BYTES_IN, 1_250, 0) == 1_000
    assert each.wait_ms(QuotaClient("u", "", "b"), BYTES_IN, 0) == 0
    assert each.total("b", BYTES_IN) == 1_000 and each.total("b", BYTES_OUT) is None

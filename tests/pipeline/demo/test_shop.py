"""The shop's hour: the same for the same seed, and as full of trouble as it says."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

from jsonschema_rs import validator_for

from goqueue.pipeline.demo.schemas import VERSIONS
from goqueue.pipeline.demo.shop import MINUTES, TOPICS, Happening, Shop

START_MS = 1_767_268_800_000
IDS = {("orders", 1): 1, ("payments", 1): 2, ("orders", 2): 3}


def hour(seed: int, scale: int) -> list[Happening]:
    return [one for minute in Shop(seed, scale, START_MS, IDS).hour() for one in minute]


def test_the_same_seed_makes_the_same_hour() -> None:
    assert hour(7, 3_000) == hour(7, 3_000)
    assert hour(7, 3_000) != hour(8, 3_000)


def test_there_are_as_many_as_asked_for_in_order_and_within_the_hour() -> None:
    for scale in (500, 3_001, 20_000):
        found = hour(1, scale)
        assert len(found) == scale
        assert all(before.at_ms <= after.at_ms for before, after in pairwise(found))
        assert found[0].at_ms >= START_MS and found[-1].at_ms < START_MS + MINUTES * 60_000
        assert {one.topic for one in found} == set(TOPICS)


def test_a_value_fits_its_schema_unless_it_is_said_to_be_broken() -> None:
    checks = {at: validator_for(json.loads(text)) for at, text in VERSIONS.items()}
    for one in hour(7, 20_000):
        if one.version is None:
            continue
        try:
            fits = checks[one.topic, one.version].is_valid(json.loads(one.value))
        except ValueError:
            fits = False
        assert fits == (one.broken is None), one


def test_all_kinds_of_trouble_occur() -> None:
    found = hour(7, 20_000)
    fates = Counter(one.fate for one in found)
    assert set(fates) == {"done", "flaky", "hopeless", "refused", "stuck", "late"}
    assert fates["done"] > 0.9 * len(found)
    assert len({one.broken for one in found}) == 8
    assert {one.lane for one in found} == {0, 1, 2, 3, 4}
    assert any(one.delay_ms for one in found) and any(one.key is None for one in found)
    versions = Counter((one.version, one.at_ms >= START_MS + 1_800_000) for one in found if one.topic == "orders")
    assert (2, False) not in versions and versions[2, True] > versions[1, True] > 0

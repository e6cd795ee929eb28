"""Messages for the example files, made at random from a seed: out of order, late, broken, and some of them twice.

Each batch is what one run reads. What windows and joins leave out as too late is behind by hours; what is late and
counts is within the delay of the file. Between the two Spark promises nothing (see `example_oracles.Watermark`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

Given = dict[str, Any] | str
Batch = list[Given]

BATCHES: Final = 3
BEGIN: Final = datetime(2026, 1, 30, 20, tzinfo=UTC)
FAR: Final = "2126-01-31T12:00:00Z"  # only of rows that break a rule: they must not make others late
NOT_A_ROW: Final = ("", "not json", "null", "5", '["a"]', "{}", '{"id": "a"')
NAMES: Final = ("ann", "bob", " ann", "", None, 'Zoë "the cat", Oslo', "two\nlines", "a;b", "back\\slash", "=1+1")


def values(rows: Sequence[Given]) -> list[str]:
    """As `publish` sends them."""
    return [row if isinstance(row, str) else json.dumps(row) for row in rows]


class Chance(random.Random):
    def time(self, at: datetime) -> str:
        """In one of the ways in which people write it."""
        zone = timezone(timedelta(minutes=self.choice((-480, 0, 60, 330))))
        return at.astimezone(zone).isoformat() if self.random() < 0.2 else at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def amount(self) -> float | None:
        """Quarters, whose sums are the same in every order."""
        return None if self.random() < 0.05 else self.randrange(4, 400) / 4

    def mixed(self, rows: Batch) -> Batch:
        """All, out of order, and each tenth twice."""
        return self.sample([*rows, *self.sample(rows, len(rows) // 10)], len(rows) + len(rows) // 10)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


# --- orders and payments ------------------------------------------------------------------------------------------


def orders_and_payments(chance: Chance) -> Iterator[tuple[Batch, Batch]]:
    """Batches three hours apart, whose orders are of one hour; each has some of the batch before that came late."""
    for number in range(BATCHES):
        begin = BEGIN + timedelta(hours=3 * number)
        times = [begin, begin + minutes(60), *(begin + seconds(chance.randrange(3_600)) for _ in range(200))]
        found = [pairs(chance, f"o{number}", times), odd_ones(chance, begin)]
        if number >= 1:
            late = [begin - minutes(120) - seconds(chance.randrange(595)) for _ in range(40)]
            found += [pairs(chance, f"late{number}", late), ([], pairs(chance, f"o{number - 1}", late)[1])]
        if number >= 2:
            too_late = [begin - minutes(380) - seconds(chance.randrange(600)) for _ in range(40)]
            found.append(pairs(chance, f"lost{number}", too_late))
        orders, payments = ([row for pair in found for row in pair[side]] for side in (0, 1))
        payments.append({"order_id": "nobody", "amount": 1.0, "paid_at": chance.time(begin + minutes(140))})
        yield chance.mixed([*orders, *NOT_A_ROW]), chance.mixed([*payments, *NOT_A_ROW])


def pairs(chance: Chance, name: str, times: Sequence[datetime]) -> tuple[Batch, Batch]:
    """Orders, and none to three payments of each, some a second before it or more than an hour after."""
    orders: Batch = []
    payments: Batch = []
    for number, at in enumerate(times):
        total, order_id = chance.amount(), f"{name}-{number}"
        orders.append({"id": order_id, "customer": chance.choice(NAMES), "total": total, "at": chance.time(at)})
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            delay = chance.choice((-1, 0, 3_600, 3_601, *(chance.randrange(4_000) for _ in range(6))))
            amount = chance.choice((total, chance.amount(), chance.randrange(100, 100_000) / 100))
            method = chance.choice(("card", "cash", "", None))
            paid_at = chance.time(at + seconds(delay))
            payments.append({"order_id": order_id, "amount": amount, "method": method, "paid_at": paid_at})
    return orders, payments


def odd_ones(chance: Chance, begin: datetime) -> tuple[Batch, Batch]:
    at, day = chance.time(begin), begin.strftime("%d.%H")
    orders: Batch = [
        {"customer": "nobody", "total": 1.0, "at": at},
        {"customer": "nobody", "total": 1.0, "at": FAR},
        {"id": None, "total": "much", "at": at},
        {"id": f"when{day}", "customer": "ann", "total": 5, "at": "noon"},
        {"id": f"never{day}", "customer": "ann", "total": 5},
        {"id": "", "customer": 7, "total": 5, "at": at},
        {"id": f"words{day}", "customer": ["a"], "total": "much", "at": at},
    ]
    paid_at = (begin + minutes(30)).strftime("%Y-%m-%dT%H:%M:%S")  # without a zone it is UTC
    payments: Batch = [{"order_id": one, "amount": 5, "paid_at": paid_at} for one in ("", f"words{day}", None)]
    return orders, payments


# --- clicks -------------------------------------------------------------------------------------------------------


def clicks(chance: Chance) -> Iterator[Batch]:
    """Batches five hours apart, of three hours each."""
    for number in range(BATCHES):
        begin = BEGIN + timedelta(hours=5 * number)
        rows = [click(chance, "last", begin + minutes(180))]
        for visitor in (*(f"v{one}" for one in range(25)), "", None):
            rows += [click(chance, visitor, at) for at in visits(chance, begin)]
        rows += [click(chance, "bridged", begin + minutes(one)) for one in (115, 170)]
        if number >= 1:
            late = [begin - minutes(120) - seconds(chance.randrange(2_395)) for _ in range(60)]
            rows += [click(chance, f"v{chance.randrange(40)}", at) for at in late]
            rows.append(click(chance, "bridged", begin - minutes(156)))
        if number >= 2:
            rows += [click(chance, f"v{chance.randrange(40)}", begin - minutes(550 + one)) for one in range(40)]
        broken: Batch = [{"visitor": "v1", "page": "/"}, {"visitor": "v1", "at": "noon"}, {"page": "/", "at": FAR}]
        yield chance.mixed([*rows, *broken, *NOT_A_ROW])


def visits(chance: Chance, begin: datetime) -> Iterator[datetime]:
    """Half an hour to the second is still the same session."""
    at = begin + seconds(chance.randrange(1_800))
    while at <= begin + minutes(180):
        yield at
        at += seconds(chance.choice((0, 1_800, 1_801, *(chance.randrange(2_400) for _ in range(5)))))


def click(chance: Chance, visitor: str | None, at: datetime) -> Given:
    page = chance.choice(("/", "/tea", "/coffee", "/basket", "/till", "", None))
    return {"visitor": visitor, "page": page, "at": chance.time(at)}


# --- payments by card ---------------------------------------------------------------------------------------------


def card_payments(chance: Chance) -> Iterator[Batch]:
    """Batches three hours apart, of one hour and a half each."""
    for number in range(BATCHES):
        begin = BEGIN + timedelta(hours=3 * number)
        rows = [payment(chance, "last", begin + seconds(5_550))]
        cards = [*(f"c{one}" for one in range(30)), "", None]
        rows += [payment(chance, chance.choice(cards), begin + seconds(chance.randrange(5_400))) for _ in range(300)]
        for card in (*chance.sample(cards, 8), None):
            burst = begin + minutes(5 * chance.randrange(17))
            rows += [payment(chance, card, burst + seconds(120 * one)) for one in range(chance.randrange(4, 9))]
        if number >= 1:
            late = [begin - minutes(95) + seconds(chance.randrange(600)) for _ in range(40)]
            rows += [payment(chance, chance.choice(cards[-6:]), at) for at in late]
        if number >= 2:
            rows += [payment(chance, chance.choice(cards), begin - minutes(300 + one)) for one in range(40)]
        broken: Batch = [{"card": "c1", "amount": 1.0}, {"card": "c1", "at": "noon"}, {"amount": 1.0, "at": FAR}]
        yield chance.mixed([*rows, *broken, *NOT_A_ROW])


def payment(chance: Chance, card: str | None, at: datetime) -> Given:
    return {"card": card, "amount": chance.amount(), "at": chance.time(at)}


# --- changes of customers -----------------------------------------------------------------------------------------


def changes(chance: Chance) -> Iterator[Batch]:
    """Of one customer in any order; but of who is gone after a batch, only newer ones come in the next.

    Different changes of the same version are of different batches: the later one counts.
    """
    newest: dict[str, dict[str, Any]] = {}
    for number in range(BATCHES):
        known = list(newest.values())
        rows: Batch = [stale(chance, one) for one in known if not one["is_gone"] and chance.random() < 0.3]
        rows += [one | {"name": "corrected"} for one in known if chance.random() < 0.1]
        keys = [
            "",
            *chance.sample([f"k{one}" for one in range(120)], 60),
        ]  # what is stale or corrected counts for others
        for key in chance.choices(keys, k=250):
            before = newest[key]["version"] if key in newest else 0
            newest[key] = change(chance, key, before + chance.randrange(1, 4))
            rows.append(newest[key])
        rows += [{"id": "unversioned", "name": f"Ann {number}"}, *NOT_A_ROW]
        yield chance.mixed([*rows, json.dumps({"name": "nobody", "version": 1})])


def change(chance: Chance, key: str, version: int) -> dict[str, Any]:
    name, city = chance.choice(NAMES), chance.choice(("Oslo", "", None))
    is_gone = chance.choice((True, False, False, None))
    return {"id": key, "name": name, "city": city, "version": version, "is_gone": is_gone}


def stale(chance: Chance, newest: dict[str, Any]) -> dict[str, Any]:
    return change(chance, newest["id"], newest["version"] - chance.randrange(1, 3))


# --- readings of sensors ------------------------------------------------------------------------------------------


def readings(chance: Chance, count: int) -> Batch:
    """Of an oven as well, which the rule of the file does not think of."""
    odd = (-90, -90.5, 60, 60.5, 250, 1_000, 1_000.5, 5_000, None, "hot", True)
    rows: Batch = [
        {
            "sensor": chance.choice(("roof", "freezer", "oven", "", None)),
            "celsius": chance.choice(odd) if chance.random() < 0.5 else round(chance.uniform(-20, 40), 1),
            "at": chance.choice((chance.time(BEGIN + seconds(chance.randrange(86_400))), "noon", None)),
        }
        for _ in range(count)
    ]
    return chance.mixed([*rows, *NOT_A_ROW])

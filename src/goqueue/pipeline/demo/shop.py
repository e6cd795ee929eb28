"""An hour of a small shop's trade: orders, payments and clicks, the same for the same seed.

Some messages bring trouble along, and each says which in its `fate` and `broken`. Only the ledger keeps those two:
consumers and pipelines have to find out by themselves.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from goqueue.base.priority import HEADER, NORMAL

MINUTES: Final = 60
HALF: Final = MINUTES // 2
TOPICS: Final = {"orders": 3, "payments": 2, "clicks": 4}
SHARES: Final = {"clicks": 0.7, "orders": 0.17, "payments": 0.13}
_SALE: Final = range(35, 43)  # minutes in which everybody wants a teapot
_CITIES: Final = ("Aachen", "Bremen", "Cologne", "Dresden", "Essen", "Freiburg")
_GOODS: Final = ("teapot", "cup", "saucer", "kettle", "strainer", "tray")
_PAGES: Final = ("/", "/teapots", "/cups", "/sale", "/basket", "/checkout", "/help")


class Happening(msgspec.Struct, frozen=True):
    """One message of the hour. `fate` is what becomes of it in its queue, `broken` what is wrong with its value.

    | fate | what happens |
    |---|---|
    | `done` | acked |
    | `flaky` | fails once, then acked |
    | `hopeless` | fails until it is dead: MAX_FAILURES |
    | `refused` | rejected: REJECTED |
    | `stuck` | its consumer never answers: LEASE_EXPIRED |
    | `late` | its time to live is over: TTL_EXPIRED |
    """

    topic: str
    at_ms: int
    key: str | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    lane: int = NORMAL
    version: int | None = None
    fate: str = "done"
    broken: str | None = None
    delay_ms: int = 0
    partition: int | None = None


class Shop:
    """All that is random comes out of `seed`. `schema_ids` are the registry's, by topic and version."""

    def __init__(self, seed: int, scale: int, start_ms: int, schema_ids: dict[tuple[str, int], int]) -> None:
        self._chance = random.Random(seed)
        self._scale = scale
        self._start_ms = start_ms
        self._schema_ids = schema_ids
        self._customers = max(20, scale // 60)
        self._numbers = {"orders": 0, "payments": 0}

    def hour(self) -> Iterator[list[Happening]]:
        """Minute by minute, each in order of time."""
        for minute, count in enumerate(minutes(self._scale, self._chance)):
            topics = self._chance.choices(list(SHARES), list(SHARES.values()), k=count)
            found = [self._happening(minute, topic) for topic in topics]
            yield sorted(found, key=lambda one: (one.at_ms, one.topic, one.value))

    def _happening(self, minute: int, topic: str) -> Happening:
        at_ms = self._start_ms + minute * 60_000 + self._chance.randrange(60_000)
        make = {"orders": self._order, "payments": self._payment, "clicks": self._click}[topic]
        return make(at_ms, minute)

    def _customer(self) -> str:
        """Some come often, most hardly ever."""
        return f"c-{int(self._customers * self._chance.random() ** 2.2):05d}"

    def _number(self, topic: str) -> int:
        self._numbers[topic] += 1
        return self._numbers[topic]

    # --- orders ---------------------------------------------------------------------------------------

    def _order(self, at_ms: int, minute: int) -> Happening:
        chance, customer = self._chance, self._customer()
        goods = [self._goods() for _ in range(1 + int(3 * chance.random() ** 2))]
        told: dict[str, Any] = {
            "order": f"o-{self._number('orders'):06d}",
            "customer": customer,
            "items": goods,
            "total": sum(one["count"] * one["cents"] for one in goods),
            "currency": "EUR",
            "address": {"city": chance.choice(_CITIES), "street": f"Teestraße {chance.randrange(1, 99)}"},
            "depot": chance.randrange(1, 6),
        }
        version = self._version(minute)
        if version == 2:
            told |= self._news()
        fate, broken = self._order_trouble(told)
        lane = 1 if chance.random() < 0.12 else NORMAL
        return self._made("orders", at_ms, customer, told, lane, version, fate, broken)

    def _goods(self) -> dict[str, Any]:
        kind = self._chance.choice(_GOODS)
        return {
            "sku": f"{kind}-{self._chance.randrange(100, 400)}",
            "count": 1,
            "cents": self._chance.randrange(190, 8_900),
        }

    def _version(self, minute: int) -> int:
        """From half past on the web shop writes the new form, and the app still the old one."""
        return 2 if minute >= HALF and self._chance.random() < 0.8 else 1

    def _news(self) -> dict[str, Any]:
        channel = self._chance.choice(("web", "phone"))
        return {"channel": channel} | ({"coupon": "TEA5"} if self._chance.random() < 0.4 else {})

    def _order_trouble(self, told: dict[str, Any]) -> tuple[str, str | None]:
        dice = self._chance.random()
        if dice < 0.010:
            told["items"][0]["sku"] = f"vase-{self._chance.randrange(100, 400)}"
            return "hopeless", None
        if dice < 0.018:
            del told["address"]["street"]
            return "refused", "no street"
        if dice < 0.045:
            told["depot"] = 13
            return "flaky", None
        if dice < 0.050:
            told["total"] = -told["total"]
            return "done", "negative total"
        if dice < 0.054:
            told["currency"] = "XXX"
            return "done", "unknown currency"
        return "done", None

    # --- payments -------------------------------------------------------------------------------------

    def _payment(self, at_ms: int, minute: int) -> Happening:
        chance = self._chance
        order = f"o-{max(1, self._numbers['orders'] - chance.randrange(40)):06d}"
        told: dict[str, Any] = {
            "payment": f"p-{self._number('payments'):06d}",
            "order": order,
            "cents": chance.randrange(190, 19_900),
            "method": chance.choice(("card", "card", "card", "transfer", "invoice")),
        }
        fate, broken = self._payment_trouble(told)
        lane = 0 if chance.random() < 0.06 else NORMAL
        delay_ms = chance.randrange(200, 2_000) if fate == "done" and broken is None and chance.random() < 0.02 else 0
        made = self._made("payments", at_ms, order, told, lane, 1, fate, broken, delay_ms)
        return spoiled(made) if broken == "no JSON" else made

    def _payment_trouble(self, told: dict[str, Any]) -> tuple[str, str | None]:
        dice = self._chance.random()
        if dice < 0.012:
            told["method"] = "stolen card"
            return "refused", "unknown method"
        if dice < 0.016:
            told["method"] = "slow bank"
            return "stuck", "unknown method"
        if dice < 0.020:
            return "hopeless", "no JSON"
        if dice < 0.026:
            del told["order"]
            return "refused", "no order"
        if dice < 0.030:
            return "late", None
        if dice < 0.050:
            told["method"] = "transfer"
            told["bank"] = "busy"
            return "flaky", None
        return "done", None

    # --- clicks ---------------------------------------------------------------------------------------

    def _click(self, at_ms: int, minute: int) -> Happening:
        chance = self._chance
        customer = self._customer() if chance.random() < 0.6 else None
        page = "/sale" if minute in _SALE and chance.random() < 0.5 else chance.choice(_PAGES)
        seconds = round(0.1 + chance.expovariate(1 / 20), 1)
        broken = "negative seconds" if chance.random() < 0.003 else None  # somebody's clock went back
        told = {"page": page, "customer": customer, "seconds": -seconds if broken else seconds}
        lane = chance.choices((NORMAL, 3, 4), (1, 6, 3))[0]
        made = self._made("clicks", at_ms, customer, told, lane, broken=broken)
        return made if customer else msgspec.structs.replace(made, partition=chance.randrange(TOPICS["clicks"]))

    # --- all ------------------------------------------------------------------------------------------

    def _made(
        self,
        topic: str,
        at_ms: int,
        key: str | None,
        told: dict[str, Any],
        lane: int,
        version: int | None = None,
        fate: str = "done",
        broken: str | None = None,
        delay_ms: int = 0,
    ) -> Happening:
        source = self._chance.choice((b"web", b"web", b"app"))
        headers = [("source", source)]
        if lane != NORMAL:
            headers.append((HEADER, str(lane).encode()))
        if version is not None:
            headers.append(("schema-id", str(self._schema_ids[topic, version]).encode()))
        if fate == "late":
            headers.append(("goqueue-expires-at", str(at_ms + 60_000).encode()))
        value = json.dumps(told, ensure_ascii=False).encode()
        return Happening(topic, at_ms, key, value, tuple(headers), lane, version, fate, broken, delay_ms)


def spoiled(made: Happening) -> Happening:
    """Cut off in the middle, as by a crash of the program that wrote it."""
    return msgspec.structs.replace(made, value=made.value[: len(made.value) // 2])


def minutes(scale: int, chance: random.Random) -> list[int]:
    """How many messages each minute has, `scale` in all: waves, one rush, and no two alike."""
    waves = [1 + 0.35 * math.sin(minute / 8) + (1.8 if minute in _SALE else 0.0) for minute in range(MINUTES)]
    weights = [wave * chance.uniform(0.85, 1.15) for wave in waves]
    edges = [round(scale * sum(weights[:place]) / sum(weights)) for place in range(MINUTES + 1)]
    return [after - before for before, after in pairwise(edges)]

"""What the example files make of their messages, in plain Python. A batch is the values that one run reads."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tests.pipeline.topics import Stored

Row = dict[str, Any]
Batches = Sequence[Sequence[str]]
Columns = Mapping[str, Callable[[Any], Any]]
Rules = Mapping[str, Callable[[Row], bool]]

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR: Final = timedelta(hours=1)
_SILENCE: Final = timedelta(minutes=30)
_WINDOW: Final = timedelta(minutes=10)
_SLIDE: Final = timedelta(minutes=5)


# --- values as rows -----------------------------------------------------------------------------------------------


def text(given: Any) -> str | None:
    return given if given is None or isinstance(given, str) else json.dumps(given)


def number(given: Any) -> float | None:
    return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None


def whole(given: Any) -> int | None:
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def yes_or_no(given: Any) -> bool | None:
    return given if isinstance(given, bool) else None


def moment(given: Any) -> datetime | None:
    """Without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


ORDERS: Final[Columns] = {"id": text, "customer": text, "total": number, "at": moment}
PAYMENTS: Final[Columns] = {"order_id": text, "amount": number, "method": text, "paid_at": moment}
CLICKS: Final[Columns] = {"visitor": text, "page": text, "at": moment}
CARD_PAYMENTS: Final[Columns] = {"card": text, "amount": number, "at": moment}
CHANGES: Final[Columns] = {"id": text, "name": text, "city": text, "version": whole, "is_gone": yes_or_no}
READINGS: Final[Columns] = {"sensor": text, "celsius": number, "at": moment}


def parsed(value: str, columns: Columns) -> Row:
    """What does not fit its column is None, and so is everything if the value is no object."""
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    given = found if isinstance(found, dict) else {}
    return {name: fitted(given.get(name)) for name, fitted in columns.items()}


def as_json(row: Mapping[str, Any]) -> Row:
    """A row as Spark writes it: times as text, and without what is None."""
    return {name: _told(value) for name, value in row.items() if value is not None}


def _told(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.000Z") if isinstance(value, datetime) else value


# --- rules --------------------------------------------------------------------------------------------------------


def broken_by(row: Row, rules: Rules) -> list[str]:
    return [name for name, holds in rules.items() if not holds(row)]


def quarantined(topic: str, stored: Iterable[Stored], columns: Columns, rules: Rules) -> Iterator[Row]:
    """The messages that break a rule, by the columns of the quarantine that tell of them."""
    for one in stored:
        value = (one.value or b"").decode()
        row = parsed(value, columns)
        if broken := broken_by(row, rules):
            place = {"topic": topic, "partition": one.partition, "offset": one.offset}
            yield {"rules": broken, "row": as_json({**row, "_value": value}), **place}


def valid(topic: str, stored: Iterable[Stored], columns: Columns, rules: Rules) -> Iterator[Row]:
    """The others, with the columns that every row of a topic has."""
    for one in stored:
        value = (one.value or b"").decode()
        row = parsed(value, columns)
        if not broken_by(row, rules):
            key = None if one.key is None else one.key.decode()
            place = {"_key": key, "_topic": topic, "_partition": one.partition, "_offset": one.offset}
            yield {**row, "_value": value, **place}


# --- time ---------------------------------------------------------------------------------------------------------


class Watermark:
    """What is too late for a batch.

    Spark promises to keep what is behind by no more than the delay. It drops by the watermark of the batch before, so
    what ended between that one and the current one is kept or not by chance of the batches. No row of a test may be
    there; then there is only one right result.
    """

    def __init__(self, delay: timedelta) -> None:
        self._delay, self._before, self.now = delay, _LONG_AGO, _LONG_AGO
        self.dropped = 0

    def is_late(self, end: datetime) -> bool:
        assert not self._before < end <= self.now, f"{end} may be dropped or not; the test's rows have to be others"
        self.dropped += end <= self.now
        return end <= self.now

    def closes(self, end: datetime) -> bool:
        """Whether it is this batch after which no more can come."""
        return self._before < end <= self.now

    def advance(self, *newest: datetime) -> None:
        """After a batch; `newest` are the latest times of each source."""
        self._before, self.now = self.now, max(self.now, min(newest) - self._delay)


# --- orders_payments and daily_export -----------------------------------------------------------------------------

ORDER_RULES: Final[Rules] = {"order-has-an-id": lambda row: row["id"] is not None and row["at"] is not None}


def paid_orders(orders: Batches, payments: Batches) -> list[Row]:
    """Everything that came in time is kept for as long as a partner may come: so batches do not matter for the join."""
    mark = Watermark(timedelta(minutes=10))
    kept_orders: list[Row] = []
    kept_payments: dict[str, list[Row]] = defaultdict(list)
    for order_values, payment_values in zip(orders, payments, strict=True):
        ordered = [row for one in order_values if not broken_by(row := parsed(one, ORDERS), ORDER_RULES)]
        paid = [row for one in payment_values if (row := parsed(one, PAYMENTS))["paid_at"] is not None]
        kept_orders += [one for one in ordered if not mark.is_late(one["at"])]
        for one in paid:
            if not mark.is_late(one["paid_at"]) and one["order_id"] is not None:
                kept_payments[one["order_id"]].append(one)
        mark.advance(max(one["at"] for one in ordered), max(one["paid_at"] for one in paid))
    assert mark.dropped, "no row is too late"
    return [_paid(order, one) for order in kept_orders for one in kept_payments[order["id"]] if _belongs(order, one)]


def _belongs(order: Row, payment: Row) -> bool:
    return bool(order["at"] <= payment["paid_at"] <= order["at"] + _HOUR)


def _paid(order: Row, payment: Row) -> Row:
    is_known = payment["amount"] is not None and order["total"] is not None
    paid = {name: payment[name] for name in ("amount", "method", "paid_at")}
    return {**order, **paid, "is_paid_in_full": payment["amount"] >= order["total"] if is_known else None}


def daily_totals(paid: Iterable[Row]) -> list[Row]:
    """As they stand in the file: a cell without anything is empty."""
    groups: dict[tuple[str | None, str], list[float | None]] = defaultdict(list)
    for one in paid:
        groups[one["customer"], one["paid_at"].date().isoformat()].append(one["amount"])
    return [
        {"customer": customer or "", "day": day, "orders": len(amounts), "amount": _cents(amounts)}
        for (customer, day), amounts in groups.items()
    ]


def _cents(amounts: Iterable[float | None]) -> float | None:
    known = [Decimal(str(one)) for one in amounts if one is not None]
    return float(round(sum(known, Decimal(0)), 2)) if known else None


# --- click_sessions -----------------------------------------------------------------------------------------------

CLICK_RULES: Final[Rules] = {"click-has-a-visitor": lambda row: row["visitor"] is not None and row["at"] is not None}


def sessions(batches: Batches) -> list[Row]:
    """Those that are over: their end is behind the watermark of a batch."""
    mark = Watermark(timedelta(minutes=10))
    found: list[Row] = []
    waiting: dict[str, list[Row]] = defaultdict(list)
    for batch in batches:
        clicks = [row for one in batch if not broken_by(row := parsed(one, CLICKS), CLICK_RULES)]
        for one in clicks:
            if not mark.is_late(one["at"] + _SILENCE):
                waiting[one["visitor"]].append(one)
        for visitor, kept in waiting.items():
            runs = _without_silence(kept)
            found += [_session(run) for run in runs if run[-1]["at"] + _SILENCE <= mark.now]
            waiting[visitor] = [one for run in runs if run[-1]["at"] + _SILENCE > mark.now for one in run]
        mark.advance(max(one["at"] for one in clicks))
    assert mark.dropped, "no click is too late"
    return found


def _without_silence(clicks: Iterable[Row]) -> list[list[Row]]:
    runs: list[list[Row]] = []
    for one in sorted(clicks, key=itemgetter("at")):
        if runs and one["at"] <= runs[-1][-1]["at"] + _SILENCE:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _session(run: Sequence[Row]) -> Row:
    pages = {one["page"] for one in run} - {None}
    times = {"began": run[0]["at"], "ended": run[-1]["at"] + _SILENCE}
    return {"visitor": run[0]["visitor"], **times, "clicks": len(run), "pages": len(pages)}


# --- fraud --------------------------------------------------------------------------------------------------------

CARD_RULES: Final[Rules] = {"payment-has-a-card": lambda row: row["card"] is not None and row["at"] is not None}
CardWindow = tuple[str, datetime]


class CardUses(NamedTuple):
    """Rows of the table, and messages of the topic."""

    table: list[Row]
    alerts: list[Row]


def card_uses(batches: Batches) -> CardUses:
    mark = Watermark(timedelta(minutes=5))
    amounts: dict[CardWindow, list[float | None]] = defaultdict(list)
    alerts: list[Row] = []
    for batch in batches:
        payments = [row for one in batch if not broken_by(row := parsed(one, CARD_PAYMENTS), CARD_RULES)]
        for one in payments:
            for began in _windows(one["at"]):
                if not mark.is_late(began + _WINDOW):
                    amounts[one["card"], began].append(one["amount"])
        closed = [key for key in amounts if mark.closes(key[1] + _WINDOW)]
        alerts += [_uses(key, amounts[key]) for key in closed if len(amounts[key]) >= 5]
        mark.advance(max(one["at"] for one in payments))
    assert mark.dropped, "no payment is too late"
    return CardUses([_uses(*one) for one in amounts.items()], alerts)


def _windows(at: datetime) -> tuple[datetime, datetime]:
    last = at - (at - _LONG_AGO) % _SLIDE
    return last - _SLIDE, last


def _uses(key: CardWindow, amounts: Sequence[float | None]) -> Row:
    card, began = key
    known = [one for one in amounts if one is not None]
    amount = sum(known) if known else None
    return {"card": card, "began": began, "ended": began + _WINDOW, "uses": len(amounts), "amount": amount}


# --- customers and readings ---------------------------------------------------------------------------------------

CHANGE_RULES: Final[Rules] = {"change-has-an-id": lambda row: row["id"] is not None}


def customers(batches: Batches) -> list[Row]:
    """Who is not gone by their last change: the one of the highest version, and of two such the one that came last."""
    last: dict[str, Row] = {}
    for value in (one for batch in batches for one in batch):
        row = parsed(value, CHANGES)
        if row["id"] is not None and (row["id"] not in last or _version(row) >= _version(last[row["id"]])):
            last[row["id"]] = row | {"is_gone": bool(row["is_gone"])}
    return [one for one in last.values() if not one["is_gone"]]


def _version(change: Row) -> int:
    return -1 if change["version"] is None else int(change["version"])


def reading_rules(highest: float) -> Rules:
    return {
        "sensor-is-named": lambda row: row["sensor"] is not None,
        "celsius-is-possible": lambda row: row["celsius"] is not None and -90 <= row["celsius"] <= highest,
    }

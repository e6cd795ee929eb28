"""Lives of messages from a seed: the events that a node would write of them, and how long each part took.

What is expected is noted while a life is told, so that it owes nothing to the code that works it out of the events.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

SECOND = 1_000_000_000
MICRO = 1_000
START = 1_767_225_600 * SECOND  # 2026-01-01


class Measured(NamedTuple):
    """A stage as it must come out."""

    trace_id: str
    stage: str
    topic: str
    group: str
    at_ns: int
    took_us: int


class Teller:
    """Tells lives, one event after the other. Times are whole microseconds."""

    def __init__(self, seed: int, topics: tuple[str, ...] = ("orders", "mails")) -> None:
        self._chance = random.Random(seed)
        self._topics = topics
        self._offsets: dict[tuple[str, int], int] = {}
        self._spans = 0
        self.events: list[dict[str, Any]] = []
        self.expected: list[Measured] = []

    def tell(self, count: int, span_s: int) -> None:
        """So many messages, their beginnings spread over a stretch of time."""
        for _ in range(count):
            _Life(self, self._chance, START + self._chance.randrange(span_s * 1_000_000) * MICRO).live()

    def topic(self) -> str:
        return self._chance.choice(self._topics)

    def place(self, topic: str) -> tuple[str, int, int]:
        partition = self._chance.randrange(2)
        offset = self._offsets.get((topic, partition), 0)
        self._offsets[topic, partition] = offset + 1
        return topic, partition, offset

    def event(
        self, trace_id: str, name: str, start_ns: int, end_ns: int, at: tuple[str, int, int], **more: Any
    ) -> None:
        self._spans += 1
        group = more.pop("group", "")
        told = {"trace_id": trace_id, "span_id": f"{self._spans:016x}", "name": name, "start_ns": start_ns}
        told |= {"end_ns": end_ns, "topic": at[0], "partition": at[1], "offset": at[2], "group": group, "key": "k"}
        self.events.append({**told, "more": {key.rstrip("_"): str(value) for key, value in more.items()}})


class _Life:
    """One message with one or two groups; it may wait first, fail, die, and come back."""

    def __init__(self, teller: Teller, chance: random.Random, now_ns: int) -> None:
        self._teller, self._chance, self.now = teller, chance, now_ns
        self._trace = f"{chance.getrandbits(128):032x}"
        self._topic = teller.topic()
        self._at = (self._topic, 0, -1)

    def live(self) -> None:
        born = self._delayed() if self._chance.random() < 0.2 else self._published()
        entered = self.now
        for group in ("packers", "printers")[: self._chance.choice((1, 1, 2))]:
            self.now = entered
            self._consumed(group, born, entered)

    # --- events and what they mean -------------------------------------------------------------------------

    def _later(self, most_us: int = 5_000_000) -> int:
        self.now += self._chance.randrange(1, most_us) * MICRO
        return self.now

    def _tell(self, name: str, start_ns: int, **more: Any) -> None:
        self._teller.event(self._trace, name, start_ns, self.now, self._at, **more)

    def _expect(self, stage: str, begin_ns: int, group: str = "", topic: str | None = None) -> None:
        took = (self.now - begin_ns) // MICRO
        self._teller.expected.append(Measured(self._trace, stage, topic or self._topic, group, self.now, took))

    # --- the parts of a life -------------------------------------------------------------------------------

    def _published(self) -> int:
        self._at = self._teller.place(self._topic)
        born = self.now
        self._tell("publish.received", born, door="rest")
        checked = self._later(900)
        self._tell("publish.validated", born)
        self._expect("publish.validate", born)
        self._tell("publish.partitioned", checked)
        self._later(9_000)
        self._tell("publish.persisted", checked)
        self._expect("publish.persist", checked)
        if self._chance.random() < 0.2:
            self._in_transaction()
        return born

    def _in_transaction(self) -> None:
        added = self.now
        self._tell("txn.added", added, producer_id=7)
        self._later()
        self._tell("txn.prepared", self.now, outcome="commit")
        self._later(9_000)
        self._tell("txn.committed", self.now)
        self._expect("txn.end", added)

    def _delayed(self) -> int:
        born = self.now
        self._tell("publish.received", born, door="rest")
        self._later(900)
        self._tell("publish.validated", born)
        self._expect("publish.validate", born)
        self._tell("delay.scheduled", self.now, scheduled=0)
        accepted = self.now // 1_000_000 * 1_000_000
        due = accepted + self._chance.randrange(1, 7_200_000) * 1_000_000
        self.now = due + self._chance.randrange(0, 9_000) * MICRO
        self._at = self._teller.place(self._topic)
        self._tell("delay.ready", accepted, scheduled=0, deliver_at=due // 1_000_000)
        self._expect("delay.wait", accepted)
        self._expect("delay.late", due)
        self._tell("publish.persisted", self.now)
        return accepted

    def _consumed(self, group: str, born: int, entered: int) -> None:
        fetched = self._fetched(group, "publish.deliver", entered)
        for _ in range(3):
            how = self._chance.choice(("ack", "ack", "ack", "nack", "timeout", "release", "die"))
            if how == "ack":
                return self._acked(group, fetched, born)
            if how == "die":
                return self._died(group, fetched)
            self._returned(group, fetched, how)
            fetched = self._fetched(group, "redeliver", self.now)
        return None

    def _fetched(self, group: str, stage: str, since: int) -> int:
        self._later()
        self._tell("consume.fetched", self.now, group=group, attempt=1)
        self._expect(stage, since, group)
        return self.now

    def _acked(self, group: str, fetched: int, born: int) -> None:
        self._later()
        self._tell("consume.acked", fetched, group=group)
        self._expect("lease.ack", fetched, group)
        self._expect("total", born, group)

    def _returned(self, group: str, fetched: int, how: str) -> None:
        names = {"nack": "consume.nacked", "timeout": "visibility.timeout", "release": "visibility.released"}
        stages = {"nack": "lease.fail", "timeout": "lease.timeout", "release": "lease.release"}
        self._later()
        self._tell(names[how], fetched, group=group)
        self._expect(stages[how], fetched, group)

    def _died(self, group: str, fetched: int) -> None:
        self._later()
        failed = self.now
        self._tell("consume.rejected", fetched, group=group, reason=f"no item {self._chance.randrange(999)}")
        self._expect("lease.fail", fetched, group)
        here, dead_letter_target = self._at, self._teller.place(f"{self._topic}.dlq")
        self._later(9_000)
        buried, self._at = self.now, dead_letter_target
        self._tell("dlq.routed", self.now, group=group, from_="/".join(map(str, here)), reason="REJECTED")
        self._expect("dlq.bury", failed, group)
        self._at = here
        if self._chance.random() < 0.5:
            self._came_back(group, dead_letter_target, buried)

    def _came_back(self, group: str, dead_letter_target: tuple[str, int, int], buried: int) -> None:
        here = self._at
        self._later()
        self._at = self._teller.place(self._topic)
        self._tell("dlq.redriven", self.now, from_=":".join(map(str, dead_letter_target)), redrives=1)
        self._expect("dlq.wait", buried, topic=f"{self._topic}.dlq")
        back = self.now
        fetched = self._fetched(group, "publish.deliver", back)
        self._acked(group, fetched, back)
        self._at = here

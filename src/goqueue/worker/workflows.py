"""The chords of one partition: which members are done, and which callbacks are due. No I/O: records in, plans out.

The records of a partition are its whole state. Whoever reads them from the start, or from `floor`, knows the same.
"""

from __future__ import annotations

import msgspec

from goqueue.base.limits import TASK_BYTES_MAX
from goqueue.worker import plan
from goqueue.worker.calls import MemberDone, MemberFailed, WorkflowBegun, WorkflowEnded, WorkflowRecord
from goqueue.worker.plan import Plan


class _Chord:
    """One that has begun, or of which a member was seen before its beginning."""

    def __init__(self, offset: int) -> None:
        self.first_offset = offset
        self.begun: WorkflowBegun | None = None
        self.values: dict[int, msgspec.Raw] = {}
        self.failures: dict[int, MemberFailed] = {}
        self.is_told = False  # that it failed

    def is_due(self) -> bool:
        if self.begun is None or len(self.values) + len(self.failures) < self.begun.count:
            return False
        return not self.failures or not self.is_told


class Workflows:
    """See the module's first lines."""

    def __init__(self) -> None:
        self._chords: dict[str, _Chord] = {}
        self._changed: set[str] = set()

    def apply(self, record: WorkflowRecord, offset: int) -> None:
        """Records may come twice: a member is done once."""
        if isinstance(record, WorkflowEnded) and not record.is_failure:
            self._chords.pop(record.id, None)
            return
        chord = self._chords.setdefault(record.id, _Chord(offset))
        self._changed.add(record.id)
        if isinstance(record, WorkflowBegun):
            chord.begun = record
        elif isinstance(record, MemberDone):
            chord.failures.pop(record.index, None)
            chord.values.setdefault(record.index, record.value)
        elif isinstance(record, MemberFailed):
            if record.index not in chord.values:
                chord.failures[record.index] = record
        else:
            chord.is_told = True

    def due(self) -> list[Plan]:
        """What has to be sent now. It is due until the records of these plans are applied."""
        ready = [self._chords[name] for name in sorted(self._changed) if name in self._chords]
        self._changed = {name for name in self._changed if name in self._chords and self._chords[name].is_due()}
        return [_plan_of(chord) for chord in ready if chord.is_due()]

    def floor(self, end: int) -> int:
        """Below this offset nothing is needed any more."""
        return min((chord.first_offset for chord in self._chords.values()), default=end)


def _plan_of(chord: _Chord) -> Plan:
    begun = chord.begun
    assert begun is not None
    if chord.failures:
        first = chord.failures[min(chord.failures)]
        return _ended(plan.give_up(begun, first.kind, first.message), WorkflowEnded(begun.id, is_failure=True))
    values = [chord.values[place] for place in range(begun.count)]
    if sum(map(len, map(bytes, values))) > TASK_BYTES_MAX:
        told = plan.give_up(begun, "TaskTooLarge", f"the results of all members take more than {TASK_BYTES_MAX} bytes")
        return _ended(told, WorkflowEnded(begun.id))
    return _ended(plan.fire(begun, values), WorkflowEnded(begun.id))


def _ended(what: Plan, record: WorkflowEnded) -> Plan:
    return msgspec.structs.replace(what, records=[*what.records, record])

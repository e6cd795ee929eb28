"""What a person is told when a node serves."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.base.started import Started


def block(started: Started, more: Sequence[str] = ()) -> str:
    """What a person wants to know after a start; `more` are lines about its processes."""
    found = f"{started.topics} topics, {started.partitions} partitions"
    if started.messages is not None:
        found += f", {started.messages:,} messages"
    checked = "clean" if not started.bytes_checked else f"checked {started.bytes_checked:,} bytes after a crash"
    if started.bytes_cut:
        checked += f", cut {started.bytes_cut:,}"
    if started.bytes_replayed:
        checked += f", took {started.bytes_replayed:,} from the journal"
    if started.damaged_entries:
        checked += f", {started.damaged_entries} damaged entries in the journal"
    if started.damaged_ranges:
        checked += f", {started.damaged_ranges} damaged ranges quarantined"
    lines = [
        f"GoQueue {started.version}",
        f"  data       {started.data_dir} (fsync {started.fsync})",
        f"  recovered  {found} in {started.seconds:.2f} s ({checked})",
    ]
    lines += [f"  {name:<9}  {address}" for name, address in started.addresses.items()]
    if (rest := started.addresses.get("REST", "off")) != "off":
        lines += [f"  console    {rest}/", f"  docs       {rest}/docs"]
    return "\n".join([*lines, *more, "Ready. Stop it with Ctrl-C."])

"""What access control costs: `python -m bench.access_control [--rounds N]`.

Two nodes of this tree run, one that asks nothing and one that asks rules for everything; both are loaded in turn.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

import httpx

from bench.compare_trees import CASES, ROUNDS, compared
from bench.node_process import NodeProcess
from bench.report import show
from bench.storage import scratch

ON = {"GOQUEUE_SECURITY_AUTHORIZATION": "acl"}
OTHERS = 500  # rules about other users and topics
MEASURED = ("kafka produce, 100 bytes", "kafka produce, 1 KiB", "kafka consume, 100 bytes (with its produce)")


def rule(user: str, kind: str, name: str) -> dict[str, str]:
    permission = "deny" if user != "anonymous" else "allow"
    return {"principal": f"User:{user}", "permission": permission, "operation": "all", "kind": kind, "name": name}


def make_rules(data: Path) -> None:
    rules = [rule("anonymous", kind, "*") for kind in ("topic", "group", "transactional_id", "subject")]
    rules += [rule("anonymous", "cluster", "kafka-cluster")]
    rules += [rule(f"user-{number}", "topic", f"topic-{number}") for number in range(OTHERS)]
    with NodeProcess(data) as node:
        httpx.post(f"{node.url}/admin/acls", json={"rules": rules}, timeout=60).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("cases", nargs="*", default=list(MEASURED))
    given = parser.parse_args()
    with scratch() as directory, ExitStack() as stack:
        make_rules(directory / "asks")
        free = stack.enter_context(NodeProcess(directory / "free"))
        asks = stack.enter_context(NodeProcess(directory / "asks", settings=ON))
        for name in given.cases:
            show(f"{name}: with rules, beside without", list(compared(name, CASES[name], (free, asks), given.rounds)))


if __name__ == "__main__":
    main()

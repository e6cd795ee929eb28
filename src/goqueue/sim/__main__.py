"""`python -m goqueue.sim`: many simulated clusters, each for a while of its own, on all cores.

Every seed runs with `fsync` of both kinds. Seeds that break a promise are printed with their faults; `--from SEED
--seeds 1` runs one of them again, to the same event.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from goqueue.sim.minute import Minute, MinuteOutcome, has_moves, run_minute

_TELL_S: Final = 10.0
_PER_PROCESS: Final = 50  # then another one takes over, so that none grows


def main(words: Sequence[str]) -> int:
    asked = _arguments().parse_args(words)
    seeds = list(islice((one for one in count(asked.first) if has_moves(one) or not asked.moves), asked.seeds))
    minutes = [Minute(seed, fsync, asked.seconds) for seed in seeds for fsync in asked.fsync]
    began = told = time.monotonic()
    broken = 0
    for done, (minute, outcome) in enumerate(_run(minutes, asked.cores), 1):
        if outcome.broken:
            broken += 1
            _show(minute, outcome)
        if time.monotonic() - told > _TELL_S or done == len(minutes):
            told = time.monotonic()
            print(f"{done} of {len(minutes)} done, {broken} broken, {told - began:.0f} s", flush=True)
    return 1 if broken else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m goqueue.sim", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED", help="the first of them")
    parser.add_argument("--moves", action="store_true", help="only seeds with nodes that join and leave, half of all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of faults in each")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fsync", nargs="+", choices=("interval", "always"), default=("interval", "always"))
    return parser


def _run(minutes: list[Minute], cores: int) -> Iterator[tuple[Minute, MinuteOutcome]]:
    if cores == 1 or len(minutes) == 1:
        logging.disable(logging.CRITICAL)
        yield from ((one, run_minute(one)) for one in minutes)
        return
    with multiprocessing.Pool(cores, _begin, maxtasksperchild=_PER_PROCESS) as pool:
        yield from pool.imap_unordered(_ran, minutes)


def _begin() -> None:
    logging.disable(logging.CRITICAL)


def _ran(minute: Minute) -> tuple[Minute, MinuteOutcome]:
    return minute, run_minute(minute)


def _show(minute: Minute, outcome: MinuteOutcome) -> None:
    print(f"seed {minute.seed}, fsync {minute.fsync}: {outcome.broken} (event {outcome.events}, {outcome.digest[:16]})")
    for line in outcome.told:
        print("   ", line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

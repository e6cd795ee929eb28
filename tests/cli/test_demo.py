"""`goqueue demo`: every step works, in a terminal with its keys, and nothing is left."""

from __future__ import annotations

from pathlib import Path

from goqueue.cli.demo_steps import STEPS
from tests.cli.running import goqueue
from tests.cli.terminal import terminal


def left_in(folder: Path) -> list[str]:
    return [one.name for one in folder.glob("goqueue-demo-*")]


def test_the_whole_tour(tmp_path: Path) -> None:
    done = goqueue("demo", "--fast", env={"TMPDIR": str(tmp_path)})
    assert (done.exit_code, done.stderr) == (0, "")
    for number, step in enumerate(STEPS, 1):
        assert f"{number} of {len(STEPS)}  {step.title}" in done.stdout
    for shown in (
        "$ goqueue produce orders 'one teapot' --key ann",
        "packers  orders      1       0         0        0  ",
        "REJECTED  packers",
        "moved  1 of 1",
        "password reset\n    newsletter",
        "aborted: the card was refused",
        "dlq.redriven",
        "The tour is over",
    ):
        assert shown in done.stdout, shown
    assert "never seen" not in done.stdout.partition("aborted:")[2]
    assert left_in(tmp_path) == []


def test_in_a_real_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, ["demo"], {"TMPDIR": str(tmp_path)}, height=60) as shown:
        shown.wait_for("1 of 8  Publish", "To type along: export GOQUEUE_SERVER=", "Enter goes on")
        shown.type("Enter")
        shown.wait_for("2 of 8  Take from a queue", "goqueue queue list")
        shown.type("q")
        shown.wait_for("The tour is over", "ended with 0")
    assert left_in(tmp_path) == []

"""`goqueue top`: what happens in a broker or a cluster, live."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from datetime import datetime
from typing import Final

import click

from goqueue.cli.connecting import connect
from goqueue.cli.failures import Misused
from goqueue.cli.keyboard import Keyboard, keyboard
from goqueue.cli.options import server_option
from goqueue.cli.top_rows import VIEWS
from goqueue.cli.top_sample import TopSample, take_sample
from goqueue.cli.top_screen import TopScreen
from goqueue.client import Client, GoQueueClientError
from goqueue.client.cluster import cluster_state

_ASK_S: Final = 5.0
_NODES_MAX: Final = 32


@click.command()
@click.option(
    "--interval", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, metavar="SECONDS", help="How often."
)
@click.option("--page", type=click.Choice([view.title for view in VIEWS]), default="topics", help="Where to begin.")
@click.option("--filter", "wanted", default="", metavar="TEXT", help="Only lines that have this in a name.")
@click.option("--once", is_flag=True, help="Show one page after two looks, and end; for what is no terminal.")
@server_option
def top(interval: float, page: str, wanted: str, once: bool, server: str) -> None:
    """Watch topics, groups, queues, lanes and shards live.

    Keys: q ends it, the arrows left and right turn pages, up and down move, s sorts by the next column, r reverses, /
    filters, p pauses.
    """
    screen = TopScreen(view=[view.title for view in VIEWS].index(page), wanted=wanted)
    screen.sort = screen.page.sort
    with ExitStack() as stack:
        client = stack.enter_context(connect(server, _ASK_S))
        others = {rest: stack.enter_context(connect(rest, _ASK_S, same_cluster=True)) for rest in _other_nodes(client)}
        watch = TopWatch(client, others, interval)
        if once:
            _print_once(watch, screen)
        elif not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise Misused("`goqueue top` needs a terminal; with --once it prints one page and ends.")
        else:
            with keyboard() as keys:
                _run(watch, screen, keys)


def _other_nodes(client: Client) -> list[str]:
    state = client.perform(cluster_state())
    alive = [one for one in state.nodes if one.id != state.node and one.state == "alive"]
    found = [one.addresses.get("rest", "") for one in alive]
    return [rest for rest in found if rest.startswith("http")][:_NODES_MAX]


class TopWatch:
    """The last two samples, and what the top line says."""

    def __init__(self, client: Client, others: dict[str, Client], interval: float) -> None:
        self._client = client
        self._others = others
        self.interval = interval
        self.before = self.now = take_sample(client, others, time.monotonic())
        self._trouble = ""

    def look(self) -> None:
        """A broker that does not answer is told and asked again: it may come back."""
        try:
            sample = take_sample(self._client, self._others, time.monotonic())
        except GoQueueClientError as error:
            self._trouble = f"   NO ANSWER: {error.detail}"
            return
        self.before, self.now, self._trouble = self.now, sample, ""

    def head(self) -> str:
        nodes = f"{self.now.nodes} node{'s' * (self.now.nodes != 1)}"
        silent = f", {self.now.silent} silent" if self.now.silent else ""
        rate = _messages_in(self.now, self.before)
        about = f"goqueue top   {self._client.url}   {nodes}{silent}   {rate:,.0f} messages/s in"
        return f"{about}   {datetime.now():%H:%M:%S}{self._trouble}"


def _messages_in(now: TopSample, before: TopSample) -> float:
    name = "goqueue_broker_messages_published_total"
    grown = sum(now.series[name].values()) - sum(before.series[name].values())
    return max(0.0, grown) / (now.at - before.at) if now.at > before.at else 0.0


def _print_once(watch: TopWatch, screen: TopScreen) -> None:
    from rich.console import Console

    time.sleep(watch.interval)
    watch.look()
    screen.take(watch.now, watch.before)
    screen.selected = -1
    Console().print(screen.draw(watch.head(), 1_000_000))


def _run(watch: TopWatch, screen: TopScreen, keys: Keyboard) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    due = time.monotonic() + watch.interval
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not screen.is_over:
                screen.take(watch.now, watch.before)
                live.update(screen.draw(watch.head(), console.height), refresh=True)
                for key in keys.wait(due - time.monotonic()):
                    screen.press(key)
                if time.monotonic() >= due:
                    if not screen.is_paused:
                        watch.look()
                    due = time.monotonic() + watch.interval
    except KeyboardInterrupt:
        return

"""The page of numbers is made in slices: others run in between, and everybody who asks meanwhile gets the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from goqueue.drive.offload import T
from goqueue.drive.slices import in_slices
from goqueue.service.metrics_page import MetricsPage

SLICES = 5


async def in_place(work: Callable[[], T]) -> T:
    return work()


def test_others_run_between_the_slices_of_a_look_and_all_who_ask_share_it() -> None:
    async def main() -> None:
        registry = CollectorRegistry()
        gauge = Gauge("looked", "How often.", registry=registry)
        order: list[str] = []

        def look() -> Iterator[None]:
            for _ in range(SLICES):
                order.append("slice")
                yield
            gauge.inc()

        async def other() -> None:
            for _ in range(SLICES):
                order.append("other")
                await asyncio.sleep(0)

        page = MetricsPage(registry, in_place, [look], lambda: 0.0)
        first, second, _ = await asyncio.gather(page.text(), page.text(), other())
        assert order == ["slice", "other"] * SLICES
        assert first == second and b"looked 1.0" in first.text

    asyncio.run(main())


def test_a_look_that_was_given_up_is_taken_again() -> None:
    async def main() -> None:
        registry = CollectorRegistry()
        gauge = Gauge("looked", "How often.", registry=registry)

        def look() -> Iterator[None]:
            yield
            gauge.inc()

        page = MetricsPage(registry, in_place, [look], lambda: 0.0)
        asking = asyncio.create_task(page.text())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert b"looked 1.0" in (await page.text()).text

    asyncio.run(main())


def test_both_forms_of_the_page_name_every_family_once() -> None:
    async def main() -> None:
        registry = CollectorRegistry()
        for number in range(20):
            Gauge(f"family_{number}", "One.", registry=registry).set(number)
        page = MetricsPage(registry, in_place)
        plain = (await page.text()).text.decode()
        families = {one.name: one.samples[0].value for one in text_string_to_metric_families(plain)}
        assert families == {f"family_{number}": float(number) for number in range(20)}
        told = (await page.text("application/openmetrics-text")).text.decode()
        assert told.count("# EOF\n") == 1 and told.endswith("# EOF\n") and told.count("# TYPE") == 20

    asyncio.run(main())


def test_work_in_slices_gives_every_item_and_lets_another_thread_in() -> None:
    came = threading.Event()
    items = in_slices(range(1_000_000))
    other = threading.Thread(target=came.set)
    taken = []
    for one in items:
        taken.append(one)
        if one == 1_000:
            other.start()
    assert came.is_set() and taken == list(range(1_000_000))
    other.join()

"""What `goqueue pipeline serve` shows of its pipelines."""

from __future__ import annotations

import httpx

from goqueue.pipeline.definition.serving import PipelineStatus
from goqueue.pipeline.definition.status_page import page, show

RUNNING = PipelineStatus("shop", "running", "", 2, {"rows": 1234.0, "lag_rows": 7.0})
WAITING = PipelineStatus("dies", "waiting", "a <b>bad</b> row", 3, {})


def test_numbers_that_are_not_known_are_not_zero() -> None:
    (dies,) = (row for row in page([RUNNING, WAITING]).decode().split("<tr>") if row.startswith("<td>dies"))
    assert '<td class="n" data-head="Rows">-<' in dies and '<td class="n" data-head="Restarts">3<' in dies
    assert "a &lt;b&gt;bad&lt;/b&gt; row" in dies and '<b class="waiting">waiting</b>' in dies


def test_every_number_has_its_name_beside_it_for_phones() -> None:
    text = page([RUNNING]).decode()
    assert '<td class="n" data-head="Rows">1,234<' in text and '<td class="n" data-head="Lag">7<' in text
    assert "td.n::before{content:attr(data-head)" in text


def test_an_empty_folder_is_said() -> None:
    assert b"There is no pipeline in this folder." in page([])


def test_addresses_with_questions_are_answered() -> None:
    shown = show("127.0.0.1", 0, lambda: [RUNNING])
    url = f"http://127.0.0.1:{shown.server_address[1]}"
    try:
        answers = [httpx.get(f"{url}{path}").status_code for path in ("/?from=bookmark", "/status?x=1", "/stat")]
        assert answers == [200, 200, 404]
    finally:
        shown.shutdown()
        shown.server_close()

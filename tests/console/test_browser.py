"""The console in a real browser: one person's task for each room. One node, one browser; pictures are kept."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.console import axe
from tests.console.chromium import ARTEFACTS, Chromium
from tests.long import LONG

pytestmark = pytest.mark.slow
FIELDS = [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]
SCHEMA = {"type": "record", "name": "Payment", "fields": FIELDS}
OTHER_PAIRS = [(1440, "dark"), (390, "light")] if LONG else []
HOUR_MS = 3_600_000
ROOMS = ["", "cluster", "topics", "topics/orders", "topics/orders/messages", "topics/orders/settings", "groups"]
ROOMS += ["groups/billing", "queues", "queues/billing/orders", "delayed/orders", "dead/orders", "transactions"]
ROOMS += ["schemas/payments-value", "traces", "users", "acls", "quotas", "tenants", "audit"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    data = tmp_path_factory.mktemp("console")
    with NodeProcess(data / "data", settings={"GOQUEUE_SECURITY_AUDIT_LOG": str(data / "audit.log")}) as running:
        yield running


@pytest.fixture(scope="module")
def http(node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def page(shared: Chromium, node: NodeProcess) -> Iterator[Chromium]:
    """At the overview, on a wide screen; the test fails if the page complained to the console."""
    shared.size(1440, 900)
    shared.theme("light")
    shared.errors.clear()
    shared.refusals = 0
    shared.go(f"{node.url}/")
    yield shared
    assert shared.errors == []


@pytest.fixture(scope="module")
def axe_source(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    return axe.axe_script(tmp_path_factory.mktemp("axe"))


def post(http: httpx.Client, path: str, body: Any) -> Any:
    answer = http.post(path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


def joined(http: httpx.Client, group: str, topic: str, member: str) -> dict[str, Any]:
    told = {"client_id": member, "member_id": member, "topics": [topic], "mode": "shared", "auto_commit": False}
    found: dict[str, Any] = post(http, f"/groups/{group}/join", told)
    return found


def taken(http: httpx.Client, group: str, topic: str, limit: int) -> list[dict[str, Any]]:
    member = joined(http, group, topic, "till-1")
    query = {"member_id": "till-1", "generation": member["generation"], "limit": limit, "timeout": "5s"}
    messages: list[dict[str, Any]] = http.get(f"/groups/{group}/poll", params=query).json()["messages"]
    return messages


# --- the first minute, on an empty node -----------------------------------------------------------------------


def test_a_newcomer_sends_sees_acks_and_traces_a_message(page: Chromium) -> None:
    page.see("Nothing is here yet")
    page.picture("console-1-welcome")
    page.click("Send a first message")
    page.wait("document.querySelector('td:nth-child(4)')?.textContent.includes('greeting')")
    page.picture("console-2-message")
    page.click("Receive it", "#notices")
    page.see("console in hello")
    page.click("Receive", ".head")
    page.wait("document.querySelector('aside.inspector pre')?.textContent.includes('greeting')")
    page.picture("console-3-receive")
    page.click("Ack")
    page.click("See its trace")
    page.see("consume.acked")
    page.see("publish.persisted")
    page.picture("console-4-trace")


def test_a_message_that_is_held_too_long_is_no_longer_offered_for_an_answer(page: Chromium, http: httpx.Client) -> None:
    post(http, "/topics", {"name": "slowly", "num_partitions": 1})
    post(http, "/topics/slowly/messages", {"messages": [{"value": "read me"}]})
    page.room("#/topics")
    page.wait("[...document.querySelectorAll('tr.follows')].some((one) => one.textContent.startsWith('slowly'))")
    page.run(
        "[...document.querySelectorAll('tr.follows')].find((one) => one.textContent.startsWith('slowly'))"
        ".querySelector('td:nth-child(3)').click()"  # not on the name
    )
    page.wait("location.hash === '#/topics/slowly'")
    page.click("Receive", ".head")
    page.see("has taken nothing from this topic yet")
    page.click("Receive", ".head")
    page.wait("document.querySelector('aside.inspector')")
    page.click("Extend 5 min")
    page.see("The lease ends in five minutes")
    page.wait("document.querySelector('aside.inspector')")
    [lease] = http.get("/queues/console/slowly/leases").json()["leases"]
    post(http, "/messages/visibility", {"receipt": lease["receipt"], "timeout": 0})
    page.see("ended before it was answered here")
    page.wait("document.querySelector('aside.inspector') === null")


@pytest.fixture(scope="module")
def filled(http: httpx.Client) -> httpx.Client:
    """What people find on a node that is used."""
    post(http, "/topics", {"name": "orders", "num_partitions": 3})
    post(http, "/topics", {"name": "payments", "num_partitions": 1})
    trace = "00-%032x-%016x-01"
    orders = [
        {
            "key": f"user-{number}",
            "value": json.dumps({"order": {"id": number, "total": number * 1.5}}),
            "headers": {"source": "web", "traceparent": trace % (number + 1, number + 1)},
            "partition": 0 if number < 8 else 2,
        }
        for number in range(60)
    ]
    post(http, "/topics/orders/messages", {"messages": orders})
    schema = post(http, "/subjects/payments-value/versions", {"schema": json.dumps(SCHEMA)})
    value = base64.b64encode(b"\0" + struct.pack(">I", schema["id"]) + b"\x0e\x06ada").decode()
    headers = {"a-header-with-a-long-name": "1234567890" * 12}
    post(http, "/topics/payments/messages", {"messages": [{"value": value, "encoding": "base64", "headers": headers}]})
    now = int(time.time() * 1000)
    delayed = [{"key": f"d{one}", "value": "later", "deliverAt": now + HOUR_MS * (one + 1)} for one in range(30)]
    post(http, "/topics/orders/messages", {"messages": delayed})
    messages = taken(http, "billing", "orders", 8)
    for number, message in enumerate(messages[:4]):
        reason = "card declined" if number == 2 else f"timed out after {number} s"
        post(http, "/messages/reject", {"receipt": message["receipt"], "reason": reason})
    who = post(http, "/producers/init", {"transactional_id": "stuck-one"})
    began = {"producer_id": who["producer_id"], "epoch": who["epoch"]}
    post(http, "/transactions/begin", began)
    post(http, "/topics", {"name": "ledger"})
    post(http, "/transactions/publish", {**began, "topic": "ledger", "messages": [{"value": "held back"}]})
    return http


# --- tasks ----------------------------------------------------------------------------------------------------


def test_a_poison_message_is_found_by_its_key_traced_mended_and_sent_again(
    page: Chromium, filled: httpx.Client
) -> None:
    letters = filled.get("/topics/orders/dlq").json()["messages"]
    poison = next(one for one in letters if one["error"] == "card declined")
    page.room("#/dead")
    page.click("orders", "#room")
    page.see("By error")
    page.fill("Key", poison["key"], "#room")
    page.click("Filter", "#room")
    page.wait("document.querySelectorAll('tr.opens').length === 1")
    page.run("document.querySelector('tr.opens').click()")
    page.see("card declined")
    page.picture("console-dead-letter")
    page.click("Trace")
    page.see("consume.")
    page.run("history.back()")
    page.wait("document.querySelectorAll('tr.opens').length === 1")
    page.run("document.querySelector('tr.opens').click()")
    page.click("Edit and send again")
    page.fill("Value", '{"order": {"id": 2, "mended": true}}')
    page.click("Send again", "dialog")
    page.see("Sent again: orders")
    stats = filled.get("/topics/orders/dlq/stats").json()
    assert stats["total"] == 3
    found = filled.get("/topics/orders/search", params={"path": "$.order.mended=true"}).json()["messages"]
    assert [one["key"] for one in found] == [poison["key"]]


def test_the_other_letters_are_redriven_by_their_error_after_a_preview(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/dead/orders")
    page.wait("document.querySelector('[aria-label=Errors] a')")
    page.run("document.querySelector('[aria-label=Errors] a').click()")
    page.see("Only errors like")
    page.click("Redrive", ".head")
    page.fill("Messages a second", "100")
    page.click("Preview", "dialog")
    page.see("3 would be moved")
    page.click("Redrive", "dialog")
    page.see("3 of 3 that fit")
    assert filled.get("/topics/orders/dlq/stats").json()["total"] == 0


def test_who_lags_and_why_and_the_group_is_reset(page: Chromium, filled: httpx.Client) -> None:
    for one in range(3):
        offsets = [{"topic": "orders", "partition": one, "offset": 0}]
        post(filled, "/groups/reports/offsets", {"offsets": offsets})
    page.room("#/groups")
    page.click("reports")
    page.see("Nobody reads: the group has no members")
    page.picture("console-group")
    page.click("Reset offsets")
    page.fill("To", "latest")
    page.click("Preview", "dialog")
    page.wait("document.querySelector('dialog .preview td')")
    page.click("Reset", "dialog")
    page.see("It is up to date.")
    assert sum(one["lag"] for one in filled.get("/groups/reports/offsets").json()["offsets"]) == 0


def test_a_lease_is_extended_and_taken_back_and_the_queue_is_peeked(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/queues/billing/orders")
    page.click("Peek")
    page.see("nothing was taken")
    before = filled.get("/queues/billing/orders/leases").json()["leases"]
    if not before:  # the first ones ran out on a slow machine
        taken(filled, "billing", "orders", 3)
    page.click("Extend 5 min")
    page.see("The lease ends in five minutes")
    count = len(filled.get("/queues/billing/orders/leases").json()["leases"])
    page.click("Take back")
    page.see("Taken back")
    assert len(filled.get("/queues/billing/orders/leases").json()["leases"]) == count - 1


def test_a_message_is_searched_read_by_its_schema_and_copied(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/topics/orders/messages")
    page.fill("JSON path", "$.order.id=17")
    page.click("Show")
    page.see("1 found in")
    page.run("document.querySelector('tr.opens').click()")
    page.wait("document.querySelector('aside.inspector code')?.textContent === 'user-17'")
    page.run("window.copied = ''; navigator.clipboard.writeText = async (text) => { window.copied = text; }; true")
    page.click("Copy as curl")
    page.wait("window.copied.includes('curl -s') && window.copied.includes('user-17')")
    page.room("#/topics/payments/messages")
    page.see('{"id":7,"who":"ada"}')
    page.run("document.querySelector('tr.opens').click()")
    page.wait('document.querySelector(\'[aria-label="Decoded value"]\')?.textContent.includes(\'"who": "ada"\')')
    widths = "[...document.querySelectorAll('[aria-label=Headers] td')].every((one) => one.clientWidth > 150)"
    page.wait(widths)
    page.picture("console-message")


def test_a_delayed_message_is_found_in_the_calendar_and_cancelled(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/delayed/orders")
    page.wait("document.querySelectorAll('.calendar button').length > 20")
    page.run("document.querySelectorAll('.calendar button')[10].click()")
    page.wait("document.querySelector('.calendar [aria-pressed=true]') && document.querySelector('tr.opens')")
    page.run("document.querySelector('tr.opens').click()")
    page.picture("console-delayed")
    page.click("Cancel it")
    page.click("Cancel it", "dialog")
    page.see("it is never delivered")
    assert filled.get("/topics/orders/delayed").json()["pending"] == 29


def test_a_schema_is_checked_refused_mended_and_registered(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/schemas/payments-value")
    page.click("New version")
    wrong = {**SCHEMA, "fields": [*FIELDS, {"name": "note", "type": "string"}]}
    page.fill("Schema", json.dumps(wrong))
    page.click("Preview", "dialog")
    page.see("not compatible")
    right = {**SCHEMA, "fields": [*FIELDS, {"name": "note", "type": "string", "default": ""}]}
    page.fill("Schema", json.dumps(right))
    page.click("Preview", "dialog")
    page.see("can be registered")
    page.click("Register", "dialog")
    page.wait("document.querySelectorAll('.diff.added').length > 2")
    page.picture("console-schemas")


def test_a_stuck_transaction_is_aborted(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/transactions")
    page.click("stuck-one")
    page.see("ongoing")
    page.click("Abort", ".head")
    page.click("Abort", "dialog")
    page.see("complete abort")


def test_people_and_their_rights(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/users")
    page.click("New user", ".head")
    page.fill("Name", "ada")
    page.fill("Password", "a long password")
    page.click("Create", "dialog")
    page.click("New key")
    page.click("Make it", "dialog")
    page.wait("document.querySelector('dialog pre')?.textContent.length > 30")
    page.click("I have kept it", "dialog")
    page.room("#/acls")
    page.click("New rule", ".head")
    page.fill("Who", "User:ada")
    page.click("Add", "dialog")
    page.see("User:ada")
    page.fill("May the user", "ada", "#room")
    page.fill("with", "topic:orders", "#room")
    page.click("Explain")
    page.wait("document.querySelector('#room [role=status]')?.textContent.length > 5")
    page.room("#/tenants")
    page.click("New tenant", ".head")
    page.fill("Name", "acme")
    page.click("Create", "dialog")
    page.wait("[...document.querySelectorAll('td')].some((one) => one.textContent === 'acme')")
    page.room("#/quotas")
    page.click("New quota", ".head")
    page.fill("User", "ada")
    page.fill("producer byte rate", "1000")
    page.click("Save", "dialog")
    page.see("producer_byte_rate 1,000")
    page.room("#/audit")
    page.see("Quotas.alter")
    page.picture("console-audit")


def test_the_cluster_is_looked_at_and_a_move_is_previewed(page: Chromium, filled: httpx.Client) -> None:
    page.room("#/cluster")
    page.see("node 0")
    page.click("May it stop?")
    page.wait("document.querySelector('.notice')")
    page.click("Rebalance")
    page.click("Preview", "dialog")
    page.wait(
        "document.querySelector('dialog .told')?.textContent.length > 10"
    )  # a node that is alone has nowhere to move
    page.click("Cancel", "dialog")
    assert page.refusals == 1


# --- the page as a whole --------------------------------------------------------------------------------------


def test_keys_find_and_go_and_read_only_hides_what_changes(page: Chromium, filled: httpx.Client) -> None:
    page.press("g", "t")
    page.wait("location.hash === '#/topics'")
    page.press("/")
    page.wait("document.activeElement.id === 'find'")
    page.do("Input.insertText", text="paym")
    page.wait("document.querySelector('#found li')?.textContent.includes('payments')")
    page.press("Enter")
    page.wait("location.hash === '#/topics/payments'")
    page.run("document.activeElement.blur(); true")
    page.press("?")
    page.wait("document.querySelector('dialog[open] kbd')")
    page.press("Escape")
    page.see("Delete")
    page.click("Read-only")
    page.wait("[...document.querySelectorAll('.write')].every((one) => one.offsetParent === null)")
    page.click("Read-only")


def test_every_room_in_both_themes_and_widths_has_names_and_contrast(
    page: Chromium, filled: httpx.Client, axe_source: str | None
) -> None:
    for width, theme in ((1440, "light"), (390, "dark"), *OTHER_PAIRS):
        page.size(width, 900)
        page.theme(theme)
        for room in ROOMS:
            page.room(f"#/{room}")
            page.wait("document.querySelector('#room').children.length > 0")
            axe.check(page, axe_source, f"{room} {width} {theme}")
            fits = page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert fits, f"{room} is wider than {width} pixels"
            page.picture(f"console-{room.replace('/', '-') or 'overview'}-{width}-{theme}")
    assert len(list(ARTEFACTS.glob("console-*.png"))) > 40
    axe.skip_if_missing(axe_source)


def test_on_a_phone_the_whole_menu_is_below_the_head(page: Chromium) -> None:
    page.size(390, 844)
    page.run("document.querySelector('#menu').click()")
    bottom = "document.querySelector('header').getBoundingClientRect().bottom"
    page.wait(f"document.querySelector('#nav h2').getBoundingClientRect().top >= {bottom}")
    page.wait(f"{bottom} < 100")  # two lines, when all is told


def test_the_reference_describes_a_route_and_tries_it(
    page: Chromium, node: NodeProcess, axe_source: str | None
) -> None:
    page.run("localStorage.setItem('goqueue.theme', 'dark')")
    page.go(f"{node.url}/docs", "document.querySelector('details.route')")
    assert page.run("document.documentElement.dataset.theme") == "dark"  # as chosen in the console
    page.run("localStorage.removeItem('goqueue.theme')")
    page.run("document.getElementById('GET /settings/topics').open = true")
    page.wait("document.querySelector('.tryit')")
    page.click("Send")
    page.see("200 OK")
    page.see("retention.ms")
    axe.check(page, axe_source, "docs")
    page.picture("console-docs")


def test_names_are_text_and_the_charts_are_there_after_a_restart(page: Chromium, node: NodeProcess) -> None:
    page.room("#/groups/%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E")
    page.room("#/topics/%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E")
    assert page.run("window.owned") is None
    page.room("#/")
    page.wait("document.querySelector('.chart path.line')?.getAttribute('d')", 30)
    before = httpx.get(f"{node.url}/history", params={"series": "memory", "minutes": 5}).json()["series"]["memory"]
    assert any(before)

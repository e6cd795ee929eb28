"""The site is made from what the code says: drawings are as drawn, and nothing is missing from the reference."""

from __future__ import annotations

import configparser
import functools
import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.errors import leaves
from goqueue.base.settings import load_settings, setting_keys
from goqueue.base.topic_config import CONFIG_KEYS
from goqueue.cli import COMMANDS, app
from goqueue.wire import goqueue_pb2
from tests.console.chromium import Chromium
from tools.site.build import SITE, STAGE, build, dead_links, explained, moved, narrowed, not_found_by_search
from tools.site.cards import with_cards
from tools.site.contents import SECTIONS, config, sections
from tools.site.drawings import drawings
from tools.site.entries import Offered, ask, missing
from tools.site.grpc_page import PROTO, grpc_page, uncommented
from tools.site.proto import parse_proto
from tools.site.reference import each_command, kafka_page, metrics_page, pages, rest_page

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("site")  # which is built in one place


@pytest.mark.slow
def test_the_site_can_be_built_with_every_link_anchor_and_page_in_place() -> None:
    """Stops by itself at dead links, pages that the search does not know, and things without an entry."""
    build()
    found = json.loads((SITE / "search.json").read_text())["items"]
    assert any(one["location"].startswith("queue.html#order-by-key") for one in found)
    assert "https://unpkg.com" not in (SITE / "index.html").read_text()


@pytest.mark.slow
def test_the_search_finds_what_is_typed_where_pages_are_opened_as_files(tmp_path: Path) -> None:
    if not (SITE / "search.json").exists():
        build()
    browser = Chromium(tmp_path / "profile")
    try:
        browser.go(f"file://{SITE}/index.html", ready="document.querySelector('.md-content')")
        browser.wait("document.querySelector('.md-search__button') !== null")
        browser.run("document.querySelector('.md-search__button').click()")
        roots = "[...document.querySelectorAll('div')].map((one) => one.shadowRoot)"
        box = f"{roots}.find((one) => one?.querySelector('input'))"
        browser.wait(f"({box}) !== undefined")
        browser.wait(f"({box}).activeElement !== null")
        for letter in "helm":
            browser.press(letter)
        browser.wait(f"[...({box}).querySelectorAll('a')].some((one) => one.href.includes('kubernetes.html'))")
        assert browser.run(f"({box}).querySelector('input').value") == "helm"
        assert browser.errors == []
    finally:
        browser.close()


class Below(http.server.SimpleHTTPRequestHandler):
    """As many servers are set up: the site is in a folder, and its page is shown for what is not there."""

    def translate_path(self, path: str) -> str:
        if not path.startswith("/some/folder/"):
            return "/nowhere"
        return super().translate_path(path.removeprefix("/some/folder"))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = (SITE / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def below() -> Iterator[str]:
    """Where the site is."""
    if not (SITE / "search.json").exists():
        build()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Below, directory=str(SITE))) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/some/folder"
        server.shutdown()
        serving.join()


@pytest.mark.slow
@pytest.mark.parametrize("missing_page", ["404.html", "nowhere.html", "start/nowhere", "a/b/c/d/"])
def test_what_is_not_there_is_told_in_the_sites_look_wherever_it_stands(
    missing_page: str, below: str, tmp_path: Path
) -> None:
    browser = Chromium(tmp_path / "profile")
    try:
        browser.go(f"{below}/{missing_page}", ready="document.querySelector('.md-content')")
        browser.see("There is no such page")
        links = "[...document.querySelectorAll('link[rel=stylesheet]')]"
        assert browser.run(f"{links}.every((one) => one.sheet?.cssRules.length > 0)"), "a style is missing"
        assert browser.run("document.querySelector('.md-content a[href]').href") == f"{below}/index.html"
        assert browser.run("document.querySelector('a[href*=sqs]').href") == f"{below}/start/sqs.html"
        assert browser.errors == []
    finally:
        browser.close()


@pytest.mark.slow
def test_no_table_moves_sideways_on_a_phone_but_those_of_figures(tmp_path: Path) -> None:
    if not (SITE / "search.json").exists():
        build()
    browser = Chromium(tmp_path / "profile")
    wide = "[...document.querySelectorAll('.md-typeset__scrollwrap')].some((one) => one.scrollWidth > one.clientWidth)"
    try:
        browser.size(390, 844)
        found = []
        for name in ("metrics", "rest", "configuration", "comparison", "reference/grpc", "reference/rest"):
            browser.go(f"file://{SITE}/{name}.html", ready="document.querySelector('.md-content')")
            if browser.run(f"{wide} || document.documentElement.scrollWidth > 390"):
                found.append(name)
        assert found == ["comparison"]
    finally:
        browser.close()


def test_a_table_too_wide_for_a_phone_becomes_cards() -> None:
    def table(*rows: str) -> str:
        cells = "".join(f"<tr><td>{row.replace('|', '</td><td>')}</td></tr>" for row in rows)
        return f"<table><thead><tr><th>metric</th><th>type</th><th>meaning</th></tr></thead>{cells}</table>"

    long = "A sentence that says what it is, and goes on for longer than a name."
    shown = with_cards(table(f"<code>goqueue_a_metric_with_a_long_name</code>|gauge|{long}", f"b||{long}"))
    assert "<table data-cards>" in shown
    assert f'</code></td><td data-head="type">gauge</td><td>{long}</td></tr>' in shown
    assert f"<tr><td>b</td><td></td><td>{long}</td></tr>" in shown
    narrow = "<table><thead><tr><th>a</th><th>b</th></tr></thead><tr><td>one</td><td>two words</td></tr></table>"
    assert with_cards(narrow) == narrow
    figures = table("goqueue_a_metric_with_a_long_name_indeed_so_long|1|2").replace("<td>1", '<td style="x">1')
    assert with_cards(figures) == figures


def test_dead_links_and_pages_without_search_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a class="x" href="b.html#there">b</a><img src="c.svg">')
    (tmp_path / "b.html").write_text('<h1 id="b">B</h1><a href="a.html#here">a</a><a href="https://x.org/#y">x</a>')
    (tmp_path / "search.json").write_text('{"items": [{"location": "a.html#here"}]}')
    assert sorted(dead_links(tmp_path)) == ["a.html: there is no b.html#there", "a.html: there is no c.svg"]
    assert list(not_found_by_search(tmp_path)) == ["b.html: the search does not find it"]


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Offered:
    with NodeProcess(tmp_path_factory.mktemp("offered") / "data") as node:
        return ask(node.url, node.kafka)


def test_whatever_a_node_offers_has_its_entry(offered: Offered) -> None:
    assert missing(ROOT / "docs", offered) == []


@pytest.mark.parametrize(
    ("page", "entry", "told"),
    [
        ("configuration.md", "| `log.fsync` |", "configuration.md: log.fsync"),
        ("configuration.md", "| `retention.ms` |", "configuration.md: retention.ms of a topic"),
        ("rest.md", "`stale-receipt`", "rest.md: error stale-receipt"),
        ("rest.md", "`GET /delay/stats`", "rest.md: GET /delay/stats"),
        ("cli.md", "goqueue doctor", "cli.md: goqueue doctor"),
        ("metrics.md", "| `goqueue_consumer_lag` |", "metrics.md: goqueue_consumer_lag (gauge)"),
        ("kafka.md", "| ElectLeaders |", "kafka.md: ElectLeaders"),
    ],
)
def test_an_entry_that_is_missing_is_told(page: str, entry: str, told: str, offered: Offered, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    text = (tmp_path / "docs" / page).read_text()
    assert entry in text
    (tmp_path / "docs" / page).write_text(text.replace(entry, ""))
    assert told in missing(tmp_path / "docs", offered)


@pytest.mark.parametrize("name", drawings())
def test_a_drawing_is_as_it_is_drawn(name: str) -> None:
    assert (ROOT / "docs/drawings" / name).read_text() == drawings()[name], "run python -m tools.site drawings"


def test_the_reference_has_every_setting_error_and_command() -> None:
    made = pages()
    wanted = [f"`{key.dotted}`" for key in setting_keys()] + [f"`{name}`" for name in CONFIG_KEYS]
    assert [name for name in wanted if name not in made["settings.md"]] == []
    assert [leaf.code for leaf in leaves() if f"| `{leaf.code}` |" not in made["errors.md"]] == []
    assert [name for name in COMMANDS if f"\n## goqueue {name}\n" not in made["cli.md"]] == []
    assert "## goqueue topic create" in made["cli.md"] and "--server" in made["cli.md"]


def test_every_command_and_option_says_what_it_does() -> None:
    named = list(each_command(app, ("goqueue",)))
    assert len(named) > 100
    assert [path for path, command in named if not command.help] == []
    options = ((path, one) for path, command in named for one in command.params if isinstance(one, click.Option))
    assert [(path, one.name) for path, one in options if not one.help and not one.hidden] == []


def test_the_reference_has_every_route(server_url: str) -> None:
    described = httpx.get(f"{server_url}/openapi.json").json()
    text = rest_page(described)
    for path, methods in described["paths"].items():
        assert all(f"| `{method.upper()} {path}` |" in text for method in methods), path


def test_the_reference_gives_defaults_that_can_be_typed() -> None:
    text = pages()["settings.md"]
    for key in setting_keys():
        row = re.search(rf"^\| `{re.escape(key.dotted)}`<br>`{key.variable}` \| (\S+) \| \S", text, re.MULTILINE)
        assert row is not None, key.dotted
        shown = load_settings(None, {}, {key.dotted: row[1].strip("`").replace("(empty)", "")})
        assert getattr(getattr(shown, key.section), key.name) == key.default, key.dotted


def test_the_reference_has_every_metric_and_kafka_api(offered: Offered) -> None:
    metrics, apis = metrics_page(offered.metrics), kafka_page(offered.kafka)
    kinds = re.findall(r"^# TYPE (\w+) (\w+)$", offered.metrics, re.MULTILINE)
    assert len(kinds) > 100
    assert [
        name for name, kind in kinds if not re.search(rf"^\| `{name}`<br>{kind} \| \w", metrics, re.MULTILINE)
    ] == []
    assert "| `Fetch` | 1 | 4 to 18 |" in apis and "| `DescribeProducers` | 61 | 0 |" in apis
    assert [name for name in offered.kafka if f"| `{name}` |" not in apis] == []


def test_the_reference_has_every_grpc_method_message_and_field() -> None:
    text = grpc_page()
    file = goqueue_pb2.DESCRIPTOR
    for service in file.services_by_name.values():
        assert f"\n### Service {service.name}\n" in text
        assert [one.name for one in service.methods if f"| `{one.name}` | " not in text] == []
    for message in file.message_types_by_name.values():
        about = text.partition(f"\n### {message.name}\n")[2].partition("\n### ")[0]
        fields = [f"| `{one.name}` = {one.number}<br>" for one in message.fields]
        assert about and [one for one in fields if one not in about] == [], message.name
    assert "| `ACKS_ALL` = 3 | " in text
    assert "[AckRequest](#ackrequest)<br>to [AnswerResponse](#answerresponse) |" in text


def test_what_the_grpc_api_says_nothing_of_stops_the_build() -> None:
    text = PROTO.read_text()
    quiet = text.replace("  // Appends one batch to one partition.\n", "").replace("// Without one the latest.\n", "")
    quiet = quiet.replace("// One partition of a topic.\n", "").replace("  // In the order of their offsets.\n", "")
    assert list(uncommented(parse_proto(quiet))) == [
        "Batches.PublishBatch has no comment",
        "message Partition has no comment",
        "ListDeadLettersResponse.letters has no comment",
    ]
    with pytest.raises(SystemExit, match=r"Ack is on one side alone"):
        grpc_page(text.replace("rpc Ack(", "rpc Acknowledge("))
    with pytest.raises(ValueError, match="Credit has a line that is no method and no field"):
        parse_proto("message Credit {\n  reserved 3;\n}")


def test_a_setting_has_its_variable_below_its_name() -> None:
    text = "| setting | variable | default | meaning |\n|---|---|---|---|\n| `a.b` | `GOQUEUE_A_B` | `1` | What. |\n"
    shown = "| setting, variable | default | meaning |\n|---|---|---|\n| `a.b`<br>`GOQUEUE_A_B` | `1` | What. |\n"
    assert narrowed(text) == shown


def test_every_page_has_its_place_in_the_contents() -> None:
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    listed = [page for pages_ in sections(there).values() for page in pages_]
    assert sorted([*listed, "index.md"]) == sorted(there)
    made_later = ("reference/", "deploy.md", "reporting.md", "contributing.md", "changelog.md")
    named = [page for pages_ in SECTIONS.values() for page in pages_]
    assert [page for page in named if page not in there and not page.startswith(made_later)] == []
    assert '{"Protocols" = ["kafka.md", ' in config(there)


def test_links_are_right_where_a_page_stands_on_the_site() -> None:
    text = "[a](../CHANGELOG.md) [b](queue.md#priorities) [`c`](../tools/need.sh) [d](decisions/)"
    shown = moved(ROOT / "docs/rest.md", text, STAGE / "rest.md")
    assert shown == "[a](changelog.md) [b](queue.md#priorities) `c` [d](decisions/index.md)"
    shown = moved(ROOT / "deploy/README.md", "[a](../docs/runbook.md#a-b)", STAGE / "deploy.md")
    assert shown == "[a](runbook.md#a-b)"
    assert moved(ROOT / "docs/start/sqs.md", "[a](../queue.md)", STAGE / "start/sqs.md") == "[a](../queue.md)"


def test_a_word_of_our_own_leads_to_the_glossary_where_it_comes_first() -> None:
    kept = "# A door\n\n`door` and [a door](x.md)\n```sh\ndoor\n```\n"
    shown = f"{kept}Doors: all [doors](../glossary.md), each [lane](../glossary.md), a door.\n"
    text = f"{kept}Doors: all doors, each lane, a door.\n"
    assert explained(text, "../glossary.md") == shown
    assert (
        explained("a door, see the [glossary](glossary.md)", "glossary.md") == "a door, see the [glossary](glossary.md)"
    )


def test_the_systemd_unit_keeps_data_where_it_says() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(ROOT / "deploy/systemd/goqueue.service")
    service = unit["Service"]
    assert service["ExecStart"].endswith(f" serve --data /var/lib/{service['StateDirectory']}")
    assert (service["KillSignal"], service["ProtectSystem"]) == ("SIGTERM", "strict")

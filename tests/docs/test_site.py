"""The site is made from what the code says: drawings are as drawn, and nothing is missing from the reference."""

from __future__ import annotations

import configparser
from pathlib import Path

import httpx
import pytest

from goqueue.base.errors import leaves
from goqueue.base.settings import setting_keys
from goqueue.base.topic_config import CONFIG_KEYS
from goqueue.cli import COMMANDS
from tools.site.build import STAGE, moved
from tools.site.contents import SECTIONS, config, sections
from tools.site.drawings import drawings
from tools.site.reference import pages, rest_page

ROOT = Path(__file__).parents[2]


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


def test_the_reference_has_every_route(server_url: str) -> None:
    described = httpx.get(f"{server_url}/openapi.json").json()
    text = rest_page(described)
    for path, methods in described["paths"].items():
        assert all(f"| `{method.upper()} {path}` |" in text for method in methods), path


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


def test_the_systemd_unit_keeps_data_where_it_says() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(ROOT / "deploy/systemd/goqueue.service")
    service = unit["Service"]
    assert service["ExecStart"].endswith(f" serve --data /var/lib/{service['StateDirectory']}")
    assert (service["KillSignal"], service["ProtectSystem"]) == ("SIGTERM", "strict")

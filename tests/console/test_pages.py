"""The web page: whole, closed to the outside, and in step with the API it calls."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from goqueue.base.settings import load_settings
from goqueue.console import pages
from goqueue.node import Node

LINES_MAX = 300
SOURCES = {path: content.decode() for path, (_, content) in pages().items()}
SCRIPTS = {path: text for path, text in SOURCES.items() if path.endswith(".js")}


def test_every_file_a_page_refers_to_is_served_and_no_other() -> None:
    linked = {f"/{name}" for name in re.findall(r'(?:src|href)="(console/[^"]+)"', SOURCES["/"])}
    imported = {f"/console/{name}" for text in SCRIPTS.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert linked | imported == SOURCES.keys() - {"/"}


@pytest.mark.parametrize("path", sorted(SOURCES))
def test_nothing_is_loaded_from_elsewhere_and_data_never_becomes_markup(path: str) -> None:
    source = SOURCES[path].replace('xmlns="http://www.w3.org/2000/svg"', "")  # a name, not an address
    assert not re.findall(r"\w://|data:|url\(|@import", source)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", SOURCES[path])


def test_the_page_has_no_inline_script() -> None:
    assert not re.findall(r"<script(?![^>]* src=)|\son\w+=|javascript:", SOURCES["/"])


@pytest.mark.parametrize("path", sorted(SCRIPTS))
def test_scripts_only_look_for_elements_that_exist(path: str) -> None:
    ids = set(re.findall(r'\bid="([\w-]+)"', SOURCES["/"]))
    assert set(re.findall(r'(?:\$|clone)\("([\w-]+)"\)', SCRIPTS[path])) <= ids


@pytest.mark.parametrize("path", sorted(SCRIPTS))
def test_scripts_stay_small(path: str) -> None:
    assert SCRIPTS[path].count("\n") < LINES_MAX


@pytest.mark.asyncio
async def test_a_node_serves_the_page_and_every_route_it_calls(tmp_path: Path) -> None:
    flags = {"data.dir": str(tmp_path), "rest.listen": "127.0.0.1:0"}
    node = Node(load_settings(None, {}, flags), pages())
    started = await node.start()
    try:
        async with httpx.AsyncClient(base_url=started.addresses["REST"]) as client:
            for path, (media_type, content) in pages().items():
                answer = await client.get(path)
                assert (answer.headers["content-type"], answer.content) == (media_type, content)
                assert "default-src 'self'" in answer.headers["content-security-policy"]
            described = (await client.get("/openapi.json")).json()["paths"]
    finally:
        await node.stop()
    routes = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    called = {route for text in SCRIPTS.values() for route in re.findall(r'"((?:GET|POST|PATCH|DELETE) /[^"]*)"', text)}
    assert len(called) >= 8
    assert called <= routes

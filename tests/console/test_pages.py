"""The web page: whole, closed to the outside, and in step with the API it calls."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import httpx
import pytest

from goqueue.base.settings import load_settings
from goqueue.console import pages
from goqueue.edge.rest import openapi
from goqueue.node import Node

LINES_MAX = 300
PAGES = {"/", "/docs"}
SOURCES = {path: content.decode() for path, (_, content) in pages().items()} | {"/docs": openapi.page([])}
SCRIPTS = {path: text for path, text in SOURCES.items() if path.endswith(".js")}


def test_every_file_a_page_refers_to_is_served_and_no_other() -> None:
    linked = {f"/{name}" for page in PAGES for name in re.findall(r'(?:src|href)="(console/[^"]+)"', SOURCES[page])}
    imported = {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        for path, text in SCRIPTS.items()
        for name in re.findall(r'from "(\.\.?/[^"]+)"', text)
    }
    assert linked | imported == SOURCES.keys() - PAGES


@pytest.mark.parametrize("path", sorted(SOURCES))
def test_nothing_is_loaded_from_elsewhere_and_data_never_becomes_markup(path: str) -> None:
    source = SOURCES[path].replace('xmlns="http://www.w3.org/2000/svg"', "")  # a name, not an address
    assert not re.findall(r"\w://|data:|url\(|@import", source)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", SOURCES[path])


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_page_has_no_inline_script_and_no_inline_style(page: str) -> None:
    assert not re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", SOURCES[page])


@pytest.mark.parametrize("path", sorted(SCRIPTS))
def test_credentials_are_kept_for_the_tab_alone_and_never_in_an_address(path: str) -> None:
    kept = re.findall(r"(local|session)Storage\.setItem\(([^,]+),", SCRIPTS[path])
    assert {name for where, name in kept if where == "local"} <= {'"goqueue.theme"', '"goqueue.readonly"'}
    assert not re.findall(r"[?&](token|key|authorization)=", SCRIPTS[path], re.IGNORECASE)


@pytest.mark.parametrize("path", sorted(SCRIPTS))
def test_scripts_only_look_for_elements_that_exist(path: str) -> None:
    ids = set(re.findall(r'\bid="([\w-]+)"', SOURCES["/docs" if path.endswith("docs.js") else "/"]))
    assert set(re.findall(r'(?:\$|clone)\("([\w-]+)"\)', SCRIPTS[path])) <= ids


@pytest.mark.parametrize("path", sorted(SCRIPTS))
def test_scripts_stay_small(path: str) -> None:
    assert SCRIPTS[path].count("\n") < LINES_MAX


@pytest.mark.asyncio
async def test_a_node_serves_the_page_and_every_route_it_calls(tmp_path: Path) -> None:
    flags = {"data.dir": str(tmp_path), "grpc.listen": "off"}
    flags |= {f"{door}.listen": "127.0.0.1:0" for door in ("rest", "kafka", "sqs")}  # a node may run beside the tests
    node = Node(load_settings(None, {}, flags), pages())
    started = await node.start()
    try:
        async with httpx.AsyncClient(base_url=started.addresses["REST"]) as client:
            for path, (media_type, content) in pages().items():
                answer = await client.get(path)
                assert (answer.headers["content-type"], answer.content) == (media_type, content)
                assert answer.headers["content-security-policy"].startswith("default-src 'self'; object-src 'none'")
                assert "unsafe" not in answer.headers["content-security-policy"]
            described = (await client.get("/openapi.json")).json()["paths"]
    finally:
        await node.stop()
    routes = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    called = {route for text in SCRIPTS.values() for route in re.findall(r'"((?:GET|POST|PATCH|DELETE) /[^"]*)"', text)}
    assert len(called) >= 70
    assert called <= routes

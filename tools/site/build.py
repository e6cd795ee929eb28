"""Builds the site: pages and drawings are put together in one folder, the generator makes pages of them, and nothing in
them asks the network for anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from bench.node_process import NodeProcess
from tools.site.cards import with_cards
from tools.site.contents import config
from tools.site.entries import ask, missing
from tools.site.grpc_page import grpc_page
from tools.site.not_found import anywhere
from tools.site.reference import kafka_page, metrics_page, pages, rest_page

ROOT: Final = Path(__file__).parents[2]
STAGE: Final = ROOT / "build/site-source"
SITE: Final = ROOT / "build/site"
CONFIG: Final = ROOT / "build/zensical.toml"
# Pages that stand elsewhere in the tree, and what they are called on the site.
_ELSEWHERE: Final = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "deploy/README.md": "deploy.md",
}
_LINK: Final = re.compile(r"\[([^\[\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_OURS: Final = ("door", "lane")  # words that nobody else has
_KEPT: Final = re.compile(r"(^```.*?^```$|^#[^\n]*$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\))", re.MULTILINE | re.DOTALL)
_NARROW_HEAD: Final = "| setting, variable | default | meaning |\n|---|---|---|\n"
_VARIABLE: Final = re.compile(r"^(\| `[a-z_.]+`) \| (`GOQUEUE_[A-Z_]+`) \|", re.MULTILINE)
_SHIM: Final = "assets/file-worker.js"
_REMOTE_SHIM: Final = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')
_REMOTE: Final = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"[^>]*>')
_TARGET: Final = re.compile(
    r'<(?:a|img|script|link)\b[^>]*?\s(?:href|src)="(?!(?:[a-z]+:|//|data:))([^"#]*)(?:#([^"]*))?"'
)
_ID: Final = re.compile(r'\sid="?([^"\s>]+)')
_MAY_BE_REMOTE: Final = ('rel="canonical"', 'rel="prev"', 'rel="next"')


def build() -> None:
    """`build/site/index.html` is where to begin."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    for source, name in _ELSEWHERE.items():
        (STAGE / name).write_text(moved(ROOT / source, (ROOT / source).read_text(), STAGE / name))
    (STAGE / "decisions/index.md").write_text(_decisions())
    shutil.copy(Path(__file__).parent / "site.css", STAGE)
    for name, text in reference_pages().items():
        (STAGE / "reference" / name).parent.mkdir(exist_ok=True)
        (STAGE / "reference" / name).write_text(text)
    for page in STAGE.rglob("*.md"):
        original = ROOT / "docs" / page.relative_to(STAGE)
        if original.exists():
            up = "../" * (len(page.relative_to(STAGE).parts) - 1)
            page.write_text(explained(narrowed(moved(original, page.read_text(), page)), f"{up}glossary.md"))
    CONFIG.write_text(config({str(page.relative_to(STAGE)) for page in STAGE.rglob("*.md")}))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [shutil.which("zensical", path=path) or "zensical", "build", "--strict", "--config-file", str(CONFIG)]
    subprocess.run(command, check=True, cwd=CONFIG.parent)
    (SITE / "404.html").write_text(anywhere((SITE / "404.html").read_text()))
    _without_network()
    if broken := [*dead_links(SITE), *not_found_by_search(SITE)]:
        raise SystemExit("\n".join(broken))


def dead_links(site: Path) -> Iterator[str]:
    """Links, images and anchors that lead nowhere, in the pages as they were made."""
    texts = {page: page.read_text() for page in site.rglob("*.html")}
    ids = {page: set(_ID.findall(text)) for page, text in texts.items()}
    for page, text in texts.items():
        for target, anchor in _TARGET.findall(text):
            found = (page.parent / unquote(target)).resolve() if target else page
            if not found.exists():
                yield f"{page.relative_to(site)}: there is no {target}"
            elif anchor and found in ids and unquote(anchor) not in ids[found]:
                yield f"{page.relative_to(site)}: there is no {target}#{anchor}"


def not_found_by_search(site: Path) -> Iterator[str]:
    """Pages that the index of the search does not know."""
    known = {item["location"].partition("#")[0] for item in json.loads((site / "search.json").read_text())["items"]}
    pages_ = {str(page.relative_to(site)) for page in site.rglob("*.html")} - {"404.html", "index.html"}
    yield from (f"{page}: the search does not find it" for page in sorted(pages_ - known))


def reference_pages() -> dict[str, str]:
    """Stops where something that a node offers has no entry in the pages that people write."""
    with tempfile.TemporaryDirectory() as folder, NodeProcess(Path(folder) / "data") as node:
        offered = ask(node.url, node.kafka)
    if lacking := missing(ROOT / "docs", offered):
        raise SystemExit("\n".join(["These have no entry, or a wrong one:", *lacking]))
    return pages() | {
        "rest.md": rest_page(offered.described),
        "metrics.md": metrics_page(offered.metrics),
        "kafka.md": kafka_page(offered.kafka),
        "grpc.md": grpc_page(),
    }


def _decisions() -> str:
    """One line for each, by its title."""
    found = sorted((STAGE / "decisions").glob("[0-9]*.md"))
    titles = ((page.name, page.read_text().partition("\n")[0].lstrip("# ")) for page in found)
    return "# Decisions\n\nWhy it is built as it is.\n\n" + "".join(f"- [{title}]({name})\n" for name, title in titles)


def moved(page: Path, text: str, target: Path) -> str:
    """The text with links that are right where it stands on the site; files that are no pages become plain text, and an
    empty default a word."""

    def link(match: re.Match[str]) -> str:
        staged = _staged((page.parent / match[2]).resolve())
        if staged is None:
            return match[1]
        depth = len(target.relative_to(STAGE).parts) - 1
        return f"[{match[1]}]({'../' * depth}{staged.relative_to(STAGE)}{match[3] or ''})"

    return _LINK.sub(link, text).replace("| `` |", "| (empty) |")


def narrowed(text: str) -> str:
    """Settings with their variable below the name: with a column for each, what they mean stands beyond the screen."""
    text = text.replace("| setting | variable | default | meaning |\n|---|---|---|---|\n", _NARROW_HEAD)
    return _VARIABLE.sub(r"\1<br>\2 |", text)


def explained(text: str, glossary: str) -> str:
    """The page with a link to the glossary where it first says a word of our own, unless it has one already."""
    if "glossary.md" in text or text.startswith("# Glossary"):
        return text
    wanted = set(_OURS)
    return "".join(_linked(part, wanted, glossary) for part in _KEPT.split(text))


def _linked(part: str, wanted: set[str], glossary: str) -> str:
    """Code, headings and links stay as they are."""
    if _KEPT.fullmatch(part):
        return part
    for word in sorted(wanted):
        part, count = re.subn(rf"\b{word}s?\b", lambda match: f"[{match[0]}]({glossary})", part, count=1)
        wanted -= {word} if count else set()
    return part


def _staged(path: Path) -> Path | None:
    relative = path.relative_to(ROOT)
    if str(relative) in _ELSEWHERE:
        return STAGE / _ELSEWHERE[str(relative)]
    if str(relative) == "README.md":
        return STAGE / "index.md"
    if relative.parts[0] == "docs":
        return STAGE / Path(*relative.parts[1:]) if path.is_file() else STAGE / Path(*relative.parts[1:]) / "index.md"
    return None


def _without_network() -> None:
    """The generator's script for search in files is taken from here; whatever else is remote is an error."""
    shutil.copy(Path(__file__).parent / "file_worker.js", SITE / _SHIM)
    for page in SITE.rglob("*.html"):
        up = "../" * (len(page.relative_to(SITE).parts) - 1)
        text = _REMOTE_SHIM.sub(f'<script src="{up}{_SHIM}"></script>', page.read_text())
        page.write_text(with_cards(text))
        for found in _REMOTE.findall(text):
            if not any(allowed in found for allowed in _MAY_BE_REMOTE):
                raise SystemExit(f"{page}: the page would ask the network: {found}")

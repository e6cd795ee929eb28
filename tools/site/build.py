"""Builds the site: pages and drawings are put together in one folder, the generator makes pages of them, and nothing in
them asks the network for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import httpx

from bench.node_process import NodeProcess
from tools.site.contents import config
from tools.site.reference import pages, rest_page

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
_SHIM: Final = "assets/file-worker.js"
_REMOTE_SHIM: Final = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')
_REMOTE: Final = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"[^>]*>')
_MAY_BE_REMOTE: Final = ('rel="canonical"', 'rel="prev"', 'rel="next"')


def build() -> None:
    """`build/site/index.html` is where to begin."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE)
    for source, name in _ELSEWHERE.items():
        (STAGE / name).write_text(moved(ROOT / source, (ROOT / source).read_text(), STAGE / name))
    (STAGE / "decisions/index.md").write_text(_decisions())
    for name, text in reference_pages().items():
        (STAGE / "reference" / name).parent.mkdir(exist_ok=True)
        (STAGE / "reference" / name).write_text(text)
    for page in STAGE.rglob("*.md"):
        original = ROOT / "docs" / page.relative_to(STAGE)
        if original.exists():
            page.write_text(moved(original, page.read_text(), page))
    CONFIG.write_text(config({str(page.relative_to(STAGE)) for page in STAGE.rglob("*.md")}))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [shutil.which("zensical", path=path) or "zensical", "build", "--strict", "--config-file", str(CONFIG)]
    subprocess.run(command, check=True, cwd=CONFIG.parent)
    _without_network()


def reference_pages() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder, NodeProcess(Path(folder) / "data") as node:
        return pages() | {"rest.md": rest_page(httpx.get(f"{node.url}/openapi.json").json())}


def _decisions() -> str:
    """One line for each, by its title."""
    found = sorted((STAGE / "decisions").glob("[0-9]*.md"))
    titles = ((page.name, page.read_text().partition("\n")[0].lstrip("# ")) for page in found)
    return "# Decisions\n\nWhy it is built as it is.\n\n" + "".join(f"- [{title}]({name})\n" for name, title in titles)


def moved(page: Path, text: str, target: Path) -> str:
    """The text with links that are right where it stands on the site; files that are no pages become plain text."""

    def link(match: re.Match[str]) -> str:
        staged = _staged((page.parent / match[2]).resolve())
        if staged is None:
            return match[1]
        depth = len(target.relative_to(STAGE).parts) - 1
        return f"[{match[1]}]({'../' * depth}{staged.relative_to(STAGE)}{match[3] or ''})"

    return _LINK.sub(link, text)


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
        page.write_text(text)
        for found in _REMOTE.findall(text):
            if not any(allowed in found for allowed in _MAY_BE_REMOTE):
                raise SystemExit(f"{page}: the page would ask the network: {found}")

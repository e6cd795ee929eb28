"""The page that servers show for what is not there. It works wherever the site is put, without a setting: its links are
relative, and a script finds the folder that they are relative to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SCRIPT: Final = (Path(__file__).parent / "find_root.js").read_text()
_ABSOLUTE: Final = re.compile(r'(\s(?:href|src)=")/(?!/)')
_HERE: Final = re.compile(r'(\shref=")#')
_CONFIG: Final = re.compile(r'(<script id="__config" type="application/json">)(.*?)(</script>)')
_WORDS: Final = (
    "<h1>There is no such page</h1>\n"
    "<p>The address may be mistyped, or the page has another name now. Look for it in the contents or with the search, "
    'or begin at the <a href="index.html">start</a>.</p>'
)
# The theme resolves these two against the address of the page, not against the folder that was found.
_ABOVE: Final = """<script>{
  const config = document.getElementById("__config");
  const told = JSON.parse(config.textContent);
  for (const name of ["base", "search"]) told[name] = new URL(told[name], document.baseURI).href;
  config.textContent = JSON.stringify(told);
}</script>"""


def anywhere(text: str) -> str:
    """The generator's page, with which only a site at a server's root would work."""
    text = _HERE.sub(r"\1404.html#", _ABSOLUTE.sub(r"\1", text))
    text = text.replace('new URL("/",location)', 'new URL(".",document.baseURI)')
    text = text.replace("<h1>404 - Not found</h1>", _WORDS)
    text = _CONFIG.sub(lambda found: f"{found[1]}{_relative(found[2])}{found[3]}\n{_ABOVE}", text)
    return text.replace("<head>", f"<head>\n<script>\n{_SCRIPT}</script>", 1)


def _relative(config: str) -> str:
    return config.replace('"base":"/"', '"base":"."').replace('"search":"/', '"search":"')

"""Debian's Chromium, driven over a pipe: no driver program and no package between the test and the browser."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

ARTEFACTS: Final = Path(__file__).parents[2] / "build" / "artefacts"
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
WAIT_S: Final = 20.0


class Chromium:
    """One browser with one page. Commands are those of the DevTools protocol."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            pytest.skip("the page is looked at in Chromium; `tools/need.sh chromium` installs it")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        keep = {3: to_browser, 4: from_browser}
        self._process = subprocess.Popen(
            [
                "/bin/bash",  # which knows descriptors of two digits
                "-c",
                f'exec "$@" 3<&{to_browser} 4>&{from_browser}',  # where the browser expects them
                "bash",
                program,
                *_FLAGS,
                f"--user-data-dir={profile}",
            ],
            pass_fds=list(keep.values()),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._answers: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._number = 0
        self._session = ""
        self.errors: list[str] = []  # of the page's console
        self.refusals = 0  # by the node, which the browser notes as errors and the page shows in its own words
        threading.Thread(target=self._listen, daemon=True).start()
        target = self._send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    # --- the pipe --------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        rest = b""
        while data := os.read(self._in, 1 << 20):
            *whole, rest = (rest + data).split(b"\0")
            for one in whole:
                self._heard(json.loads(one))
        with self._arrived:
            self._arrived.notify_all()

    def _heard(self, told: dict[str, Any]) -> None:
        method, params = told.get("method", ""), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(str(details.get("exception", {}).get("description", details.get("text"))))
        elif method == "Log.entryAdded" and "the server responded with a status of 4" in params["entry"]["text"]:
            self.refusals += 1
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))
        elif "id" in told:
            with self._arrived:
                self._answers[told["id"]] = told
                self._arrived.notify_all()

    def _send(self, method: str, params: dict[str, Any], wait_s: float = WAIT_S) -> dict[str, Any]:
        self._number += 1
        number = self._number
        told = {"id": number, "method": method, "params": params}
        if self._session:
            told["sessionId"] = self._session
        os.write(self._out, json.dumps(told).encode() + b"\0")
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._answers, wait_s):
                raise TimeoutError(f"the browser does not answer {method}")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def do(self, method: str, **params: Any) -> dict[str, Any]:
        return self._send(method, params)

    def close(self) -> None:
        try:
            self._session = ""
            self._send("Browser.close", {}, 5)
            self._process.wait(10)
        except (TimeoutError, OSError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(10)
        os.close(self._out)

    # --- the page --------------------------------------------------------------------------------------------

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        found = self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"].get("exception", {}).get("description", script))
        return found["result"].get("value")

    def wait(self, script: str, wait_s: float = WAIT_S) -> Any:
        """Until the expression is true."""
        until = time.monotonic() + wait_s
        while True:
            found = self._run_here(f"Boolean({script})")
            if found:
                return found
            if time.monotonic() > until:
                text = self.run("document.body.innerText.slice(0, 3000)")
                raise AssertionError(f"never true: {script}\n{text}\n{self.errors}")
            self._run_here("new Promise((done) => setTimeout(done, 40))")

    def _run_here(self, script: str) -> Any:
        """None if the page goes away meanwhile, for another one."""
        try:
            return self.run(script)
        except RuntimeError as error:
            if "navigated" in str(error):
                return None
            raise

    def see(self, text: str, wait_s: float = WAIT_S) -> None:
        """Until the page shows the text."""
        self.wait(f"document.body.innerText.includes({json.dumps(text)})", wait_s)

    def go(self, url: str, ready: str = "document.querySelector('#room h1')") -> None:
        self.do("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && ({ready}) !== null")

    def room(self, hash_: str) -> None:
        """Another room by its address."""
        self.run("document.querySelector('#room').replaceChildren()")
        self.run(
            f"location.hash === {json.dumps(hash_)} ? dispatchEvent(new Event('hashchange'))"
            f" : location.hash = {json.dumps(hash_)}"
        )
        self.wait("document.querySelector('#room h1, #room .empty')")

    def click(self, text: str, within: str = "body") -> None:
        """The button, link or row with this text, as a person would find it."""
        self.wait(_FIND % (json.dumps(within), json.dumps(text)) + " !== undefined")
        self.run(_FIND % (json.dumps(within), json.dumps(text)) + ".click()")

    def fill(self, label: str, value: str, within: str = "body") -> None:
        """The field with this label."""
        script = _LABELLED % (json.dumps(within), json.dumps(label))
        self.wait(f"{script} !== undefined")
        self.run(
            f"(() => {{ const it = {script}; it.focus(); it.value = {json.dumps(value)};"
            "it.dispatchEvent(new Event('input', {bubbles: true}));"
            "it.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            code = {"Enter": 13, "Escape": 27, "ArrowDown": 40}.get(key, ord(key[0].upper()))
            if key == "Enter":
                text = {"text": "\r"}
            self.do("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
            self.do("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def size(self, width: int, height: int) -> None:
        self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def theme(self, name: str) -> None:
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, name: str, directory: Path = ARTEFACTS) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}.png"
        path.write_bytes(base64.b64decode(self.do("Page.captureScreenshot", format="png")["data"]))
        return path


_FIND: Final = (
    "[...document.querySelector(%s).querySelectorAll('button, a, tr.opens, summary')]"
    ".filter((one) => one.offsetParent !== null)"
    ".sort((a, b) => (a.closest('dialog') ? 0 : 1) - (b.closest('dialog') ? 0 : 1))"
    ".find((one) => one.textContent.trim() === %s)"
)
_LABELLED: Final = (
    "(() => { const root = document.querySelector('dialog[open]') ?? document.querySelector(%s);"
    "const label = [...root.querySelectorAll('label')].find((one) => one.textContent.trim() === %s);"
    "return label ? document.getElementById(label.htmlFor) : undefined; })()"
)

Script = Callable[[Chromium], None]

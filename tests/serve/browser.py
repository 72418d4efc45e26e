"""A headless Chromium, driven by WebDriver (W3C) with the standard library alone."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

_T = TypeVar("_T")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "Down": "\ue015", "Control": "\ue009"}
SECONDS = 30.0


def missing() -> str | None:
    """Return what a test of a browser lacks here; None if nothing."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)}: not installed" if absent else None


class Browser:
    """One window."""

    def __init__(self, driver: str, session: str) -> None:
        self._session = f"{driver}/session/{session}"

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return _request(method, self._session + path, body)

    def open(self, url: str) -> None:
        self.call("POST", "/url", {"url": url})

    def size(self, width: int, height: int) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def colours(self, scheme: Literal["light", "dark"]) -> None:
        self.devtools(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def devtools(self, command: str, **given: object) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": given})

    def run(self, script: str, *given: object) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": list(given)})

    def find(self, selector: str) -> str:
        found: dict[str, str] = self.until(
            lambda: self.call("POST", "/elements", {"using": "css selector", "value": selector}), selector
        )[0]
        return found[_ELEMENT]

    def click(self, selector: str) -> None:
        self.until(lambda: self._try(selector, "click", {}), f"{selector} can be clicked")

    def _try(self, selector: str, action: str, body: dict[str, Any]) -> bool:
        try:
            self.call("POST", f"/element/{self.find(selector)}/{action}", body)
        except DriverError:
            return False
        return True

    def type(self, selector: str, text: str) -> None:
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *keys: str, held: str | None = None) -> None:
        """Press keys, wherever the focus is; `held` is a key that is held down meanwhile."""
        actions = [{"type": "keyDown", "value": KEYS[held]}] if held else []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        actions += [{"type": "keyUp", "value": KEYS[held]}] if held else []
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def shown(self, selector: str) -> bool:
        script = "const e = document.querySelector(arguments[0]); return !!e && e.checkVisibility()"
        return bool(self.run(script, selector))

    def until(self, tried: Callable[[], _T], what: object = "") -> _T:
        """Try until there is something."""
        end = time.monotonic() + SECONDS
        while True:
            found = tried()
            if found:
                return found
            assert time.monotonic() < end, f"it did not come: {what}"
            time.sleep(0.03)

    def until_text(self, selector: str, text: str) -> str:
        self.until(lambda: text in self.text(selector), f"{text!r} in {selector}")
        return self.text(selector)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        found = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def logged(self) -> list[dict[str, Any]]:
        """Return what the console has shown since the last call: errors, refusals of the policy."""
        found: list[dict[str, Any]] = self.call("POST", "/se/log", {"type": "browser"})
        return found


class DriverError(Exception):
    """The driver refused a command."""


def _request(method: str, url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None and method != "POST" else json.dumps(body or {}).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as problem:
        raise DriverError(problem.read().decode()[:500]) from None


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile in this folder."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert driver.stdout is not None
        line = next(line for line in driver.stdout if "successfully on port " in line)
        url = f"http://127.0.0.1:{line.rstrip().rstrip('.').rpartition(' ')[2]}"
        options = {
            "args": [
                "--headless=new",
                "--no-sandbox",  # the tests may run as root
                "--disable-gpu",
                "--disable-dev-shm-usage",
                f"--user-data-dir={folder}",
            ],
            "binary": shutil.which("chromium"),
        }
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        session = _request("POST", f"{url}/session", {"capabilities": wanted})["sessionId"]
        browser = Browser(url, session)
        try:
            yield browser
        finally:
            browser.call("DELETE", "")
    finally:
        driver.terminate()
        driver.communicate()

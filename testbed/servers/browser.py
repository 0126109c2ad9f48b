"""A real browser, driven as a person would: Debian's Chromium through its driver, by the W3C's WebDriver protocol.

In: addresses, keys. Out: what the browser shows, and its pictures. One browser for a test run; each test has its tab.
"""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests

T = TypeVar("T")
START_S, PATIENCE_S = 60.0, 30.0
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One session. `errors` are what the console said of the page since it was last asked."""

    def __init__(self, driver: str, profile: str, dark: bool = False) -> None:
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []),
        ]
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = requests.post(
            f"{driver}/session", json={"capabilities": {"alwaysMatch": capabilities}}, timeout=START_S
        ).json()["value"]
        assert "sessionId" in answer, answer
        self._url = f"{driver}/session/{answer['sessionId']}"

    def close(self) -> None:
        requests.delete(self._url, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        value = requests.request(
            method, f"{self._url}/{path}", json=body if method == "POST" else None, timeout=PATIENCE_S
        ).json()["value"]
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{value['error']}: {value['message']}")
        return value

    def open(self, url: str, width: int = 1280, height: int = 900) -> None:
        self.size(width, height)
        self.ask("POST", "url", url=url)

    def size(self, width: int, height: int) -> None:
        """The size of what the page is shown in; also narrower than a window may be."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **metrics)

    def command(self, name: str, **params: Any) -> Any:
        """A command of the browser's own protocol."""
        return self.ask("POST", "goog/cdp/execute", cmd=name, params=params)

    def run(self, script: str, *arguments: object) -> Any:
        return self.ask("POST", "execute/sync", script=script, args=list(arguments))

    def text(self, selector: str = "body") -> str:
        """What is seen of it; "" where it is not there."""
        found: str = self.run("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector)
        return found

    def keys(self, *keys: str) -> None:
        """Presses keys, one after the other; those without a character by their code point of the protocol."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("POST", "actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def click(self, selector: str) -> None:
        found = self.ask("POST", "element", using="css selector", value=selector)[ELEMENT]
        self.ask("POST", f"element/{found}/click")

    def wait_for(self, what: Callable[[], T], reported: str, patience_s: float = PATIENCE_S) -> T:
        limit = time.monotonic() + patience_s
        while not (found := what()):
            assert time.monotonic() < limit, f"{reported}\n{self.text()[:4_000]}"
            time.sleep(0.1)
        return found

    def picture(self, path: Path, whole: bool = False) -> None:
        """What is seen as a PNG, or the whole page."""
        options: dict[str, Any] = {"format": "png"}
        if whole:
            width, height = self.run("const d = document.documentElement; return [d.clientWidth, d.scrollHeight]")
            options |= {
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
            }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", **options)["data"]))

    def complaints(self) -> list[str]:
        """What the console has of errors: scripts that failed, what a policy kept from being loaded."""
        found = self.ask("POST", "se/log", type="browser")
        return [each["message"] for each in found if each["level"] in ("SEVERE", "WARNING")]


@contextmanager
def driver() -> Iterator[str]:
    """A driver that listens; skips where the system has no Chromium."""
    program, browser = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if program is None or browser is None:
        pytest.skip("no browser: sudo apt-get install -y chromium chromium-driver")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([program, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + START_S
        while True:
            try:
                if requests.get(f"http://127.0.0.1:{port}/status", timeout=5).json()["value"]["ready"]:
                    break
            except requests.ConnectionError:
                pass
            assert time.monotonic() < limit, "chromedriver does not answer"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def browser(dark: bool = False) -> Iterator[Browser]:
    with driver() as address, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        found = Browser(address, profile, dark)
        try:
            yield found
        finally:
            found.close()

"""Prometheus's own Pushgateway, from the system's package.

In: nothing. Out: its address, as long as a test uses it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from framework.local.broker import free_port

START_S = 30.0


@contextmanager
def pushgateway() -> Iterator[str]:
    """Run it on loopback; skips the test where the system has none."""
    program = shutil.which("prometheus-pushgateway")
    if program is None:
        pytest.skip("the Pushgateway is not installed: sudo apt-get install -y prometheus-pushgateway")
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen([program, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)
    try:
        _until_ready(f"http://{address}/-/ready")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def _until_ready(url: str) -> None:
    limit = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)

"""What Amazon MSK does with a token: it reads the signed URL inside, and makes the signature anew with the caller's secret key.

In: the keys of callers. Out: an address that says whose a token is and when it ends, and a jar with which a Kafka broker asks
there. The signature is made from AWS's description of version 4, without AWS's own code.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import threading
import time
from calendar import timegm
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

CLASS = "AskedTokens"
_SOURCE = Path(__file__).parent / "java" / f"{CLASS}.java"
_EMPTY = hashlib.sha256(b"").hexdigest()


def owner_of(token: str, secrets: Mapping[str, str], now_s: float) -> tuple[str, float] | None:
    """Access key and end in seconds since 1970; None where the token is not good."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    said = dict(parse_qsl(url.query))
    key, day, region, service, last = said["X-Amz-Credential"].split("/")
    wanted = ("kafka-cluster:Connect", "kafka-cluster", "aws4_request", f"kafka.{region}.amazonaws.com")
    if (said["Action"], service, last, url.hostname) != wanted or key not in secrets:
        return None
    signed = {name: value for name, value in said.items() if name not in ("X-Amz-Signature", "User-Agent")}
    query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(signed.items())
    )
    request = "\n".join(["GET", "/", query, f"host:{url.hostname}", "", "host", _EMPTY])
    scope = f"{day}/{region}/{service}/{last}"
    digest = hashlib.sha256(request.encode()).hexdigest()
    made = f"AWS4{secrets[key]}".encode()
    for part in (day, region, service, last, f"AWS4-HMAC-SHA256\n{said['X-Amz-Date']}\n{scope}\n{digest}"):
        made = hmac.digest(made, part.encode(), "sha256")
    ends_at_s = timegm(time.strptime(said["X-Amz-Date"], "%Y%m%dT%H%M%SZ")) + int(said["X-Amz-Expires"])
    return (key, ends_at_s) if made.hex() == said["X-Amz-Signature"] and now_s < ends_at_s else None


class MskTokens(ThreadingHTTPServer):
    """Serves until `close`. `secrets` may change; `seen` are the good tokens that a broker has asked about."""

    daemon_threads = True

    def __init__(self, secrets: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.secrets = dict(secrets)
        self.seen: set[str] = set()
        self.refused = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def owner(self, token: str) -> tuple[str, float] | None:
        try:
            found = owner_of(token, self.secrets, time.time())
        except (KeyError, ValueError):  # no base64, no URL, or parts of it are missing
            found = None
        if found is None:
            self.refused += 1
        else:
            self.seen.add(token)
        return found

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: MskTokens

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        owner = self.server.owner(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        body = f"{owner[0]} {round(owner[1] * 1000)}".encode() if owner else b""
        self.send_response(200 if owner else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def with_validator(jars: Path, folder: Path) -> Path:
    """A folder with the broker's jars and the one that asks; skips the test where there is no compiler of Java."""
    if shutil.which("javac") is None:
        pytest.skip("there is no javac: the broker cannot be taught to read MSK's tokens")
    classes, both = folder / "classes", folder / "jars"
    both.mkdir(parents=True)
    _run("javac", "-cp", f"{jars}/*", "-d", classes, _SOURCE)
    for jar in jars.glob("*.jar"):
        (both / jar.name).symlink_to(jar)
    _run("jar", "cf", both / "asked-tokens.jar", "-C", classes, ".")
    return both


def _run(*command: object) -> None:
    answer = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr

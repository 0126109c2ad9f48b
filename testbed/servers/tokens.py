"""A server of OAuth2 tokens on loopback: client credentials (RFC 6749), tokens that end, revoked tokens, and silence.

In: the clients and their secrets. Out: tokens at `uri`, and `admits`, which a server that asks for them calls with each
`Authorization` header. Clients name themselves in the header, or in the form as Iceberg's older clients do.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class TokenServer(ThreadingHTTPServer):
    """Serves until `close`.

    Switches: `lifetime_s` of the next tokens; `says_lifetime` in its answers; `status` other than 200 is what it answers to
    everybody; while `silent` is set, nobody gets an answer.
    """

    daemon_threads = True

    def __init__(self, clients: Mapping[str, str], lifetime_s: float = 60.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.clients = dict(clients)
        self.lifetime_s = lifetime_s
        self.says_lifetime = True
        self.status = 200
        self.silent = threading.Event()
        self.issued: dict[str, float] = {}
        self.asked = 0
        self.forms: list[dict[str, list[str]]] = []
        self.refused = 0
        self._revoked: set[str] = set()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"

    def admits(self, authorization: str | None) -> bool:
        """Whether a request with this header has a token that is good now."""
        token = (authorization or "").removeprefix("Bearer ")
        good = token not in self._revoked and time.monotonic() < self.issued.get(token, 0.0)
        self.refused += not good
        return good

    def revoke(self) -> None:
        """None of the tokens until now is good any more."""
        self._revoked |= set(self.issued)

    def answer(self, authorization: str | None, form: str) -> tuple[int, bytes]:
        """Status and body for a request of a token."""
        self.asked += 1
        if self.silent.is_set():
            time.sleep(60)
        self.forms.append(parse_qs(form))
        named = {key: values[0] for key, values in parse_qs(form).items()}
        client, secret = _basic(authorization) or (named.get("client_id", ""), named.get("client_secret", ""))
        if self.status != 200:
            return self.status, json.dumps(
                {"error": "invalid_client", "error_description": f"{client} is shut out"}
            ).encode()
        if named.get("grant_type") != "client_credentials" or self.clients.get(client) != secret:
            return 401, json.dumps(
                {"error": "invalid_client", "error_description": "unknown client or secret"}
            ).encode()
        token = self.token_for(client)
        self.issued[token] = time.monotonic() + self.lifetime_s
        said = {"access_token": token, "token_type": "bearer"}
        return 200, json.dumps(said | ({"expires_in": int(self.lifetime_s)} if self.says_lifetime else {})).encode()

    def token_for(self, client: str) -> str:
        """A token that was never given before."""
        return f"issued-{uuid.uuid4().hex}"

    def page(self, path: str) -> bytes | None:
        """What is published there; None: nothing is."""
        return None

    def close(self) -> None:
        self.shutdown()
        self.server_close()


def _basic(authorization: str | None) -> tuple[str, str] | None:
    if not authorization or not authorization.startswith("Basic "):
        return None
    try:
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return client, secret


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test run prints no access log."""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self._send(*self.server.answer(self.headers.get("Authorization"), form))

    def do_GET(self) -> None:
        page = self.server.page(self.path)
        self._send(404 if page is None else 200, page or b"{}")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

"""An identity provider of OpenID Connect on loopback: its tokens are JSON Web Tokens, signed with a key that it publishes.

In: a folder for the key, and the clients with their secrets. Out: tokens at `uri`, as of `TokenServer` with all its switches,
and the public key at `keys_uri`, where a Kafka broker looks it up. `openssl` makes the key and the signatures.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.servers.tokens import TokenServer

AUDIENCE = "kafka"
_KEY_ID = "tests"


class IdentityProvider(TokenServer):
    """Serves until `close`. Tokens are good by their signature, so `revoke` takes nothing from a broker; take the client away."""

    def __init__(self, folder: Path, clients: Mapping[str, str], lifetime_s: float = 60.0) -> None:
        self._key = folder / "identity.key"
        folder.mkdir(parents=True, exist_ok=True)
        _openssl("genrsa", "-out", self._key, "2048")
        modulus = _openssl("rsa", "-in", self._key, "-noout", "-modulus").decode().strip().partition("=")[2]
        public = {"n": _text(bytes.fromhex(modulus)), "e": _text((65537).to_bytes(3, "big"))}
        self._keys = {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID, **public}]}
        self.audience = AUDIENCE
        super().__init__(clients, lifetime_s)

    @property
    def keys_uri(self) -> str:
        return self.uri.removesuffix("/token") + "/keys"

    def page(self, path: str) -> bytes | None:
        return json.dumps(self._keys).encode() if path == "/keys" else None

    def token_for(self, client: str) -> str:
        now = time.time()
        claims = {
            "sub": client,
            "aud": self.audience,
            "iat": int(now),
            "exp": int(now + self.lifetime_s),
            "jti": uuid.uuid4().hex,
        }
        signed = f"{_json({'alg': 'RS256', 'typ': 'JWT', 'kid': _KEY_ID})}.{_json(claims)}"
        return f"{signed}.{_text(_openssl('dgst', '-sha256', '-sign', self._key, said=signed.encode()))}"


def _json(value: Mapping[str, Any]) -> str:
    return _text(json.dumps(value).encode())


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _openssl(*words: object, said: bytes | None = None) -> bytes:
    answer = subprocess.run(["openssl", *map(str, words)], capture_output=True, input=said, check=False)
    assert answer.returncode == 0, answer.stderr.decode()
    return answer.stdout

"""A REST catalog that lends keys: Iceberg's own servlet, and before it and before its store what a vending catalog adds.

In: a folder. Out: a catalog whose tables come with keys of moto's STS, each good below its table's location alone, and for
a short time; a store that refuses a key when its time is over, and everybody whose policies do not allow what is asked.
Requests of the catalog need a token. Nothing of floe's is in it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from testbed.servers.rest_catalog import RestCatalog
from testbed.servers.s3 import REGION, S3Server
from tests.chaos.proxy import Answer, HttpProxy, s3_error

TOKEN = "of-the-catalog-alone"
_CREDENTIAL = re.compile(r"Credential=([^/,]+)/")
_EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


class Vending:
    """Serves until `close`. `sends` is added to what comes with each table, `config` to the answer to `/v1/config`;
    `lends` off: no keys come with a table; `says_end` off: they come, and nobody says when they end."""

    def __init__(self, folder: Path, lives_s: float = 3600.0) -> None:
        self.lives_s = lives_s
        self.lends = True
        self.says_end = True
        self.sends: dict[str, str] = {}
        self.config: dict[str, object] = {}
        self.ends: dict[str, float] = {}
        self.locations: dict[str, str] = {}
        self.secrets: set[str] = set()
        self.used: dict[str, set[str]] = {}  # by lent key, the paths that were asked for with it
        self.late = 0
        self._lock = threading.Lock()
        self.s3 = S3Server(folder / "s3")
        admin = self.s3.users({"admin": _EVERYTHING})["admin"]
        self.admin = admin
        self._lender = self.s3.lender(admin)
        self.s3.enforce()
        self.store = HttpProxy(int(self.s3.endpoint.rpartition(":")[2]))
        self.store.door = self._at_the_store
        self.rest = RestCatalog(folder / "rest", admin).start()
        self.catalog = HttpProxy(self.rest.port)
        self.catalog.door = self._at_the_catalog
        self.catalog.change = self._with_keys

    def settings(self) -> dict[str, str]:
        """What a target says: where the catalog and its store are, and no key of the store."""
        return {
            "type": "rest", "uri": self.catalog.uri, "token": TOKEN, "warehouse": self.s3.settings()["warehouse"],
            "s3.endpoint": self.store.uri, "s3.region": REGION,
        }  # fmt: skip

    def settings_of_admin(self) -> dict[str, str]:
        """For who reads back, past both doors."""
        return self.rest.settings() | self.admin

    def close(self) -> None:
        self.catalog.close()
        self.store.close()
        self.rest.stop()
        self._lender.kill()
        self._lender.wait()
        self.s3.stop()

    def lend(self, location: str) -> tuple[str, str, str]:
        with self._lock:
            place = urlsplit(location)
            assert self._lender.stdin is not None
            assert self._lender.stdout is not None
            self._lender.stdin.write(json.dumps([place.netloc, place.path.strip("/")]) + "\n")
            self._lender.stdin.flush()
            key, secret, token = json.loads(self._lender.stdout.readline())
            self.ends[key], self.locations[key] = time.time() + self.lives_s, location
            self.secrets |= {secret, token}
            return key, secret, token

    def _at_the_catalog(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        found = {name.lower(): value for name, value in headers.items()}
        if path.startswith("/v1/config") or found.get("authorization") == f"Bearer {TOKEN}":
            return None
        return Answer(401, b'{"error": {"message": "not authorized", "type": "NotAuthorizedException", "code": 401}}')

    def _with_keys(self, path: str, body: bytes) -> bytes:
        said = json.loads(body or b"{}")
        if path.startswith("/v1/config"):
            return json.dumps(said | self.config).encode()
        if "metadata" in said and "location" in said["metadata"]:  # of a table, and of no namespace
            location = said["metadata"]["location"]
            said["config"] = said.get("config", {}) | self.sends
            if self.lends:
                key, secret, token = self.lend(location)
                lent = {"s3.access-key-id": key, "s3.secret-access-key": secret, "s3.session-token": token}
                if self.says_end:
                    lent["s3.session-token-expires-at-ms"] = str(int(self.ends[key] * 1000))
                said["storage-credentials"] = [{"prefix": location + "/", "config": lent}]
        return json.dumps(said).encode()

    def _at_the_store(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        found = {name.lower(): value for name, value in headers.items()}
        key = _CREDENTIAL.search(found.get("authorization", ""))
        if key is None:
            return s3_error(403, "AccessDenied")
        self.used.setdefault(key[1], set()).add(path)
        if time.time() > self.ends.get(key[1], 0.0):
            self.late += 1
            return s3_error(400, "ExpiredToken")
        return None

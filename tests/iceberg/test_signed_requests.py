"""SigV4 of a REST catalog: every request carries a signature that a server can make anew from the secret key."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.effects import Committed
from framework.errors import SetupError
from testbed.servers.rest_catalog import RestCatalog
from testbed.servers.s3 import client_packages
from tests.chaos.proxy import Answer, HttpProxy
from tests.iceberg.conftest import Lake

pytestmark = [pytest.mark.iceberg]
KEY, SECRET = "AKIASIGNER", "secret-of-the-signer"
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(\w+)/(\d+/[\w-]+/[\w-]+/aws4_request), SignedHeaders=([\w;-]+), Signature=(\w+)$"
)
_DENIED = b'{"error": {"message": "wrong signature", "type": "ForbiddenException", "code": 403}}'


def signature(method: str, path: str, headers: Mapping[str, str], body: bytes, scope: str, signed: str) -> str:
    """As AWS documents it, by hand."""
    parts = urlsplit(path)
    query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(parse_qsl(parts.query)))
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in signed.split(";")]
    payload = hashlib.sha256(body).hexdigest()
    text = "\n".join([method, quote(parts.path, safe="/-_.~"), query, *lines, "", signed, payload])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(text.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


class SigningDoor:
    """Lets in what is signed by the key that it knows, for the service and region that it serves."""

    def __init__(self, port: int) -> None:
        self.proxy = HttpProxy(port)
        self.proxy.door = self._judge
        self.good: list[str] = []
        self.refused: list[str] = []

    def _judge(self, path: str, given: Mapping[str, str], body: bytes) -> Answer | None:
        headers = {name.lower(): value for name, value in given.items()}
        found = _HEADER.match(headers.get("authorization", ""))
        if found and found[1] == KEY and found[2].endswith("/eu-west-1/glue/aws4_request") and "host" in found[3]:
            # The method is not given here: the signature is of one of those.
            methods = ("GET", "HEAD", "POST", "DELETE")
            if found[4] in {signature(method, path, headers, body, found[2], found[3]) for method in methods}:
                self.good.append(path)
                return None
        self.refused.append(path)
        return Answer(403, _DENIED)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SigningDoor]:
    monkeypatch.syspath_prepend(str(client_packages()))
    server = RestCatalog(tmp_path / "rest").start()
    made = SigningDoor(server.port)
    yield made
    made.proxy.close()
    server.stop()


def settings(door: SigningDoor, warehouse: Path, secret: str = SECRET) -> dict[str, str]:
    return {
        "type": "rest", "uri": door.proxy.uri, "warehouse": f"file://{warehouse}", "rest.sigv4-enabled": "true",
        "rest.signing-name": "glue", "rest.signing-region": "eu-west-1", "client.access-key-id": KEY,
        "client.secret-access-key": secret, "client.region": "eu-west-1",
    }  # fmt: skip


def test_every_request_is_signed(door: SigningDoor, tmp_path: Path) -> None:
    """A table in a namespace of two levels is made, committed to and listed: the server makes every signature anew and finds it
    right."""
    lake = Lake(settings(door, tmp_path / "rest" / "warehouse"))
    name = lake.create("shop.eu.orders")
    assert isinstance(lake.tables.commit(lake.effect(name, (), 1)), Committed)
    assert lake.tables.list_tables() == [name]
    assert door.refused == []
    assert len(door.good) > 5


def test_a_wrong_key_is_refused_by_the_server(door: SigningDoor, tmp_path: Path) -> None:
    """FLOE-E201, and no message has the secret."""
    wrong = settings(door, tmp_path, "another-secret")
    with pytest.raises(SetupError) as raised:
        IcebergCatalog(wrong).check()
    assert raised.value.code == "FLOE-E201"
    assert "another-secret" not in str(raised.value)
    assert door.good == []


def test_tasks_are_not_sent_how_the_catalog_is_asked(door: SigningDoor, tmp_path: Path) -> None:
    """No setting of the signature goes to tasks, nor do the keys of `client.` where the store has keys of its own. Where it has
    none they go, since PyIceberg asks stores with them, too."""
    signed = settings(door, tmp_path)
    alone = IcebergTables(signed).io_properties()["default"]
    assert not [key for key in alone if key.startswith("rest.")]
    assert alone["client.access-key-id"] == KEY
    of_store = {"s3.access-key-id": "store", "s3.secret-access-key": "key of the store"}
    sent = IcebergTables(signed | of_store).io_properties()["default"]
    assert sent == of_store | {"warehouse": signed["warehouse"], "client.region": "eu-west-1"}

"""A REST catalog that asks who is there: every way that a target can write, tokens that end, are revoked, or are not to be had.

The catalog is Iceberg's own servlet; a door in front of it lets in who has a good token. What is read back is read past the
door.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.secrets import resolve
from framework.commit.machine.effects import CommitFailed, Committed
from framework.config.settings.known import client
from framework.config.spec import SecretRef
from framework.diagnose.secrets import is_secret_name
from framework.errors import FloeError, SetupError
from framework.ops.doctor.catalog import examine
from framework.ops.doctor.model import CheckState
from testbed.servers.rest_catalog import RestCatalog
from testbed.servers.tokens import TokenServer
from tests.chaos.proxy import is_commit
from tests.iceberg.catalog_door import SECRET, Door
from tests.iceberg.conftest import TOPIC, Lake

pytestmark = pytest.mark.iceberg
WAYS = ("oauth2", "credential")


class BehindDoor(Lake):
    """A lake that floe reaches through the door; `catalog` stands behind it."""

    def __init__(self, settings: dict[str, str], behind: dict[str, str]) -> None:
        self.settings, self.name, self.behind = settings, "default", behind
        self.tables = IcebergTables(settings, settings_now=lambda: dict(self.settings))
        self.tables.check()

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **self.behind)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    started = RestCatalog(tmp_path_factory.mktemp("rest")).start()
    load_catalog("default", **started.settings()).list_namespaces()  # the first request takes seconds
    yield started
    started.stop()


@pytest.fixture
def door(server: RestCatalog) -> Iterator[Door]:
    made = Door(server.port)
    yield made
    made.close()


@pytest.fixture
def behind(door: Door, server: RestCatalog) -> Callable[[str], BehindDoor]:
    return lambda way: BehindDoor(door.settings(way), server.settings())


@pytest.fixture
def name(tmp_path: Path) -> str:
    return f"n{abs(hash(str(tmp_path))) % 10**8}.orders"


def commit(lake: BehindDoor, name: str, number: int) -> object:
    return lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number, "name": "x"}]), number))


@pytest.mark.parametrize("way", ["basic", "oauth2", "credential", "credential-at-the-catalog"])
def test_each_way_lets_floe_in(door: Door, behind: Callable[[str], BehindDoor], name: str, way: str) -> None:
    """What a target writes is what the server gets, from the run's own client and from `floe doctor`'s."""
    lake = behind(way)
    lake.create(name)
    assert isinstance(commit(lake, name, 1), Committed)
    assert lake.rows(name) == [1]
    found = list(examine("default", lambda: door.settings(way)))
    assert [one for one in found if one.state is not CheckState.OK] == []


def test_nobody_is_named_where_the_target_says_so(door: Door, behind: Callable[[str], BehindDoor], name: str) -> None:
    """`noop` sends no header, and a door that wants one refuses it with what the server says."""
    with pytest.raises(SetupError, match="not authorized"):
        behind("noop")
    assert door.seen == {"nobody"}
    door.open = True
    behind("noop").create(name)
    assert door.seen == {"nobody"}


@pytest.mark.parametrize("way", WAYS)
def test_commits_go_on_while_tokens_end(door: Door, behind: Callable[[str], BehindDoor], name: str, way: str) -> None:
    """A token that lives for two seconds ends many times; each commit is made once, and none waits for a person."""
    door.tokens.lifetime_s = 2
    lake = behind(way)
    lake.create(name)
    began, number = time.monotonic(), 0
    while time.monotonic() - began < 12:
        number += 1
        assert isinstance(commit(lake, name, number), Committed)
    assert lake.rows(name) == list(range(1, number + 1))
    assert len(door.tokens.issued) >= 6
    if way == "oauth2":
        assert door.tokens.refused == 0, "a new token is asked for before the old one ends"


@pytest.mark.parametrize("way", WAYS)
def test_a_revoked_token_is_asked_for_once_more(
    door: Door, behind: Callable[[str], BehindDoor], name: str, way: str
) -> None:
    """The catalog refuses a token that should be good: one other is asked for, and the same call goes on with it."""
    lake = behind(way)
    lake.create(name)
    effect = lake.effect(name, lake.files(name, [{"id": 1, "name": "x"}]), 1)
    issued = len(door.tokens.issued)
    door.tokens.revoke()
    assert isinstance(lake.tables.commit(effect), Committed)
    assert (len(door.tokens.issued), door.tokens.refused) == (issued + 1, 1)
    assert isinstance(commit(lake, name, 2), Committed)
    assert (lake.rows(name), door.tokens.refused) == ([1, 2], 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_of_a_commit_that_was_made_is_found_out(
    door: Door, behind: Callable[[str], BehindDoor], name: str, way: str
) -> None:
    """The catalog makes the commit and answers 401: PyIceberg sends it again with another token, and floe reads back."""
    lake = behind(way)
    lake.create(name)
    refusals: list[str] = []

    def once(method: str, path: str) -> int | None:
        if is_commit(method, path) and len(refusals) < 2:
            refusals.append(path)
            return 401
        return None

    effect = lake.effect(name, lake.files(name, [{"id": 1, "name": "x"}]), 1)
    door.proxy.after = once
    assert isinstance(lake.tables.commit(effect), Committed)
    door.proxy.after = lambda method, path: None
    assert lake.rows(name) == [1]
    assert isinstance(commit(lake, name, 2), Committed)
    assert lake.rows(name) == [1, 2]


@pytest.mark.parametrize(
    ("way", "trouble"),
    [
        *((way, trouble) for way in WAYS for trouble in ("refused", "broken", "silent", "gone")),
        ("oauth2", "no lifetime"),  # without `auth` PyIceberg uses a token until it is refused
    ],
)
def test_a_token_that_is_not_to_be_had_holds_up_and_is_told(
    door: Door, behind: Callable[[str], BehindDoor], name: str, way: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is committed and nothing is lost; what is told names the server of tokens and no secret; once there are tokens
    again, the same commit is made."""
    lake = behind(way)
    lake.create(name)
    effect = lake.effect(name, lake.files(name, [{"id": 1, "name": "x"}]), 1)
    caplog.set_level(logging.DEBUG)
    door.tokens.revoke()
    port = door.tokens.server_address[1]
    match trouble:
        case "refused":
            door.tokens.status = 401
        case "broken":
            door.tokens.status = 503
        case "silent":
            door.tokens.silent.set()
        case "gone":
            door.tokens.close()
        case "no lifetime":
            door.tokens.says_lifetime = False
    began = time.monotonic()
    told = [lake.tables.commit(effect)]
    with pytest.raises(FloeError) as raised:
        lake.tables.load_view(name, "main", TOPIC)
    assert time.monotonic() - began < 30
    assert raised.value.code in ("FLOE-E201", "FLOE-R135")
    assert all(isinstance(one, CommitFailed) for one in told)
    words = [getattr(told[0], "reason", ""), raised.value.message]
    assert not [line for line in [*words, str(raised.value), caplog.text] if SECRET in line]
    if way == "oauth2":
        assert str(port) in words[0] + words[1], words
        why = {"refused": "401 invalid_client: floe is shut out", "broken": "503", "no lifetime": "how long"}.get(
            trouble, ""
        )
        assert why in words[0] + words[1], words
    assert lake.rows(name) == []

    door.tokens.status = 200
    door.tokens.says_lifetime = True
    door.tokens.silent.clear()
    if trouble == "gone":
        door.tokens = TokenServer({"floe": SECRET})
        lake.settings = door.settings(way)
    assert isinstance(lake.tables.commit(effect), Committed)
    assert lake.rows(name) == [1]


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_that_is_replaced_is_read_again(door: Door, server: RestCatalog, tmp_path: Path, way: str) -> None:
    """The client's secret changes while no catalog is open, and while one is: the next try reads the file again."""
    secret = tmp_path / "secret"
    secret.write_text("not-that-secret" if way == "oauth2" else "floe:not-that-secret")
    key = "auth.oauth2.client_secret" if way == "oauth2" else "credential"
    settings = {**door.settings(way), key: SecretRef("file", str(secret))}
    catalog = IcebergCatalog(None, "default", partial(resolve, settings))
    with pytest.raises(SetupError) as raised:
        catalog.check()
    assert raised.value.code == "FLOE-E201"
    assert "unknown client or secret" in raised.value.message
    assert "server of tokens" in raised.value.remedy
    for number in (1, 2):
        door.tokens.clients["floe"] = f"{SECRET}-{number}"
        secret.write_text(door.tokens.clients["floe"] if way == "oauth2" else f"floe:{door.tokens.clients['floe']}")
        door.tokens.revoke()
        if number == 2:
            with pytest.raises(FloeError):
                catalog.check()
        catalog.check()


def test_a_short_token_is_not_asked_for_with_each_request(
    door: Door, behind: Callable[[str], BehindDoor], name: str
) -> None:
    """A token may live for less than PyIceberg's margin of a minute: half of its life it is used."""
    door.tokens.lifetime_s = 20
    lake = behind("oauth2")
    lake.create(name)
    assert isinstance(commit(lake, name, 1), Committed)
    assert len(door.tokens.issued) == 1


def test_what_only_another_package_can_do_names_the_package(door: Door) -> None:
    """Google's and Microsoft's ways need packages that PyIceberg does not bring."""
    for way, extra in (("google", "gcp-auth"), ("entra", "entra-auth")):
        settings = {"type": "rest", "uri": door.proxy.uri, "auth.type": way}
        with pytest.raises(SetupError) as raised:
            IcebergCatalog(settings, "default").check()
        assert (raised.value.code, raised.value.remedy) == ("FLOE-E204", f'pip install "pyiceberg[{extra}]"')


def test_no_setting_makes_a_class_of_its_own(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reaches the catalog, past all files: only the ways that are listed are made."""
    ran: list[object] = []
    monkeypatch.setattr("os.system", lambda *words, **named: ran.append((words, named)))
    for way in ("custom", "os.system", "legacyoauth2"):
        settings = {"type": "rest", "uri": door.proxy.uri, "auth.type": way, "auth.impl": "os.system"}
        with pytest.raises(SetupError) as raised:
            IcebergCatalog(settings, "default").check()
        assert raised.value.code == "FLOE-E202"
    assert ran == []


def test_tasks_get_nothing_of_it(door: Door) -> None:
    """What executors are sent to write files holds neither the client nor its secret."""
    for way in (*WAYS, "basic"):
        sent = IcebergCatalog(door.settings(way), "default").io_properties()
        assert SECRET not in str(sent)
        assert "auth" not in str(sent)


def test_tasks_get_the_secrets_of_stores_alone() -> None:
    """Of all settings that PyIceberg has for any kind of catalog."""
    known = client("pyiceberg")
    every = {key: "x" for key in (*known.values, *(f"{family}x" for family in known.families)) if is_secret_name(key)}
    sent = IcebergCatalog(every, "default").io_properties()
    assert [key for key in sent if not key.startswith(("adls.", "client.", "gcs.", "hf.", "s3."))] == []
    assert len(sent) > 8

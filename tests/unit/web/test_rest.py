"""The REST surface, asked by a real client over a real socket: shapes, refusals, roles, names of the host."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from framework import __version__
from framework.commit.events.event_types import Health, Subject
from framework.errors import SetupError, StateDisagreement
from framework.web.answers import MOST_BODY
from framework.web.backend import SettingFinding
from framework.web.operations import OPERATIONS
from tests.unit.web.backend import (
    ACTOR,
    LETTERS,
    READER,
    TOKENS,
    USUAL,
    PlainDesk,
    at_now,
    committed,
    complete,
    paused,
    reported,
    seen,
    served,
    written,
)


@pytest.fixture(scope="module")
def base() -> Iterator[tuple[PlainDesk, str]]:
    backend = PlainDesk()
    with served(backend) as url:
        yield backend, url


@pytest.fixture
def backend(base: tuple[PlainDesk, str]) -> PlainDesk:
    found = base[0]
    found.__dict__.update(PlainDesk(found=seen(USUAL, found.found.version + 1)).__dict__)
    return found


@pytest.fixture
def url(base: tuple[PlainDesk, str], backend: PlainDesk) -> str:
    return base[1]


def ask(url: str, path: str, method: str = "GET", token: str = ACTOR, **more: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.request(method, url + path, headers={**headers, **more.pop("headers", {})}, timeout=20, **more)


def show(backend: PlainDesk, *events: Any) -> None:
    backend.found = seen(at_now(*events), backend.found.version + 1)


# ---- Connect's shape -----------------------------------------------------------------------------------------------


def test_connectors_are_the_pipelines_in_connects_shape(url: str) -> None:
    """Tools that speak Connect's REST interface find names, configuration, tasks, topics and offsets where they look."""
    assert ask(url, "/connectors").json() == ["orders"]
    assert ask(url, "/connectors/").json() == ["orders"]
    assert ask(url, "/connectors/orders").json() == {
        "name": "orders",
        "config": {"name": "orders", "connector.class": "floe", "read.topics": "orders"},
        "tasks": [{"connector": "orders", "task": 0}],
        "type": "sink",
    }
    assert ask(url, "/connectors/orders/config").json()["read.topics"] == "orders"
    assert ask(url, "/connectors/orders/tasks").json() == [{"connector": "orders", "task": 0}]
    assert ask(url, "/connectors/orders/topics").json() == {"orders": {"topics": ["orders"]}}
    assert ask(url, "/connectors/orders/offsets").json()["offsets"][0] == {
        "partition": {"kafka_topic": "orders", "kafka_partition": 0},
        "offset": {"kafka_offset": 20},
    }
    expanded = ask(url, "/connectors?expand=status&expand=info").json()
    assert expanded["orders"]["status"] == ask(url, "/connectors/orders/status").json()
    assert expanded["orders"]["info"] == ask(url, "/connectors/orders").json()


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        (Health.DEGRADED, "FLOE-R136", "RUNNING"),
        (Health.DEGRADED, "FLOE-R139", "RUNNING"),
        (Health.DEGRADED, "FLOE-R150", "FAILED"),
        (Health.BLOCKED, "FLOE-R313", "FAILED"),
    ],
)
def test_what_needs_a_person_is_failed_to_connects_tools(
    backend: PlainDesk, url: str, state: Health, code: str, expected: str
) -> None:
    """A stalled and a blocked pipeline are FAILED, with reason and remedy as the trace; one that is tried again runs."""
    from dataclasses import replace

    report = reported("orders", state, "it stands still", subject=Subject.PIPELINE, by="run-1")
    show(backend, written("a.t", 1), complete(1), replace(report, code=code))
    found = ask(url, "/connectors/orders/status").json()
    assert found["connector"]["state"] == expected
    assert found["tasks"][0]["state"] == expected
    assert "it stands still" in found["connector"]["trace"]
    assert found["floe"]["since_ms"] is not None


def test_a_pause_is_the_desks_with_the_tokens_name(backend: PlainDesk, url: str) -> None:
    """`pause` and `resume` reach the function of the verbs, with the token's name as author and the given reason."""
    assert ask(url, "/connectors/orders/pause?why=INC-1", "PUT").status_code == 202
    assert ask(url, "/connectors/orders/resume", "PUT").status_code == 202
    assert backend.acts == [("orders", True, "ann", "INC-1"), ("orders", False, "ann", "")]


def test_a_stop_is_asked_for_with_the_tokens_name(backend: PlainDesk, url: str) -> None:
    """202 where a live run was asked to drain, and 409 where none is live: as Connect's, it has no body."""
    found = ask(url, "/connectors/orders/stop?why=INC-2", "PUT")
    assert (found.status_code, found.content) == (202, b"")
    assert backend.acts == [("orders", True, "ann", "stop INC-2")]
    backend.changes = False
    assert ask(url, "/connectors/orders/stop", "PUT").status_code == 409


def test_one_task_is_told_as_in_the_status(url: str) -> None:
    """`tasks/0/status` is the task of `status`, and a number that no live run has is 404."""
    [task] = ask(url, "/connectors/orders/status").json()["tasks"]
    assert ask(url, "/connectors/orders/tasks/0/status").json() == task
    assert set(task) >= {"id", "state", "worker_id"}
    for number in ("1", "00", "x", "-1"):
        assert ask(url, f"/connectors/orders/tasks/{number}/status").status_code == 404


def test_the_root_says_the_version_to_whoever_wants_json(url: str) -> None:
    """Tools of Connect ask for JSON; a browser gets the page. Without a token no version is told."""
    wants = {"Accept": "application/json"}
    found = requests.get(url, headers={**wants, "Authorization": f"Bearer {ACTOR}"}, timeout=20)
    assert found.json()["version"] == __version__
    assert requests.get(url, headers=wants, timeout=20).status_code == 401
    for accepted in ("text/html,application/xhtml+xml,application/json;q=0.9", "*/*"):
        page = requests.get(url, headers={"Accept": accepted}, timeout=20)
        assert page.headers["content-type"].startswith("text/html")


def test_the_process_says_that_it_is_well_before_any_run(url: str) -> None:
    """A probe has no token, and asks of this process alone."""
    found = requests.get(f"{url}/healthz", timeout=20)
    assert (found.status_code, found.text) == (200, "ok\n")


def test_a_resume_that_changes_nothing_is_reported(backend: PlainDesk, url: str) -> None:
    """What a wider pause holds stays held: 409 with who holds it and the command, not a success."""
    show(backend, written("a.t", 1), complete(1), paused("ord*", "maintenance"))
    backend.changes = False
    found = ask(url, "/connectors/orders/resume", "PUT")
    assert found.status_code == 409
    assert "ann@host" in found.json()["message"]
    assert "floe resume --reading 'ord*'" in found.json()["message"]


def test_a_name_that_is_a_pattern_holds_no_others(backend: PlainDesk, url: str) -> None:
    """A pipeline whose announced name is a glob cannot be paused from here: the pause would mean other pipelines."""
    show(backend, complete(1, pipeline="*"), complete(1, pipeline="orders"))
    assert ask(url, "/connectors/*/pause", "PUT").status_code == 409
    assert backend.acts == []


def test_restart_says_why_not(url: str) -> None:
    """501 with who can restart; nothing pretends to."""
    found = ask(url, "/connectors/orders/restart", "POST")
    assert (found.status_code, found.json()["error_code"]) == (501, 501)
    assert "floe run" in found.json()["message"]


def test_a_checked_configuration_says_each_settings_errors(backend: PlainDesk, url: str) -> None:
    """`config/validate` counts settings with errors, and names those that are missing, too."""
    backend.findings = (
        SettingFinding("topics", "no"),
        SettingFinding("topics", "never"),
        SettingFinding("b", "advice", False),
        SettingFinding("c", "x"),
    )
    found = ask(url, "/connector-plugins/floe/config/validate", "PUT", READER, json={"topics": "a", "b": "1"}).json()
    assert (found["name"], found["error_count"]) == ("floe", 2)
    assert [(each["value"]["name"], each["value"]["errors"]) for each in found["configs"]] == [
        ("topics", ["no", "never"]),
        ("b", []),
        ("c", ["x"]),
    ]


# ---- floe's own ------------------------------------------------------------------------------------------------------


def test_overview_tables_and_pipelines_are_those_of_the_view(backend: PlainDesk, url: str) -> None:
    """The documents say what `floe top` says: states, reasons, what waits, to the record."""
    first = ask(url, "/v1/overview").json()
    assert first["tables"] == {"BLOCKED": 1, "IDLE": 1}
    assert [line["name"] for line in first["troubles"]] == ["shop.items"]
    assert first["acts"][0]["by"] == "ann@host"
    [blocked] = ask(url, "/v1/tables?state=BLOCKED").json()["tables"]
    assert (blocked["table"], blocked["waiting"]["rows"]) == ("shop.items", 20)
    whole = ask(url, "/v1/tables/shop.items").json()
    assert [entry["outcome"] for entry in whole["timeline"]] == ["waiting", "waiting"]
    assert (whole["schema_changes"][0]["before"], whole["schema_changes"][0]["after"]) == (3, 4)
    assert ask(url, "/v1/pipelines").json()["pipelines"][0] == ask(url, "/v1/pipelines/orders").json()


def test_tables_come_a_page_at_a_time(backend: PlainDesk, url: str) -> None:
    """`next` leads on until it is null; each table comes once."""
    show(backend, *(written(f"a.t{number:02}", 1) for number in range(25)))
    names: list[str] = []
    after: str | None = ""
    while after is not None:
        page = ask(url, "/v1/tables", params={"limit": 10, "after": after}).json()
        names += [each["table"] for each in page["tables"]]
        after = page["next"]
    assert names == [f"a.t{number:02}" for number in range(25)]
    assert len(ask(url, "/v1/tables?name=t1").json()["tables"]) == 10


def test_a_new_version_is_answered_at_once(backend: PlainDesk, url: str) -> None:
    """What was made for one version of the overview is not given for the next."""
    before = ask(url, "/v1/tables").content
    show(backend, written("new.table", 1))
    assert ask(url, "/v1/tables").content != before


@pytest.mark.parametrize(
    "name", ["a.b/c", "cold:a.b", "a.\ud800", "a.\x00\x1b[2J", "a.<script>", "ä.ö", "a.%2e%2e", "a?b#c"]
)
def test_any_name_is_found_under_itself(backend: PlainDesk, url: str, name: str) -> None:
    """A table is found by its name in a path, whatever is in it; what cannot be sent as UTF-8 is still listed."""
    from urllib.parse import quote

    show(backend, written(name, 1), committed("x.y", 1))
    listed = ask(url, "/v1/tables")
    assert [each["table"] for each in listed.json()["tables"]] == sorted([name, "x.y"])
    if "\ud800" not in name:
        assert ask(url, f"/v1/tables/{quote(name, safe='')}").json()["table"] == name


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/connectors/nobody", 404),
        ("GET", "/connectors/nobody/status", 404),
        ("PUT", "/connectors/nobody/pause", 404),
        ("POST", "/connectors/nobody/restart", 404),
        ("GET", "/v1/tables/shop.nothing", 404),
        ("GET", "/v1/pipelines/nobody", 404),
        ("PUT", "/connector-plugins/nothing/config/validate", 404),
        ("GET", "/v2/overview", 404),
        ("GET", "/static/../../etc/passwd", 404),
        ("POST", "/connectors", 405),
        ("DELETE", "/connectors/orders", 405),
        ("GET", "/connectors/orders/pause", 405),
        ("OPTIONS", "/v1/overview", 405),
        ("GET", "/v1/tables?limit=0", 400),
        ("GET", "/v1/tables?limit=1e3", 400),
        ("GET", "/v1/tables?limit=1&limit=2", 400),
        ("GET", "/v1/tables?state=blocked", 400),
        ("GET", "/connectors?expand=everything", 400),
        ("PUT", f"/connectors/orders/pause?why={'x' * 501}", 400),
    ],
)
def test_what_is_not_there_or_wrong_is_refused_in_connects_form(url: str, method: str, path: str, status: int) -> None:
    """Unknown names are 404, other methods 405, wrong values 400; each with error_code and message."""
    found = ask(url, path, method, json={} if "validate" in path else None)
    assert found.status_code == status
    assert found.json()["error_code"] == status
    assert found.json()["message"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"a": 1}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{}", "text/xml", 415),
        (b'{"a": "' + b"x" * MOST_BODY + b'"}', "application/json", 413),
        (b"{}", "application/json; charset=utf-8", 200),
    ],
)
def test_a_body_that_is_no_configuration_is_refused(url: str, body: bytes, kind: str, status: int) -> None:
    """Whatever is sent as a body, it is read as a configuration or refused."""
    path = "/connector-plugins/floe/config/validate"
    found = ask(url, path, "PUT", data=body, headers={"Content-Type": kind})
    assert found.status_code == status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SetupError("the broker does not answer", place="broker:9092", remedy="look at it"), 503),
        (StateDisagreement("two values", remedy="decide"), 409),
    ],
)
def test_what_fails_in_the_world_is_reported_with_its_remedy(
    backend: PlainDesk, url: str, error: Exception, status: int
) -> None:
    """A broker that is away is 503, never 500, and says what to do."""
    backend.error = error
    for method, path in (("GET", "/connectors/orders/config"), ("PUT", "/connectors/orders/pause")):
        found = ask(url, path, method)
        assert found.status_code == status
        assert "remedy: " in found.json()["message"]
    assert ask(url, "/v1/overview").status_code == 200


# ---- who may ---------------------------------------------------------------------------------------------------------


def every_path() -> list[tuple[str, str]]:
    names = {"connector": "orders", "pipeline": "orders", "table": "shop.orders", "plugin": "floe", "task": "0"}
    return [(each.method, each.path.format(**names)) for each in OPERATIONS] + [("GET", "/v1/openapi.json")]


@pytest.mark.parametrize(("method", "path"), every_path())
@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", f"Bearer {ACTOR}x", f"Bearer {ACTOR[:-1]}", f"Basic {ACTOR}", ACTOR, "Bearer ü", f"Cookie {ACTOR}"],
)
def test_nothing_is_reported_without_a_token(url: str, method: str, path: str, authorization: str) -> None:
    """No operation answers without a token, however near it is; a cookie is none."""
    headers = {"Authorization": authorization.encode()} if authorization else {}
    found = requests.request(method, url + path, headers=headers, cookies={"token": ACTOR}, json={}, timeout=20)
    assert (found.status_code, found.json()["error_code"]) == (401, 401)
    assert found.headers["www-authenticate"] == 'Bearer realm="floe"'


def test_a_reader_may_not_act(backend: PlainDesk, url: str) -> None:
    """A token of role read is refused for each operation that acts, and for no other."""
    for operation, (method, path) in zip(OPERATIONS, every_path()[:-1], strict=True):
        status = ask(url, path, method, READER, json={} if operation.has_body else None).status_code
        assert (status == 403) == (operation.role.value == "act"), path
    assert backend.acts == []


def test_without_a_token_file_anybody_reads_and_nobody_acts() -> None:
    """On loopback the page needs no token to read; acts always need one, also a made-up one."""
    backend = PlainDesk()
    with served(backend, tokens=None) as url:
        assert ask(url, "/v1/overview", token="").status_code == 200
        for token in ("", ACTOR):
            found = ask(url, "/connectors/orders/pause", "PUT", token)
            assert found.status_code == 403
            assert "--tokens" in found.json()["message"]
    assert backend.acts == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("[::1]:{port}", 200),
        ("10.1.2.3", 200),
        ("floe.example.com:{port}", 200),
        ("FLOE.example.com.", 200),
        ("evil.example.com:{port}", 421),
        ("localhost.evil.example.com", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("127.0.0.1@evil.example.com", 421),
        ("", 421),
        ("floe.example.com:{port} evil", 421),
    ],
)
def test_a_name_that_is_not_this_servers_is_refused(host: str, status: int) -> None:
    """A browser that somebody's domain led to this address (DNS rebinding) says that domain, and gets nothing."""
    with served(PlainDesk(), tokens=None, names=("floe.example.com",)) as url:
        port = int(url.rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.putrequest("GET", "/v1/overview", skip_host=True)
        connection.putheader("Host", host.format(port=port))
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == status
        assert (b"shop.items" in body) == (status == 200)


def test_two_hosts_or_none_are_refused() -> None:
    """What has no host, or two, was not sent by a browser that means this server."""
    with served(PlainDesk(), tokens=None) as url:
        for hosts in ("", "Host: localhost\r\nHost: evil.example.com\r\n"):
            with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), 20) as raw:
                raw.sendall(f"GET /v1/overview HTTP/1.1\r\n{hosts}\r\n".encode())
                assert raw.recv(64).split()[1] in (b"400", b"421")


def test_every_answer_lets_a_browser_load_nothing_else(url: str) -> None:
    """The headers are on successes and refusals alike: no script of others, no frame, no cache, and no CORS."""
    for path, token in (("/v1/overview", ACTOR), ("/nothing", ""), ("/v1/overview", "")):
        headers = ask(url, path, token=token, headers={"Origin": "https://evil.example.com"}).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert "set-cookie" not in headers
        assert "server" not in headers


def test_the_list_is_what_is_routed_and_described(url: str) -> None:
    """Each operation of the OpenAPI document answers, and nothing of Connect's that it does not name does."""
    paths = ask(url, "/v1/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert described == {(each.method, each.path) for each in OPERATIONS}
    for method, path in every_path():
        assert ask(url, path, method, json={} if method == "PUT" else None).status_code not in (404, 405), path
    for method, path in (("PUT", "/connectors/orders/config"), ("GET", "/loggers")):
        assert ask(url, path, method).status_code in (404, 405)


def test_no_refusal_repeats_a_secret(backend: PlainDesk, url: str) -> None:
    """What a client says of a broker may hold its password: it is hidden."""
    backend.error = SetupError("sasl.password=hunter22-hunter22 is wrong")
    assert "hunter22" not in json.dumps(ask(url, "/connectors/orders/config").json())


def test_dead_letters_are_for_who_may_act_alone(backend: PlainDesk, url: str) -> None:
    """A reader's token, no token, and a pipeline that the target does not name get a refusal that says why; who looked is
    known by name."""
    backend.shown = {"orders": LETTERS}
    path = "/v1/pipelines/orders/dead-letters"
    assert [ask(url, path, token=token).status_code for token in (READER, "")] == [403, 401]
    assert ask(url, path).json()["letters"][0]["lines"] == list(LETTERS.letters[0].lines)
    assert ask(url, f"{path}?code=FLOE-D304&limit=3").status_code == 200
    assert backend.acts == [("orders", False, "ann", " 20"), ("orders", False, "ann", "FLOE-D304 3")]
    assert [ask(url, f"{path}?{wrong}").status_code for wrong in ("limit=0", "limit=101", "code=" + "x" * 21)] == [
        400
    ] * 3
    backend.shown = {}
    assert ask(url, path).status_code == 403
    assert ask(url, "/v1/pipelines/nobody/dead-letters").status_code == 404
    with served(PlainDesk(shown={"orders": LETTERS}), tokens=None) as open_url:
        assert ask(open_url, path, token="").status_code == 403


def test_the_page_offers_dead_letters_only_where_somebody_may_see_them(backend: PlainDesk) -> None:
    """With tokens and a word in the target there is a button, and never a letter: not in the document, nor in its events."""
    some = {"orders": LETTERS}
    cases = ((lambda: TOKENS, some, True), (lambda: TOKENS, {}, False), (None, some, False))
    for tokens, shown, offers in cases:
        with served(PlainDesk(shown=shown), tokens=tokens) as url:
            text = ask(url, "/pipelines/orders").text
            assert ('data-from="/v1/pipelines/orders/dead-letters"' in text) is offers
            assert "show-letters" not in ask(url, "/").text + ask(url, "/tables/shop.items").text
            with requests.get(
                f"{url}/events?at=/pipelines/orders",
                headers={"Authorization": f"Bearer {ACTOR}"},
                stream=True,
                timeout=20,
            ) as answer:
                event = next(line for line in answer.iter_lines(decode_unicode=True) if line.startswith("data: "))
            assert LETTERS.letters[0].lines[0] not in text + json.loads(json.dumps(event))


def test_every_path_stands_on_the_page_of_operations() -> None:
    """The table of routes in docs/operations.md names the words and the method of each path that is answered."""
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.partition("**REST.**")[2].partition("\nFor example:")[0]
    missing = []
    for each in OPERATIONS:
        words = [word for word in each.path.split("/") if word and not word.startswith("{")]
        rows = [row for row in section.splitlines() if f"`{each.method} " in row]
        missing += [] if any(all(word in row for word in words) for row in rows) else [(each.method, each.path)]
    assert not missing

"""Strangers' requests, made up: whatever is sent, no answer is a 500, and what is answered is what OpenAPI says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.cli.write.import_connector import pipeline_text
from framework.connector.translation.translate import import_connector
from framework.ops.backend import _of_file, _of_sink
from framework.web.connect import SINKS
from framework.web.openapi import describe
from framework.web.operations import OPERATIONS
from tests.unit.web.backend import ACTOR, PlainDesk, served

JSON = {
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://localhost:8181",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
FUZZER = shutil.which("st", path=str(Path(sys.executable).parent))
NAMES = {
    "connector": ["orders", "nobody"],
    "pipeline": ["orders"],
    "table": ["shop.items"],
    "plugin": ["floe", *SINKS],
    "task": ["0", "7"],
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(PlainDesk()) as found:
        yield found


PATHS = st.sampled_from(
    sorted({each.path for each in OPERATIONS} | {"/", "/events", "/tables/{table}", "/static/{table}"})
)
WORDS = st.one_of(
    st.sampled_from(["orders", "shop.items", "floe", "", "..", "%00", "%ff", "%2F", "*"]), st.text(max_size=20)
)
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"]),
    path=PATHS,
    word=WORDS,
    query=st.dictionaries(
        st.sampled_from(["limit", "state", "after", "expand", "why", "name", "at", "q", "page", "x"]), WORDS
    ),
    kind=st.one_of(st.just("application/json"), HEADER),
    body=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=6,
        ).map(lambda value: json.dumps(value).encode()),
    ),
    accept=HEADER,
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_request_is_a_500(
    url: str, method: str, path: str, word: str, query: dict[str, str], kind: str, body: bytes, accept: str
) -> None:
    """Any method, path, query, header and body: the answer is below 500, or one of the two that say why not."""
    from urllib.parse import quote

    for name in NAMES:
        path = path.replace("{" + name + "}", quote(word.encode("utf-8", "replace"), safe="%."))
    sent = requests.Request(method, url + path, params=query, data=body)
    prepared = sent.prepare()
    prepared.headers.update(
        {"Authorization": f"Bearer {ACTOR}", "Content-Type": kind.strip(), "Accept": accept.strip()}
    )
    with requests.Session() as session:
        answer = session.send(prepared, timeout=30, stream=True, allow_redirects=False)
    assert answer.status_code < 500 or answer.status_code == 501
    answer.close()


@pytest.mark.slow
@pytest.mark.skipif(FUZZER is None, reason="schemathesis needs Python 3.11")
def test_schemathesis_finds_no_answer_but_the_described_ones(url: str, tmp_path: Path) -> None:
    """All checks of schemathesis over every operation, in its own process: no 500, no status, type or schema of an answer
    that the OpenAPI document does not have, no wrong request that is taken, no request without a token that is."""
    assert FUZZER is not None
    document = describe(OPERATIONS)
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"]["enum"] = NAMES[parameter["name"]]  # or all that it asks for is 404
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document))
    (tmp_path / "schemathesis.toml").write_text(RESTART)
    command = [FUZZER, "run", str(path), "--url", url, "-H", f"Authorization: Bearer {ACTOR}", "--checks", "all"]
    done = subprocess.run(
        [*command, "--max-examples", "15", "--seed", "1", "--no-color", "--continue-on-failure", "--warnings", "off"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]


# The one answer above 499 that is meant, in its one place.
RESTART = """
[[operations]]
include-name = "POST /connectors/{connector}/restart"
[operations.checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501]
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("${env:HOME}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FILES = st.one_of(
    st.text(max_size=200),
    VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True)),
    st.fixed_dictionaries(
        {"apiVersion": st.just("floe/v1"), "kind": st.sampled_from(["Pipeline", "Target", "x"])},
        optional=dict.fromkeys(("metadata", "source", "routes", "tables", "template", "variables", "errors"), VALUES),
    ).map(yaml.safe_dump),
)


@given(text=FILES)
@settings(max_examples=120, deadline=None)
def test_no_text_of_a_file_raises(text: str) -> None:
    """Whatever is sent as a pipeline file, it is judged."""
    assert all(finding.message for finding in _of_file({"file": text}))


@given(
    given_settings=st.dictionaries(
        st.one_of(
            st.sampled_from(["topics", "topics.regex", "iceberg.tables", "iceberg.tables.route-field", "transforms", "name",
                             "transforms.a.type", "iceberg.catalog.type", "value.converter", "iceberg.tables.auto-create-enabled",
                             "iceberg.tables.default-partition-by", "iceberg.control.commit.interval-ms"]),
            st.text(max_size=12),
        ),
        st.one_of(st.sampled_from(["true", "a,b", "a", "days(ts)", "org.apache.kafka.connect.json.JsonConverter", "1"]),
                  st.text(max_size=12)),
    )
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_settings_of_a_sink_raise(given_settings: dict[str, str]) -> None:
    """Whatever is sent as a configuration of a sink, it is judged; also a setting whose name is empty."""
    found = _of_sink({**given_settings, "connector.class": SINKS[0]})
    assert all(finding.message and (finding.key or "" in given_settings) for finding in found)


def test_a_right_file_has_no_finding_and_a_wrong_one_its_line() -> None:
    """`config/validate` of `floe` says what `floe validate` says, with code and line."""
    imported = import_connector("orders", {"topics": "orders", "iceberg.tables": "shop.orders", **JSON})
    right = pipeline_text(imported)
    assert [each for each in _of_file({"file": right}) if each.is_error] == []
    wrong = right.replace("kind: Pipeline", "kind: Pipelin")
    line = wrong.splitlines().index("kind: Pipelin") + 1
    [found, *_] = [each for each in _of_file({"file": wrong}) if each.is_error]
    assert f"line {line}: " in found.message
    assert found.message.startswith("[FLOE-C204]")
    assert [each.key for each in _of_file({"fil": right}) if each.is_error] == ["fil", "file"]


def test_a_sinks_settings_are_judged_one_by_one() -> None:
    """`config/validate` of a sink names the setting that a pipeline file cannot say."""
    right = {"name": "orders", "connector.class": SINKS[0], "topics": "orders", "iceberg.tables": "shop.orders", **JSON}
    assert [each for each in _of_sink(right) if each.is_error] == []
    assert "iceberg.nothing" in [each.key for each in _of_sink({**right, "iceberg.nothing": "1"}) if each.is_error]


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "schemas/a.json"])
def test_a_configuration_reads_no_file_and_no_variable(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent cannot name a file of this machine, or a variable of its environment: neither is read."""
    monkeypatch.setenv("FLOE_CANARY", "canary-of-this-test")
    opened: list[str] = []
    monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: opened.append(str(self)) or "canary-of-this-test")
    monkeypatch.setattr(Path, "read_bytes", lambda self, *a, **k: opened.append(str(self)) or b"canary-of-this-test")
    text = (
        "apiVersion: floe/v1\nkind: Pipeline\nmetadata: {name: '${env:FLOE_CANARY}'}\n"
        f"template: {{use: '{path}'}}\n"
        f"source: {{kafka: {{topics: [a]}}, schema_file: '{path}', format: {{type: avro, schema_file: '{path}'}}}}\n"
    )
    reported = " ".join(each.message for each in _of_file({"file": text}))
    assert "canary-of-this-test" not in reported
    assert [each for each in opened if "passwd" in each or "a.json" in each] == []

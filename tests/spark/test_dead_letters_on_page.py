"""What a record holds leaves by the page, REST, metrics and words in the log only where the target says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from framework.adapters.kafka.control.log import ControlReader
from framework.commit.events.codec import encode
from framework.local.broker import free_port
from framework.web.operations import OPERATIONS
from tests.chaos.harness import Running, wait_for
from tests.conftest import Broker
from tests.project import Project, kill_group
from tests.recovery.test_ops_page import ACTOR, READER, ops
from tests.spark.test_monitoring import address, get, monitored, own_page

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(300)]
SECRET = "unmistakable-4711"
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      schema: {{total: {{type: long}}}}
    routes: {{rules: [{{table: shop.orders}}], unrouted: fail, allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {errors}
"""
KEPT = "{policy: dead_letter, dead_letter_table: shop.dead_letters}"
BAD = {"id": 7, "total": SECRET, "note": "fine"}


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def runs(project: Project, broker: Broker) -> Iterator[list[Running]]:
    """A run that keeps its dead letter, with metrics and a page of its own, and one that it has ended."""
    topics = [broker.new_topic(name, partitions=1) for name in ("kept", "failing")]
    for topic in topics:
        broker.produce(topic, [{"id": 1, "total": 3}, BAD])
    monitored(project, listen=f"127.0.0.1:{free_port()}", page=f"127.0.0.1:{free_port()}")
    kept = Running(project, "run", project.pipeline("kept", PIPELINE.format(topic=topics[0], errors=KEPT)))
    failing = Running(
        project, "run", project.pipeline("failing", PIPELINE.format(topic=topics[1], errors="{policy: fail}"))
    )
    try:
        failing.process.wait(120)
        failing.wait_for_output(SECRET)  # who runs it sees what is wrong
        wait_for(lambda: "shop.dead_letters" in commits(project), "the dead letter in its table", 90)
        yield [kept]
    finally:
        for each in (kept, failing):
            kill_group(each.process)


def commits(project: Project) -> set[str]:
    return {each["table"] for each in project.status()["tables"] if each["last_commit"]}


def allow(project: Project, patterns: str) -> None:
    target = project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(target.read_text() + f"allow: {{dead_letters_on_page: {patterns}}}\n")


def tokens(project: Project) -> str:
    file = project.root / "tokens"
    file.write_text(f"rita read {READER}\nann act {ACTOR}\n")
    file.chmod(0o600)
    return str(file)


def ask(url: str, path: str, token: str = "") -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.get(url + path, headers=headers, timeout=60)


def first_event(url: str, at: str, token: str) -> str:
    with requests.get(
        f"{url}/events", params={"at": at}, headers={"Authorization": f"Bearer {token}"}, stream=True, timeout=30
    ) as answer:
        return next(line for line in answer.iter_lines(decode_unicode=True) if line.startswith("data: "))


def everything(project: Project, driver: Running, url: str, token: str) -> dict[str, str]:
    """What leaves by any door that somebody with this token may use, but for the one of dead letters."""
    said = {
        "metrics": get(f"{address(driver)}/metrics")[1],
        "its own page": get(f"{own_page(driver)}/pipelines/kept")[1],
    }
    names = {"pipeline": "kept", "connector": "failing", "table": "shop.dead_letters", "plugin": "floe"}
    for operation in OPERATIONS:
        if operation.method == "GET" and operation.name != "dead_letters":
            path = operation.path.format(**{name: names[name] for name in operation.path_names})
            said[path] = ask(url, path, token).text
    for page in ("/", "/pipelines/kept", "/pipelines/failing", "/tables/shop.dead_letters"):
        said[f"page {page}"] = ask(url, page, token).text
        said[f"events of {page}"] = first_event(url, page, token)
    for verb in ("status", "log"):
        said[verb] = project.run(verb, code=None)
    said["top"] = project.run("top", "--once", "--control-topic", project.control_topic)
    reader = ControlReader({"bootstrap.servers": project.bootstrap_servers}, project.control_topic)
    try:
        reader.seek(0)
        events = [event for _, event in reader.read_until(reader.end_offset()) if event is not None]
    finally:
        reader.close()
    said["states"] = b"".join(encode(e) for e in events if type(e).__name__ != "DataWritten").decode()
    return said


@pytest.mark.slow
def test_no_record_leaves_unless_the_target_says_so_and_then_by_one_door(project: Project, runs: list[Running]) -> None:
    """Without a word in the target no page, no answer, no metric, no event and no state has a record's text, whatever the
    token, also of a run that a record ended. With it, who may act gets the named pipeline's letters with a mark at what is
    wrong; who may read does not, of other pipelines nobody does, and all else stays as it was."""
    [driver] = runs
    letters = "/v1/pipelines/kept/dead-letters"
    with ops(project.root, project.control_topic, "--listen", "127.0.0.1:0", "--tokens", tokens(project)) as url:
        for token in (READER, ACTOR):
            assert leaks(everything(project, driver, url, token)) == []
            assert ask(url, letters, token).status_code == 403
        assert "allow.dead_letters_on_page" in ask(url, letters, ACTOR).json()["message"]
        assert "show-letters" not in ask(url, "/pipelines/kept").text

    allow(project, '["kep*"]')
    with ops(project.root, project.control_topic, "--listen", "127.0.0.1:0", "--tokens", tokens(project)) as url:
        found: dict[str, Any] = ask(url, letters, ACTOR).json()
        [letter] = found["letters"]
        assert (found["table"], found["found"], letter["replayed"]) == ("shop.dead_letters", 1, False)
        line, mark = letter["lines"]
        assert json.loads(line) == BAD
        assert line[mark.index("^") : mark.rindex("^") + 1] == f'"{SECRET}"'
        assert SECRET in letter["message"] + letter["actual"]
        assert ask(url, f"{letters}?code={letter['code']}", ACTOR).json()["found"] == 1
        assert ask(url, f"{letters}?code=FLOE-D101", ACTOR).json()["letters"] == []
        refused = [
            ask(url, letters, READER), ask(url, letters), ask(url, "/v1/pipelines/failing/dead-letters", ACTOR),
        ]  # fmt: skip
        assert [each.status_code for each in refused] == [403, 401, 403]
        assert leaks({str(number): each.text for number, each in enumerate(refused)}) == []
        assert "show-letters" in ask(url, "/pipelines/kept").text
        for token in (READER, ACTOR):
            assert leaks(everything(project, driver, url, token)) == []
    with ops(project.root, project.control_topic, "--listen", "127.0.0.1:0") as url:  # whoever is on this machine
        assert ask(url, letters).status_code == 403
        assert "show-letters" not in ask(url, "/pipelines/kept").text
    assert ask(own_page(driver), letters).status_code == 403


def leaks(said: dict[str, str]) -> list[str]:
    assert all(said.values()), said
    return [name for name, text in said.items() if SECRET in text]

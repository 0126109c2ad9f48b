"""`floe plan` and `floe diff` against a real broker and a real catalog: what is found, and that nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.project.files import load_or_raise
from framework.cli.main import run_main
from framework.config.spec import LoadedPipeline
from framework.deploy import last_deployed
from framework.deploy.history import changes_since
from framework.errors import ConfigError
from framework.plan.compile import compile_plan
from framework.plan.diff.consent import check_consent
from framework.runtime import published_plans as told_plans
from framework.runtime.job import open_catalog, reported
from framework.runtime.pipeline.worker import PipelineWorker
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]

SCHEMA = Path(__file__).parents[2] / "schemas" / "plan.v1.schema.json"
PIPELINE = """
    source: {{kafka: {{connection: main, topics: [{topic}]}}, schema: {{at: timestamptz}}}}
    routes:
      rules: [{{when: {{field: type, equals: refund}}, table: shop.refunds}}, {{table: shop.orders}}]
      unrouted: fail
      allow_tables: ["shop.*"]
    tables: {{defaults: {{create: {{partition_by: ["day(at)"]}}, commit: {{interval: 5s}}}}}}
    errors: {{policy: fail}}
"""


@pytest.fixture
def project(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def floe(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str | Path) -> tuple[int, str]:
        code = run_main([*map(str, words), "--target", "it"])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def start(pipeline: LoadedPipeline) -> None:
    """What a run does before it reads: take over, tell what it runs, and announce that it is alive."""
    kafka = {key: str(value) for key, value in pipeline.target.kafka["main"].items()}
    worker = PipelineWorker(
        compile_plan(pipeline),
        kafka,
        open_catalog(pipeline.target, ["default"]),
        Path("scratch"),
        lambda text: None,
    )
    try:
        worker.prepare()
        worker.publish_plan(reported(pipeline, ""))
        worker.heartbeat()
    finally:
        worker.close()


def plans(output: str) -> list[dict[str, Any]]:
    document = json.loads(output)
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
    return document["plans"]  # type: ignore[no-any-return]


def test_plan_and_diff_through_a_pipeline_s_life(
    project: Project, broker: Broker, floe: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """First run, unchanged, changed, renamed: each is seen from what the run itself has told, and looking changes
    nothing."""
    topic = broker.new_topic("plan", partitions=2)
    broker.produce(topic, [{"id": 1}], partition=0)
    text = PIPELINE.format(topic=topic)
    file = project.pipeline("orders", text)

    code, output = floe("plan", file, "--json")
    (first,) = plans(output)
    assert (code, first["action"], first["deployed"], first["changes"], first["problems"]) == (0, "start", None, [], [])
    assert first["start"]["partitions"] == [
        {"topic": topic, "partition": 0, "start": 0, "end": 1, "by": "starting_offsets"},
        {"topic": topic, "partition": 1, "start": 0, "end": 0, "by": "starting_offsets"},
    ]
    assert [(t["table"], t["action"], t["columns"], t["partition_by"]) for t in first["tables"]] == [
        (name, "create", ["at timestamptz"], ["day(at)"]) for name in ("shop.refunds", "shop.orders")
    ]
    assert project.catalog().list_namespaces() == []
    assert KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}).topics([project.control_topic]) == {}

    (pipeline,) = load_or_raise([file], "it")
    start(pipeline)
    code, output = floe("plan", file, "--json")
    (same,) = plans(output)
    assert (code, same["action"], same["deployed"]["hash"]) == (0, "unchanged", same["hash"])
    assert [part["by"] for part in same["start"]["partitions"]] == ["group", "group"]
    assert floe("diff", file, "--exit-code")[0] == 0

    file = project.pipeline(
        "orders", text.replace("interval: 5s", "interval: 1m").replace("equals: refund", "equals: x")
    )
    code, output = floe("diff", file, "--exit-code", "--json")
    (changed,) = json.loads(output)["pipelines"]
    assert code == 1
    assert [(c["subject"], c["before"], c["after"], c["danger"]) for c in changed["changes"]] == [
        ("tables.defaults.commit.interval", "5s", "1m", "FLOE-P103"),
        ("trigger.every", "5s", "1m", ""),
        ("routes.rules", "shop.refunds when type = 'refund'", "shop.refunds when type = 'x'", ""),
    ]
    assert floe("plan", file)[0] == 2
    assert floe("plan", file, "--allow", "p103")[0] == 0
    code, output = floe("run", file)
    assert (code, "FLOE-P103" in output, "starting Spark" in output) == (2, True, False)

    renamed = project.pipeline("new-orders", text)
    code, output = floe("plan", renamed)
    assert (code, "metadata.name: orders -> new-orders" in output) == (2, True)

    # The pointer beside the safe offsets finds what was told, however much has been announced since.
    monkeypatch.setattr(told_plans, "TAIL", 0)
    (again,) = load_or_raise([file], "it")
    with pytest.raises(ConfigError, match="1m"):
        check_consent({"orders": changes_since(again, last_deployed.read_histories([again])) or ()}, ())


def test_what_would_stop_a_run_is_a_problem_of_the_plan(
    project: Project, broker: Broker, floe: Callable[..., tuple[int, str]]
) -> None:
    """A missing topic is told with the code and the exit code of the run; other pipelines of the command are still
    shown."""
    topic = broker.new_topic("there")
    files = [project.pipeline(name, PIPELINE.format(topic=t)) for name, t in (("a", f"{topic}-no"), ("b", topic))]
    code, output = floe("plan", *files, "--json")
    wrong, right = plans(output)
    assert code == 3
    assert [(p["code"], p["exit_code"]) for p in wrong["problems"]] == [("FLOE-E310", 3)]
    assert wrong["start"] is None
    assert right["problems"] == []


def test_a_saved_plan_is_compared_without_a_broker(
    project: Project, broker: Broker, floe: Callable[..., tuple[int, str]]
) -> None:
    """`--against` a saved plan needs neither broker nor catalog, and says what differs."""
    text = PIPELINE.format(topic="t")
    project.write_target("127.0.0.1:1")
    file = project.pipeline("orders", text)
    assert floe("plan", file, "--offline", "--out", "plan.json")[0] == 0
    file = project.pipeline("orders", text.replace("interval: 5s", "interval: 1s"))
    code, output = floe("plan", file, "--against", "plan.json")
    assert (code, "~ tables.defaults.commit.interval: 5s -> 1s" in output) == (0, True)
    code, output = floe("run", file, "--plan", "plan.json")
    assert (code, "FLOE-P001" in output) == (2, True)

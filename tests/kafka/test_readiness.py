"""`floe readiness` on a real broker and catalog: what it sees of a pipeline before, in, and after trouble."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from jsonschema import Draft202012Validator

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.small_topics import ensure_topic
from framework.cli.main import run_main
from framework.cli.shared.target_options import load_target_or_raise
from framework.commit.events.event_types import CoordinatorReleased
from framework.config.spec import LogArchiveSpec
from framework.ops.drill.model import Drill, DrillResult
from framework.runtime.coordinator.log_archive import LogArchive
from framework.runtime.job import open_catalog
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "schemas" / "readiness.v1.schema.json").read_text(encoding="utf-8"))
)
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
    routes: {{rules: [{{table: shop.orders}}], unrouted: fail}}
    errors: {{policy: fail}}
    owners: {{pipeline: shop, schema: data, catalog: platform, topics: platform, cut_over: shop}}
"""
Floe = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def project(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def readiness(capsys: pytest.CaptureFixture[str]) -> Floe:
    def run(*words: str | Path) -> tuple[int, dict[str, Any]]:
        code = run_main(["readiness", *map(str, words), "--target", "it", "--format", "json"])
        document = json.loads(capsys.readouterr().out)
        SCHEMA.validate(document)
        return code, document

    return run


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in document["checks"]}


def seen(document: dict[str, Any], name: str) -> Iterator[dict[str, str]]:
    (check,) = (each for each in document["checks"] if each["name"] == name)
    yield from check["seen"]


def test_before_the_first_run_what_is_not_there_is_not_checked(
    project: Project, broker: Broker, readiness: Floe, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline that never ran is a go where nothing speaks against it: exact offsets to begin at, the step for the old
    writer's, and nothing is left behind."""
    topic = broker.new_topic("ready", partitions=2)
    broker.produce(topic, [{"id": i} for i in range(10)], partition=0)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"old-{topic}"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 0)], asynchronous=False)
    consumer.close()
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    before = set(admin.list_topics(timeout=10).topics)

    code, document = readiness(file, "--old-group", f"old-{topic}")

    assert (code, document["ok"]) == (0, True), document
    found = verdicts(document)
    assert [found[name] for name in ("snapshots", "upkeep", "replay", "store-failure")] == ["not checked"] * 4
    assert (found["source-retention"], found["commit-time"]) == ("pass", "pass")
    [times] = seen(document, "commit-time")
    assert "catalog default: 20 commits took" in times["text"]
    assert {each["verdict"] for each in seen(document, "grants")} <= {"pass", "warn"}, "nothing is left unseen"
    assert [each["text"] for each in seen(document, "offsets")][2:] == [
        f"{topic}-0: old-{topic} stands at 4, this pipeline begins at 0: 4 would be read twice",
        f"{topic}-1: old-{topic} stands at 0, where this pipeline begins",
    ]
    assert any(f"floe offsets set {file} -t it {topic}:0=4 {topic}:1=0" in step for step in document["cut_over"])
    assert set(admin.list_topics(timeout=10).topics) == before
    assert project.catalog().list_namespaces() == []

    # The command is right: once it was run, both stand at the same offsets, and reading again is no question any more.
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}), project.control_topic)
    (step,) = (each for each in document["cut_over"] if ": floe offsets set " in each)
    assert run_main(shlex.split(step.split(": floe ")[1])) == 0
    capsys.readouterr()
    code, document = readiness(file, "--old-group", f"old-{topic}")
    assert code == 0
    assert [each["verdict"] for each in seen(document, "offsets")] == ["pass"] * 4, document


def test_data_that_is_about_to_be_lost_is_no_go(
    project: Project, broker: Broker, readiness: Floe, capsys: pytest.CaptureFixture[str]
) -> None:
    """Retention that takes unread records within the hour ends with 10, and names the topic's partition, the time and the
    command; so in Markdown and HTML."""
    topic = broker.new_topic("ready", config={"retention.ms": "1800000"})
    broker.produce(topic, [{"id": 1}])
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    code, document = readiness(file)
    assert (code, document["ok"]) == (10, False)
    (loss,) = seen(document, "source-retention")
    assert loss["verdict"] == "fail"
    assert loss["text"].startswith(f"{topic}-0: 1 offsets not read of [0, 1), kept 30 min")
    assert f"--topic {topic} --add-config retention.ms=" in loss["remedy"]

    assert run_main(["readiness", str(file), "--target", "it", "--report", "html=card.html"]) == 10
    assert "# shop: NO GO: " in capsys.readouterr().out.replace("\\", "")
    assert "NO GO" in (project.root / "card.html").read_text()


def test_a_record_dated_before_its_topics_retention_is_no_go(project: Project, broker: Broker, readiness: Floe) -> None:
    """The broker removes it with its segment, however short a time it has been there; the one behind it keeps the segment."""
    topic, now_ms = broker.new_topic("ready", config={"retention.ms": str(7 * DAY_MS)}), int(time.time() * 1000)
    broker.produce(topic, [{"id": 1}, {"id": 2}], timestamps_ms=[now_ms - 8 * DAY_MS, now_ms])
    _, document = readiness(project.pipeline("shop", PIPELINE.format(topic=topic)), "--no-spark")
    (loss,) = seen(document, "source-retention")
    assert (loss["verdict"], "0 s until data is lost" in loss["text"]) == ("fail", True), loss


def test_a_table_that_refuses_the_file_is_no_go(project: Project, broker: Broker, readiness: Floe) -> None:
    """What `floe plan` would refuse is a fail with its code; the other checks are answered all the same."""
    topic = broker.new_topic("ready")
    text = PIPELINE.format(topic=topic).replace(
        "metadata_columns", "schema: {id: {type: boolean}}\n      metadata_columns"
    )
    file = project.pipeline("shop", text + "    tables: {defaults: {evolve: {otherwise: fail}}}\n")
    project.catalog().create_namespace("shop")
    project.catalog().create_table("shop.orders", pa.schema([("id", pa.timestamp("us"))]))
    code, document = readiness(file)
    assert verdicts(document)["source-retention"] == "pass"
    [schema] = seen(document, "schema")
    assert "shop.orders" in schema["text"]
    assert code in (0, 10)


def test_a_duty_that_nobody_owns_is_no_go(project: Project, broker: Broker, readiness: Floe) -> None:
    """Without its owner a duty's line fails alone, with the key to write; who keeps dead letters needs one more."""
    topic = broker.new_topic("ready")
    broker.produce(topic, [{"id": 1}])
    text = PIPELINE.format(topic=topic)
    owned = ("pipeline", "schema", "catalog", "topics", "cut_over")
    for duty in owned:
        file = project.pipeline("shop", re.sub(rf"\b{duty}: \w+(, )?", "", text))
        code, document = readiness(file)
        (failed,) = (each for each in seen(document, "owners") if each["verdict"] == "fail")
        assert (code, [name for name, verdict in verdicts(document).items() if verdict == "fail"]) == (10, ["owners"])
        assert failed["text"].startswith(f"{duty}: nobody owns ")
        assert failed["remedy"].startswith(f"write `owners: {{{duty}: TEAM}}` in {file}")
        assert len(list(seen(document, "owners"))) == len(owned)
    kept = text.replace("policy: fail", "dead_letter_table: shop.dead")
    code, document = readiness(project.pipeline("shop", kept))
    assert [each["text"] for each in seen(document, "owners") if each["verdict"] == "fail"] == [
        "dead_letters: nobody owns dead letters"
    ]
    assert readiness(project.pipeline("shop", text))[0] == 0


DAY_MS = 86_400_000


def test_drills_that_are_missing_old_or_failed_are_seen(project: Project, broker: Broker, readiness: Floe) -> None:
    """Where the target asks for drills, each is a line: one that was never tried or is too old warns, one that failed is no go.
    A result of another target counts for nothing. No other line turns."""
    file = project.pipeline("shop", PIPELINE.format(topic=broker.new_topic("ready")))
    _, before = readiness(file, "--no-spark")
    assert "drills" not in verdicts(before)
    target = project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(f"{target.read_text()}drills: {{max_age: 90d}}\n")
    now_ms = int(time.time() * 1000)

    def passed(drill: Drill, days: int = 0, target: str = "it", problem: str = "") -> None:
        at_ms = now_ms - days * 86_400_000
        result = DrillResult(
            drill, target, "default", at_ms, 9.5, 2_000, ("step",), "somebody", "0", problem, "FLOE-R191"
        )
        broker.produce(f"{project.prefix}-drills", [result.to_json()])

    ensure_topic(KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}), f"{project.prefix}-drills", 1, {})
    first, *others = list(Drill)
    passed(first, target="another")
    for each in others:
        passed(each)
    _, document = readiness(file, "--no-spark")
    assert [each["verdict"] for each in seen(document, "drills")] == ["warn", *["pass"] * 5]
    [missing, *_] = seen(document, "drills")
    assert missing["text"] == f"{first.value}, catalog default: never tried"
    assert missing["remedy"] == f"floe drill {first.value} -t it"
    passed(first, days=91)
    _, document = readiness(file, "--no-spark")
    assert next(seen(document, "drills"))["text"].endswith("91 d ago, by somebody: passed, and older than 90 d")
    passed(first)
    _, document = readiness(file, "--no-spark")
    assert verdicts(document) == {**verdicts(before), "drills": "pass"}
    passed(others[-1], problem="1,000 records missing")
    code, document = readiness(file, "--no-spark")
    assert (code, verdicts(document)) == (10, {**verdicts(before), "drills": "fail"})
    assert "failed: 1,000 records missing [FLOE-R191]" in list(seen(document, "drills"))[-1]["text"]


def test_what_a_comparison_found_is_shown_while_it_is_about_the_table(
    project: Project, broker: Broker, readiness: Floe, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that was found equal passes, with its snapshot. Rows that differ, a file that is none, or one of other tables are
    no go. A comparison of some offsets alone, or of what the table does not hold any more, warns. No other line turns."""
    file = project.pipeline("shop", PIPELINE.format(topic=broker.new_topic("ready")))
    catalog = project.catalog()
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    for name in ("shop.orders", "shop.shadow"):
        catalog.create_table(name, rows.schema).append(rows)

    def compared(left: str, right: str) -> Path:
        run_main(["compare", left, right, "--target", "it", "--json"])
        path = project.root / f"{left}-{right}.json"
        path.write_text(capsys.readouterr().out)
        return path

    def line(*files: Path) -> tuple[str, str]:
        code, document = readiness(file, "--no-spark", *[word for each in files for word in ("--comparison", each)])
        assert (code == 10) is ("fail" in verdicts(document).values())
        [found, *_] = seen(document, "comparison")
        assert {**verdicts(document), "comparison": ""} == {**verdicts(before), "comparison": ""}
        return found["verdict"], found["text"]

    _, before = readiness(file, "--no-spark")
    assert "comparison" not in verdicts(before)
    first = catalog.load_table("shop.orders").current_snapshot()
    assert first is not None
    equal = compared("shop.shadow", "shop.orders")
    verdict, text = line(equal)
    assert verdict == "pass"
    assert text.startswith(
        f"shop.orders and shop.shadow were equal: 2 rows in 1 column, as of snapshot {first.snapshot_id}, "
    )
    part = project.root / "part.json"
    place = {"topic": "t", "partition": 0, "start": 0, "end": 9}
    part.write_text(json.dumps(json.loads(equal.read_text()) | {"range": place}))
    verdict, text = line(part)
    assert (verdict, text.rpartition("; ")[2]) == ("warn", "rows of other offsets were not compared")
    foreign = project.root / "foreign.json"
    foreign.write_text(equal.read_text().replace("shop.orders", "shop.others"))
    assert line(foreign) == ("fail", f"{foreign}: shop.others and shop.shadow are none of the pipeline's tables")
    endless = equal.read_text().replace(str(first.snapshot_id), "1e999")
    for wrong in (
        "",
        "{}",
        "[1]",
        '{"command": "compare", "version": 1, "equal": 1}',
        equal.read_text()[:-20],
        endless,
        "[" * 99_999,
    ):
        foreign.write_text(wrong)
        assert line(foreign) == ("fail", f"{foreign} is nothing that `floe compare --json` printed")
    catalog.load_table("shop.shadow").append(rows)
    assert line(compared("shop.orders", "shop.shadow")) == (
        "fail",
        "shop.orders and shop.shadow differ: 2 rows at least",
    )
    catalog.drop_table("shop.orders")
    catalog.create_table("shop.orders", rows.schema).append(rows)
    verdict, text = line(equal)
    assert (verdict, text) == (
        "warn",
        f"shop.orders and shop.shadow were equal, but shop.orders does not hold that snapshot, {first.snapshot_id}, any more",
    )


def keeps(broker: Broker, retention: dict[str, str], removed: int = 0) -> str:
    """A topic with 100 records of 1,000 bytes, one every quarter of an hour until now, of which so many were removed."""
    topic, now_ms = broker.new_topic("ready"), int(time.time() * 1000)
    times = [now_ms - number * 900_000 for number in reversed(range(100))]
    broker.produce(topic, [json.dumps({"id": 1}).ljust(1_000)] * 100, timestamps_ms=times)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, removed)]).values():
        future.result(30)
    alter(broker, topic, retention)
    return topic


def alter(broker: Broker, topic: str, settings: dict[str, str]) -> None:
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


@pytest.mark.parametrize(
    ("retention", "outage", "removed", "verdict", "said"),
    [
        ({"retention.ms": str(30 * DAY_MS)}, "28d", 0, "pass", "need 28 d"),
        (
            {"retention.ms": str(30 * DAY_MS)},
            "",
            0,
            "pass",
            "an outage of 1d and a commit interval of 3m need 1 d 1 h and 9",
        ),
        (
            {"retention.ms": str(30 * DAY_MS)},
            "31d",
            0,
            "fail",
            "it keeps 30 d (retention.ms) and no limit (retention.bytes)",
        ),
        ({"retention.ms": "-1", "retention.bytes": "270000"}, "2d", 0, "pass", "in the busiest partition"),
        (
            {"retention.ms": "-1", "retention.bytes": "150000"},
            "2d",
            0,
            "warn",
            "may be too little, if records are not",
        ),
        (
            {"retention.ms": "-1", "retention.bytes": "150000"},
            "2d",
            40,
            "fail",
            "146.5 KiB a partition (retention.bytes)",
        ),
    ],
)
def test_a_topic_that_keeps_less_than_an_outage_is_no_go(
    project: Project,
    broker: Broker,
    readiness: Floe,
    retention: dict[str, str],
    outage: str,
    removed: int,
    verdict: str,
    said: str,
) -> None:
    """Its line turns, and only it; with the numbers, and the command after which it passes. `floe plan` warns of the same."""
    topic = keeps(broker, retention, removed)
    text = PIPELINE.format(topic=topic)
    if outage:
        text = text.replace("metadata_columns", f"longest_outage: {outage}\n      metadata_columns")
    file = project.pipeline("shop", text)
    code, document = readiness(file)
    [line] = seen(document, "outage")
    assert (line["verdict"], said in line["text"]) == (verdict, True), line
    assert (code, [name for name, found in verdicts(document).items() if found == "fail"]) == (
        (10, ["outage"]) if verdict == "fail" else (0, [])
    )
    if verdict != "pass":
        assert re.fullmatch(
            rf"kafka-configs\.sh --bootstrap-server \S+ --alter --topic {topic} --add-config retention\.(ms|bytes)=\d+",
            line["remedy"],
        )


def test_a_record_with_a_wrong_date_says_nothing_of_a_rate(project: Project, broker: Broker, readiness: Floe) -> None:
    """Two records of 1970 at the topic's beginning and two of 2090 at its end, which brokers before 4.0 take as they are,
    would make a rate of nothing, and any limit in bytes enough."""
    config = {"retention.ms": "-1", "retention.bytes": "150000", "message.timestamp.after.max.ms": str(2**63 - 1)}
    topic, now_ms = broker.new_topic("ready", config=config), int(time.time() * 1000)
    times = [
        0,
        1,
        *(now_ms - number * 900_000 for number in reversed(range(100))),
        3_786_912_000_000,
        3_786_912_000_001,
    ]
    broker.produce(topic, [json.dumps({"id": 1}).ljust(1_000)] * len(times), timestamps_ms=times)
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    _, document = readiness(file, "--no-spark", "--outage", "2d")
    [line] = seen(document, "outage")
    assert (line["verdict"], "may be too little" in line["text"]) == ("warn", True), line


def test_lag_that_takes_what_an_outage_needs_is_a_line_of_its_own(
    project: Project, broker: Broker, readiness: Floe
) -> None:
    """The topic keeps enough, and what waits is so old that an outage would lose it: only that line turns."""
    topic = broker.new_topic("ready", config={"retention.ms": str(30 * DAY_MS)})
    broker.produce(topic, [{"id": 1}], timestamps_ms=[int(time.time() * 1000) - 28 * DAY_MS])
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    for outage, failing in (("1d", []), ("3d", ["source-retention"])):
        code, document = readiness(file, "--outage", outage)
        assert [name for name, found in verdicts(document).items() if found == "fail"] == failing
        assert code == (10 if failing else 0)


def test_an_interval_in_which_the_catalog_commits_no_table_is_no_go(
    project: Project, broker: Broker, readiness: Floe
) -> None:
    """Only that line turns, also for tables that the first run will create."""
    topic = broker.new_topic("ready")
    broker.produce(topic, [{"id": 1}])
    rules = ", ".join(f"{{when: {{field: id, equals: {number}}}, table: shop.t{number}}}" for number in range(50))
    text = PIPELINE.format(topic=topic).replace("rules: [", f"rules: [{rules}, ")
    text += "    tables: {defaults: {commit: {interval: 1ms}}}\n"
    code, document = readiness(project.pipeline("shop", text))
    assert (code, [name for name, found in verdicts(document).items() if found == "fail"]) == (10, ["commit-time"])
    [line] = seen(document, "commit-time")
    assert line["text"].endswith("this pipeline has 51, whose commits take longer than the interval")


def test_a_plan_warns_of_a_topic_that_keeps_too_little(
    project: Project, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan goes on, with the numbers and the command; where the topic keeps enough, nothing is said."""
    topic = keeps(broker, {"retention.ms": str(2 * DAY_MS)})
    for outage, warns in (("3d", True), ("1d", False)):
        text = PIPELINE.format(topic=topic).replace(
            "metadata_columns", f"longest_outage: {outage}\n      metadata_columns"
        )
        file = project.pipeline("shop", text)
        assert run_main(["plan", str(file), "-t", "it"]) == 0
        printed = capsys.readouterr().out
        assert (f"! warning: {topic}: an outage of 3d and a commit interval of 3m need 3 d" in printed) == warns, (
            printed
        )
        assert run_main(["plan", str(file), "-t", "it", "--json"]) == 0
        [plan] = json.loads(capsys.readouterr().out)["plans"]
        assert [each["remedy"].rpartition(" ")[2] for each in plan.get("warnings", [])] == (
            [f"retention.ms={7 * DAY_MS}"] if warns else []
        )


HOUR_MS = 3_600_000


def produce_hours(broker: Broker, topic: str, begin_ms: int, hours: int) -> None:
    """100 records an hour, of 10,000 bytes that nothing compresses."""
    times = [begin_ms + number * HOUR_MS // 100 for number in range(hours * 100)]
    broker.produce(topic, [os.urandom(10_000) for _ in times], timestamps_ms=times)


def begins_at(consumer: Consumer, topic: str) -> int:
    """The first offset, once the broker has removed nothing for three of its rounds."""
    seen: list[int] = []
    while len(seen) < 4 or len(set(seen[-4:])) > 1:
        time.sleep(1)
        seen.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[0])
    return seen[-1]


@pytest.mark.slow
def test_a_topic_with_the_settings_of_the_remedy_keeps_the_outage(
    project: Project, broker: Broker, readiness: Floe
) -> None:
    """A broker that removes by size: what it holds passes, longer outages fail; and with what the remedy sets, the same traffic
    leaves every record of the outage and of the interval, by the broker's own index of times."""
    settings = {"retention.bytes": "4000000", "segment.bytes": "1048576", "compression.type": "uncompressed"}
    topic, now_ms = broker.new_topic("ready", config=settings), int(time.time() * 1000)
    produce_hours(broker, topic, now_ms - 60 * HOUR_MS, 20)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"look-{topic}"})
    assert begins_at(consumer, topic) > 0
    found = {}
    for outage in ("3h", "10h"):
        file = project.pipeline("shop", PIPELINE.format(topic=topic))
        _, document = readiness(file, "--outage", outage)
        [found[outage]] = seen(document, "outage")
    assert [each["verdict"] for each in found.values()] == ["pass", "fail"], found
    wanted = re.search(r"retention\.bytes=(\d+)$", found["10h"]["remedy"])
    assert wanted is not None
    assert 2 * 10 * 1_000_000 <= int(wanted[1]) <= 3 * 10 * 1_000_000

    entry = ConfigEntry("retention.bytes", wanted[1], incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
    ).values():
        future.result(30)
    produce_hours(broker, topic, now_ms - 40 * HOUR_MS, 40)
    first = begins_at(consumer, topic)
    [at] = consumer.offsets_for_times([TopicPartition(topic, 0, now_ms - 10 * HOUR_MS - 180_000)], timeout=10)
    consumer.close()
    assert 0 < first <= at.offset
    _, document = readiness(file, "--outage", "10h")
    [line] = seen(document, "outage")
    assert line["verdict"] == "pass", line


def test_how_much_of_the_control_log_is_kept(project: Project, broker: Broker, readiness: Floe) -> None:
    """Where the target names an archive, its line passes while it keeps up, warns when it stands still, and is no go where
    retention was faster or the table is something else. No other line turns, but that of the topic's own retention."""
    file = project.pipeline("shop", PIPELINE.format(topic=broker.new_topic("ready")))
    _, before = readiness(file, "--no-spark")
    assert "log-archive" not in verdicts(before)
    target = project.root / "pipelines" / "targets" / "it.yaml"
    written = target.read_text()
    target.write_text(f"{written}log: {{archive: ops.log, interval: 1s}}\n")
    kafka, topic = {"bootstrap.servers": broker.bootstrap_servers}, project.control_topic
    ensure_control_topic(KafkaAdmin(kafka), topic)
    _, before = readiness(file, "--no-spark")
    assert verdicts(before)["log-archive"] == "pass"
    tables = open_catalog(load_target_or_raise("it"), ())
    archive = LogArchive(kafka, topic, tables, LogArchiveSpec("ops.log"), lambda text: None)

    def publish() -> int:
        publisher = ControlPublisher(kafka, topic)
        [offset] = publisher.publish([CoordinatorReleased("nobody", 1)])
        publisher.close()
        return offset

    def line() -> tuple[str, str]:
        _, document = readiness(file, "--no-spark")
        aside = {"log-archive": "", "control-retention": ""}
        assert {**verdicts(document), **aside} == {**verdicts(before), **aside}
        [found] = seen(document, "log-archive")
        return found["verdict"], found["text"]

    publish()
    archive.round()
    assert line() == ("pass", f"ops.log holds {topic} below offset 1; 0 offsets wait")
    publish()
    time.sleep(3.1)
    verdict, text = line()
    assert verdict == "warn"
    assert "1 offset waits, and nothing was archived for" in text
    end = publish() + 1
    admin = AdminClient(kafka)
    [deleted] = admin.delete_records([TopicPartition(topic, 0, end)]).values()
    deleted.result(20)
    assert line()[0] == "fail"
    archive.round()
    assert line()[0] == "pass"
    project.catalog().create_table("ops.other", pa.schema([pa.field("id", pa.int64())]))
    target.write_text(f"{written}log: {{archive: ops.other}}\n")
    verdict, text = line()
    assert verdict == "fail"
    assert "FLOE-R124" in text


def test_what_a_rebuild_would_read_is_read(project: Project, broker: Broker, readiness: Floe) -> None:
    """Topic and table that the file names are read at both ends. Their line is no go where one is not there, is empty, ends
    before the source begins or cannot be read, and warns where retention removes records; no other line turns."""
    source = keeps(broker, {"retention.ms": "-1"})
    archive = broker.new_topic("archive", partitions=2, config={"retention.ms": "-1", "retention.bytes": "10000000"})
    text = PIPELINE.format(topic=source)
    file = project.pipeline("shop", text)
    _, before = readiness(file, "--no-spark")
    assert "rebuild" not in verdicts(before)

    def lines(named: str) -> list[tuple[str, str]]:
        file = project.pipeline(
            "shop", text.replace("metadata_columns", f"rebuild_from: {named}\n      metadata_columns")
        )
        _, document = readiness(file, "--no-spark")
        assert {name: found for name, found in verdicts(document).items() if name != "rebuild"} == verdicts(before)
        return [(each["verdict"], each["text"]) for each in seen(document, "rebuild")]

    named = f"{{topic: {archive}, table: raw.orders}}"
    assert lines(named) == [
        ("fail", f"topic {archive} holds no record to rebuild from"),
        ("fail", "there is no table raw.orders to rebuild from"),
    ]
    assert lines("{topic: no-such}") == [("fail", "there is no topic no-such to rebuild from")]

    catalog = project.catalog()
    catalog.create_namespace_if_not_exists("raw")
    # All files in one manifest, as maintenance leaves them.
    merged = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = catalog.create_table("raw.orders", pa.schema([pa.field("id", pa.int64())]), properties=merged)
    assert lines("{table: raw.orders}") == [("fail", "table raw.orders holds no row to rebuild from")]

    now_ms = int(time.time() * 1000)
    broker.produce(archive, [{"id": 1}], partition=0, timestamps_ms=[now_ms - 400 * DAY_MS])
    [(verdict, said)] = lines(f"{{topic: {archive}}}")
    assert (verdict, "what lies between is in neither" in said) == ("fail", True), said
    broker.produce(archive, [{"id": 2}], partition=1, timestamps_ms=[now_ms])
    [(verdict, said)] = lines(f"{{topic: {archive}}}")
    assert (verdict, "its retention removes records" in said) == ("warn", True), said

    for number in range(3):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    assert len(table.current_snapshot().manifests(table.io)) == 1
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    alter(broker, archive, {"retention.bytes": "-1"})
    found = lines(named)
    assert [verdict for verdict, _ in found] == ["pass", "pass"], found
    assert "holds 2 records from" in found[0][1]
    assert "holds 3 rows, the last of" in found[1][1]
    for place in (min(files, key=os.path.getmtime), max(files, key=os.path.getmtime)):
        bytes_before = Path(place).read_bytes()
        Path(place).write_bytes(b"torn")
        [(verdict, said)] = lines("{table: raw.orders}")
        assert (verdict, said.startswith("a file of table raw.orders cannot be read")) == ("fail", True), said
        Path(place).write_bytes(bytes_before)

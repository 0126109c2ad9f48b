"""A verb frozen at each of its fault points: whoever looks, and however, sees what an independent count finds."""

from __future__ import annotations

import ast
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import requests

import framework
from framework.adapters.host.failpoints import HANGS
from framework.adapters.kafka.control.log import ControlPublisher
from framework.commit.events.event_types import DataWritten, Deployed
from framework.commit.recovery.missing import REPLAY
from framework.config.spec import TablePolicy, TablesSpec
from framework.config.values.maintenance import CompactionPolicy, ExpirePolicy, MaintenanceMode, MaintenancePolicy
from framework.local.broker import free_port
from framework.observe.liveness import live_members
from framework.plan.canonical import plan_value
from framework.plan.compile import compile_plan
from tests.chaos.harness import FAN_OUT, Running, wait_for
from tests.kafka.test_dead_letters import put_letters
from tests.project import FLOE, kill_group
from tests.recovery.conftest import HandRun
from tests.recovery.test_ops_page import ops
from tests.spark import views
from tests.spark.frozen_checker import Truth, truth
from tests.spark.test_monitoring import address, get, monitored, own_page

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE_S = 120.0
WHY = "INC-4711"
SOURCES = Path(framework.__file__).parent


@dataclass(frozen=True)
class Frozen:
    """A verb that hangs at a point. `prepare` brings the world there and gives the verb's words; `acts` are those that are
    told by then; `waits`: whether rows wait for a commit."""

    verb: str
    point: str
    prepare: Callable[[HandRun], tuple[str | Path, ...]]
    acts: tuple[str, ...] = ()
    waits: bool = False
    dropped: int = 0  # so many of the tables, the first ones

    @property
    def name(self) -> str:
        return f"{self.verb}: {self.point}"


def three_batches(hand: HandRun) -> None:
    for end in (10, 20, 30):
        hand.announce(end, end)
        hand.commit()


def rollback(hand: HandRun) -> tuple[str | Path, ...]:
    three_batches(hand)
    first = hand.project.catalog().load_table(hand.names[0]).snapshots()[0].snapshot_id
    return "rollback", "--table", hand.names[0], "--to", str(first), "--replay", "--why", WHY


def replay(hand: HandRun) -> tuple[str | Path, ...]:
    words = rollback(hand)
    hand.floe(*words, "--control-topic", hand.control_topic)
    return "replay", hand.file, "--table", hand.names[0]


def discard(hand: HandRun) -> tuple[str | Path, ...]:
    hand.project.catalog().drop_table(hand.names[0])
    hand.announce(30, 30)
    return "discard", "--table", hand.names[0], "--why", WHY


def offsets_set(hand: HandRun) -> tuple[str | Path, ...]:
    three_batches(hand)
    return "offsets", "set", "hand", "--from-log", "--why", WHY


def letters(hand: HandRun) -> tuple[str | Path, ...]:
    three_batches(hand)
    text = FAN_OUT.format(topic=hand.topic, interval="1s", trigger="auto", overrides="")
    kept = "errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}"
    file = hand.project.pipeline("hand", text.replace("errors: {policy: fail}", kept))
    put_letters(
        hand.project, [json.dumps({"id": 1_000 + n, "kind": "k00"}).encode() for n in range(6)], pipeline="hand"
    )
    return "dlq", "replay", file


def maintain(hand: HandRun) -> tuple[str | Path, ...]:
    three_batches(hand)
    expire = ExpirePolicy(max_snapshots=1, rollback_window_ms=1, reader_lease_ms=1)
    policy = MaintenancePolicy(MaintenanceMode.ALWAYS, CompactionPolicy(min_input_files=2), expire)
    spec = replace(hand.loaded.spec, tables=TablesSpec(TablePolicy(maintenance=policy)))
    plan = plan_value(compile_plan(replace(hand.loaded, spec=spec)))
    value = json.loads(json.dumps({"plan": plan, "settings": {}}))
    publisher = ControlPublisher(hand.kafka, hand.control_topic)
    publisher.publish((Deployed("hand", "run-1", "sha256:1", value, "1", int(time.time() * 1000)),))
    publisher.close()
    return "maintain", "*"


CASES = (
    Frozen("rollback", "manifests-written", rollback, ("rollback",)),
    Frozen("rollback", "table-recovered", rollback, ("rollback",)),
    Frozen("replay", "announced", replay, ("rollback",)),
    Frozen("discard", "recovery-decided", discard, waits=True, dropped=1),
    Frozen("discard", "recovery-told", discard, ("discard",), dropped=1),
    Frozen("offsets set", "in-transaction", offsets_set),
    Frozen("dlq replay", "files-written", letters),
    Frozen("dlq replay", "in-transaction", letters),
    Frozen("dlq replay", "announced", letters),
    Frozen("maintain", "files-rewritten", maintain),
    Frozen("maintain", "files-replaced", maintain),
    Frozen("maintain", "snapshots-expired", maintain),
    Frozen("maintain", "file-removed", maintain),
)
ON_SPARK = ("replay",)


def test_each_fault_point_of_the_verbs_is_frozen() -> None:
    """A point that the code of a verb reaches and that no case freezes is a gap in these tests."""
    files = [path for folder in ("recovery", "adapters/maintenance") for path in (SOURCES / folder).rglob("*.py")]
    reached = {
        node.args[0].value
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "failpoint"
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(reached) > 6
    assert reached - {case.point for case in CASES} == set()


@contextmanager
def coordinator(hand: HandRun) -> Iterator[Running]:
    """A coordinator with metrics and a page of its own, which coordinates. It maintains nothing by itself."""
    target = hand.project.root / "pipelines" / "targets" / "it.yaml"
    monitored(hand.project, listen=f"127.0.0.1:{free_port()}", page=f"127.0.0.1:{free_port()}")
    target.write_text(target.read_text() + "maintenance: {enabled: false}\n")
    running = Running(hand.project, "coordinator")
    try:
        running.wait_for_output("coordinates")
        yield running
    finally:
        kill_group(running.process)


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=[pytest.mark.spark] if each.verb in ON_SPARK else []) for each in CASES],
    ids=lambda each: each.name,
)  # fmt: skip
def test_all_views_agree_while_a_verb_hangs(hand: HandRun, case: Frozen) -> None:
    """Wherever a verb hangs, `floe status`, `floe top`, the page, REST and the metrics of whoever coordinates agree with each
    other and, to the record, with a count made by hand; the act is in all of them as soon as it is told, with its reason,
    and not before; ended there and run again, the verb does what it was asked for."""
    words = case.prepare(hand)
    named = () if words[0] in ("offsets", "rebase", "dlq", "replay") else ("--control-topic", hand.control_topic)
    with coordinator(hand) as coordinating:
        wait_for(lambda: waiting(hand) == (1 if case.dropped else 0), "the tables that can be committed", PATIENCE_S)
        verb = Running(hand.project, *words, *named, env={"FLOE_FAULT": f"{case.point}=hang"})
        try:
            verb.wait_for_output(f"{HANGS} {case.point}", timeout_s=PATIENCE_S)
            with ops(hand.project.root, hand.control_topic, "--listen", "127.0.0.1:0") as url:
                counted = settled(hand, case, coordinating, url)
                acts = requests.get(f"{url}/v1/overview", timeout=60).json()["acts"]
            shown = top(hand)
        finally:
            kill_group(verb.process)
    assert any(each.rows for each in counted.waits.values()) is case.waits
    assert [(each["act"], each["why"]) for each in acts] == [(act, WHY) for act in case.acts]
    assert [
        act for act in ("rollback", "discard", "offsets set") if f"  {act} " in shown or f"ago  {act}" in shown
    ] == list(case.acts)
    # To the broker a run that was killed is alive for six seconds more, and a verb refuses for as long.
    for name in {e.pipeline for e in hand.log() if isinstance(e, DataWritten) and REPLAY in e.pipeline}:
        wait_for(lambda name=name: not live_members(hand.admin, hand.project.prefix, name), f"the end of {name}")
    again = Running(hand.project, *words, *named)
    assert again.wait(PATIENCE_S) == 0, again.output


@pytest.mark.parametrize("point", ["table-recovered@2", "in-transaction"])
def test_no_view_shows_what_a_rebase_has_not_reported(hand: HandRun, point: str) -> None:
    """The control topic was lost and `floe rebase` hangs between two tables, or with its transaction open: every view shows an
    empty log, no pipeline and no table; run again it settles everything."""
    three_batches(hand)
    hand.lose_control_topic()
    with coordinator(hand) as coordinating:
        verb = Running(hand.project, "rebase", hand.file, env={"FLOE_FAULT": f"{point}=hang"})
        try:
            verb.wait_for_output(HANGS, timeout_s=PATIENCE_S)
            with ops(hand.project.root, hand.control_topic, "--listen", "127.0.0.1:0") as url:
                status = hand.project.status()
                assert (status["pipelines"], status["tables"]) == ([], [])
                for page in (url, own_page(coordinating)):
                    assert requests.get(f"{page}/v1/pipelines", timeout=60).json() == {"pipelines": []}
                    assert requests.get(f"{page}/v1/tables", timeout=60).json()["tables"] == []
                    assert requests.get(f"{page}/v1/overview", timeout=60).json()["acts"] == []
                    assert hand.names[0] not in requests.get(page, timeout=60).text
            assert views.of_coordinator(get(f"{address(coordinating)}/metrics")[1]) == {"waiting rows": 0}
            assert "shop." not in top(hand)
        finally:
            kill_group(verb.process)
    hand.floe("rebase", hand.file)
    assert hand.group() == {0: 30, 1: 30}


def waiting(hand: HandRun) -> int:
    """How many tables have rows that wait, by the log."""
    return sum(table["pending"]["rows"] > 0 for table in hand.project.status()["tables"])


def settled(hand: HandRun, case: Frozen, coordinating: Running, url: str) -> Truth:
    """The count once all views agree with it; it fails with what they say otherwise."""
    limit = time.monotonic() + PATIENCE_S
    while True:
        found, counted = seen(hand, case, coordinating, url)
        differences = views.differences(found)
        if not differences:
            assert any(name.startswith("state of") for name in found["metrics"]), found["metrics"]
            return counted
        if time.monotonic() > limit:
            raise AssertionError("\n".join(["views disagree", *differences, str(found["status"])]))
        time.sleep(1)


def seen(hand: HandRun, case: Frozen, coordinating: Running, url: str) -> tuple[dict[str, views.Figures], Truth]:
    counted = truth(
        hand.kafka["bootstrap.servers"],
        hand.project.catalog(),
        hand.project.prefix,
        hand.topic,
        hand.control_topic,
        lambda value: "written",
        hand.names[: case.dropped],
    )
    found = {
        "count": views.of_truth(counted),
        "status": views.of_status(hand.project.status(), "hand"),
        "metrics": views.of_coordinator(get(f"{address(coordinating)}/metrics")[1]),
        "top": views.of_top(top(hand), "hand"),
        "page": views.of_page(url, "hand"),
        "its own page": views.of_page(own_page(coordinating), "hand"),
        "rest": views.of_rest(url, "hand"),
    }
    return found, counted


def top(hand: HandRun) -> str:
    command = [*FLOE, "top", "--once", "--target", "it", "--control-topic", hand.control_topic]
    return subprocess.run(command, cwd=hand.project.root, capture_output=True, text=True, check=True).stdout

"""The first screen for planted faults: each names the part, since when, and what to do; the texts are golden.

In: what runs and coordinators tell of a fault, in the words of the code that tells it. Out: the first trouble's text.
"""

from __future__ import annotations

import html
import io
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from framework.cli.shared.status_text import print_status
from framework.cli.watch.top_text import screen
from framework.commit.events.event_types import (
    Accounting,
    CommitComplete,
    ControlEvent,
    Deployed,
    Health,
    StateChanged,
    Subject,
)
from framework.commit.machine.reporting.blocked_remedies import FAILING_REMEDY, blocked_remedy
from framework.commit.machine.reporting.health import STALLED_BATCH_REMEDY, STALLED_COMMIT_REMEDY
from framework.commit.risks import Held, OpenTransaction, coordinator_flaps, retention_near
from framework.diagnose.whole_commands import ReaderPlace, whole_commands
from framework.observe.status.model import ControlStatus, Status
from framework.overview.build import Built, overview
from framework.overview.fold import LogFold
from framework.overview.values import BrokerSeen, Overview, PartitionView, PipelineFactsSeen
from framework.web.page.html import PageView, parts
from tests.unit.web.backend import NOW_MS, committed, complete, written

SINCE = "since 2027-01-15 07:59:00 UTC"
# What nobody reported began after the newest batch, and not when the run began.
SINCE_BATCH = "since 2027-01-15 08:00:00 UTC"


def of_table(state: Health, reason: str, remedy: str, code: str) -> tuple[ControlEvent, ...]:
    since_ms = NOW_MS - 60_000
    report = StateChanged(Subject.TABLE, "shop.orders", state, reason, remedy, code, 3, since_ms, NOW_MS, "c")
    return (written("shop.orders", 1), complete(1), report)


def of_run(state: Health, reason: str, remedy: str, code: str) -> tuple[ControlEvent, ...]:
    since_ms = NOW_MS - 60_000
    report = StateChanged(Subject.PIPELINE, "orders", state, reason, remedy, code, 3, since_ms, NOW_MS, "run-1")
    return (written("shop.orders", 1), complete(1), report)


LOGGED = [each for each in Health if each is not Health.STALLED]  # a stall is DEGRADED in the log
TRIED = "it is tried again by itself"
POISONED = (
    "a column that the files of batch 1 of pipeline orders hold (schema 3) was dropped or changed its type; schema 4 is "
    "current"
)
NEAR = PartitionView("orders", 0, 1_500, 6_000, 4_500, log_start=1_000, waits_since_ms=NOW_MS - 60_000)
HIDING = OpenTransaction("orders", 0, 4_500, 9, NOW_MS - 20 * 60_000)
COORDINATORS = tuple(CommitComplete(f"c{n % 2}", 0, NOW_MS - 60_000 + n) for n in range(-1, 4))
DEPLOYED = Deployed("orders", "run-1", "sha256:1", {}, "0.1.0", NOW_MS, file="shop/orders.yaml")
FAULTS: dict[str, tuple[tuple[ControlEvent, ...], PipelineFactsSeen, str]] = {
    "catalog-down": (
        of_table(Health.FAILED, "the catalog does not answer: connection refused", FAILING_REMEDY, "FLOE-R136"),
        PipelineFactsSeen(("run-1",)),
        f"FAILED shop.orders table {SINCE} FLOE-R136 the catalog does not answer: connection refused Do {{failing}}",
    ),
    "store-full": (
        of_run(Health.DEGRADED, "batch failed: no space left on the store", TRIED, "FLOE-R101"),
        PipelineFactsSeen(("run-1",)),
        f"DEGRADED orders pipeline {SINCE} FLOE-R101 batch failed: no space left on the store Do {TRIED}",
    ),
    "registry-gone": (
        of_run(Health.DEGRADED, "the registry at http://registry:8081 does not answer", TRIED, "FLOE-E112"),
        PipelineFactsSeen(("run-1",)),
        f"DEGRADED orders pipeline {SINCE} FLOE-E112 the registry at http://registry:8081 does not answer Do {TRIED}",
    ),
    "poison-schema": (
        of_table(Health.BLOCKED, POISONED, blocked_remedy("shop.orders", POISONED), "FLOE-R110"),
        PipelineFactsSeen(("run-1",)),
        f"BLOCKED shop.orders table {SINCE} FLOE-R110 {POISONED} Do put it back as it was: the table goes on by itself within a "
        "minute, and nothing announced is lost. If it is gone for good, floe discard --table shop.orders --dry-run -t prod shows "
        "what giving it up would give up floe discard --table shop.orders --dry-run -t prod Copy",
    ),
    "hung-task": (
        of_run(Health.DEGRADED, "batch 12 makes no progress in writing", "`floe stop orders`", "FLOE-R150"),
        PipelineFactsSeen(("run-1",)),
        f"STALLED orders pipeline {SINCE} FLOE-R150 batch 12 makes no progress in writing Do {{batch}} "
        "floe doctor -t prod Copy",
    ),
    "hung-commit": (
        of_table(Health.DEGRADED, "the commit makes no progress", STALLED_COMMIT_REMEDY, "FLOE-R151"),
        PipelineFactsSeen(("run-1",)),
        f"STALLED shop.orders table {SINCE} FLOE-R151 the commit makes no progress Do {{stalled}}",
    ),
    "group-moved": (
        of_run(Health.RUNNING, "", "", ""),
        PipelineFactsSeen(("run-1",), foreign_offsets="orders-0: the committed offset 7 was not written by floe"),
        f"BLOCKED orders pipeline {SINCE_BATCH} FLOE-R313 orders-0: the committed offset 7 was not written by floe Do "
        "floe stop orders -t prod , then floe offsets set orders --from-log -t prod writes the announced offsets back; then "
        "floe run FILE -t prod goes on from the safe offsets floe stop orders -t prod Copy "
        "floe offsets set orders --from-log -t prod Copy floe run FILE -t prod Copy",
    ),
    "retention-near": (
        of_run(Health.RUNNING, "", "", ""),
        PipelineFactsSeen(("run-1",), (NEAR,)),
        f"DEGRADED orders pipeline {SINCE} FLOE-R152 retention is about to remove records that were not read: of the 5,000 that "
        "orders-0 still holds 90% are not announced Do keep them longer first: kafka-configs.sh --bootstrap-server BROKER "
        "--alter --topic orders --add-config retention.ms=604800000 ; then see why it is behind: floe readiness FILE -t prod "
        "says how long is left kafka-configs.sh --bootstrap-server BROKER --alter --topic orders --add-config "
        "retention.ms=604800000 "
        "Copy floe readiness FILE -t prod Copy",
    ),
    "coordinator-flapping": (
        COORDINATORS,
        PipelineFactsSeen(("run-1",)),
        f"DEGRADED control-iceberg coordinator {SINCE} FLOE-R153 who coordinates changed 4 times in 15 minutes, and each reads "
        "the log again before it commits Do floe log --last 200 -t prod shows who; end drivers that start and fail, and look "
        "whether machines lack memory or the broker is restarted; floe coordinator -t prod on a quiet machine keeps leadership "
        "floe log --last 200 -t prod Copy floe coordinator -t prod Copy",
    ),
    "hidden-records": (
        of_run(Health.RUNNING, "", "", ""),
        PipelineFactsSeen(("run-1",), transactions=(HIDING, replace(HIDING, partition=1, since_ms=NOW_MS - 1))),
        "DEGRADED orders pipeline since 2027-01-15 07:40:00 UTC FLOE-R156 a transaction is open in orders-0 and hides 9 "
        "offsets from 4,500 on Do look whether its producer still works; if not, kafka-transactions.sh --bootstrap-server "
        "BROKER abort --topic orders --partition 0 --start-offset 4500 ends it, and what is behind it is read "
        "kafka-transactions.sh --bootstrap-server BROKER abort --topic orders --partition 0 --start-offset 4500 Copy",
    ),
    "many-dead-letters": (
        (DEPLOYED, written("shop.orders", 1), replace(complete(1), accounting=Accounting(300, 270, dead_lettered=30))),
        PipelineFactsSeen(("run-1",)),
        "DEGRADED orders pipeline since 2027-01-15 08:00:00 UTC FLOE-R154 30 (10.0%) of the newest 300 records are dead letters "
        "Do floe dlq stats shop/orders.yaml -t prod says why, and which records; floe pause --reading orders -t prod holds it "
        "until file or producer is right floe dlq stats shop/orders.yaml -t prod Copy floe pause --reading orders -t prod Copy",
    ),
    "run-killed": (
        of_run(Health.RUNNING, "", "", ""),
        PipelineFactsSeen((), (PartitionView("orders", 0, 20, 25, 5),)),
        "FAILED orders pipeline since 2027-01-15 08:00:00 UTC FLOE-R138 run run-1 vanished: it was killed, or its machine "
        "is gone Do floe run FILE -t prod goes on from the safe offsets floe run FILE -t prod Copy",
    ),
    "dead-letter-flood": (
        of_run(
            Health.FAILED,
            "batch 12 has 900 dead letters in 1,000 records, and errors.max_ratio is 0.5",
            "look at the producer, and at `floe dlq stats FILE`",
            "FLOE-R322",
        ),
        PipelineFactsSeen(),
        f"FAILED orders pipeline {SINCE} FLOE-R322 batch 12 has 900 dead letters in 1,000 records, and errors.max_ratio is "
        "0.5 Do look at the producer, and at `floe dlq stats FILE -t prod`; then `floe run FILE -t prod` goes on from the "
        "safe offsets floe explain FLOE-R322 Copy",
    ),
}  # fmt: skip


def first_screen(events: tuple[ControlEvent, ...], facts: PipelineFactsSeen, owner: str | None = "c") -> str:
    return parts(look(events, facts, owner), PageView())["troubles"].html


def look(events: tuple[ControlEvent, ...], facts: PipelineFactsSeen, owner: str | None = "c") -> Overview:
    fold = LogFold()
    for offset, event in enumerate(events):
        fold.observe(offset, event, NOW_MS)
    broker = BrokerSeen(NOW_MS, owner, fold.position, 0, {"orders": facts})
    return overview(fold, broker, Built(), NOW_MS, 1, PROD)


PROD = ReaderPlace("prod", "control-iceberg")


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_screen_names_the_part_since_when_and_what_to_do(fault: str) -> None:
    """For each planted fault the first trouble says what is wrong with what, since when, why, and the remedy."""
    events, facts, expected = FAULTS[fault]
    shown = first_screen(events, facts)
    remedies = {"failing": FAILING_REMEDY, "stalled": STALLED_COMMIT_REMEDY, "batch": STALLED_BATCH_REMEDY}
    first = text_of(re.findall(r"<article.*?</article>", shown, re.DOTALL)[0])
    whole = {name: whole_commands(text, PROD) for name, text in remedies.items()}
    plain = {name: " ".join(text.replace("`", " ").split()) for name, text in whole.items()}
    assert first.startswith(expected.format(**plain)), first


@pytest.mark.parametrize("fault", ["retention-near", "coordinator-flapping"])
def test_a_risk_is_reported_by_top_and_status_as_by_the_page(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What no state shows, part, since when and command, is on all three first screens; `floe status` ends with 9."""
    events, facts, expected = FAULTS[fault]
    held = [Held(each.topic, each.partition, 1_000, 6_000, 1_500, NOW_MS - 60_000) for each in facts.partitions]
    takeovers = [event.timestamp_ms for event in events[1:] if isinstance(event, CommitComplete)]
    [breaking] = filter(None, (retention_near("orders", held), coordinator_flaps("control-iceberg", takeovers, NOW_MS)))
    breaking = replace(breaking, remedy=whole_commands(breaking.remedy, PROD))
    control = ControlStatus("control-iceberg", "id", 0, 9, 9)
    status = Status("prod", control, None, (), (), (), NOW_MS, risks=(breaking,))
    assert (status.exit_code, replace(status, risks=()).exit_code) == (9, 0)
    print_status(status)
    said = [capsys.readouterr().out]
    out = io.StringIO()
    Console(file=out, width=1_000).print(screen(look(events, facts), NOW_MS, 1_000, None))
    said.append(out.getvalue())
    for text in said:
        for part in (breaking.kind, breaking.name, breaking.reason, breaking.remedy, "for 1m 0s"):
            assert part in text
    assert text_of(breaking.reason) in expected


@pytest.mark.parametrize(
    "reason",
    [
        "it is missing: the table does not exist",
        "it was replaced: the files of batch 3 of pipeline p were written for the table with uuid a, and b is there now",
        POISONED,
        "announced files are gone from the store, s3://x/a.parquet: somebody removed them as orphans while they waited.",
        "it was rolled back: progress 7 is recorded, its branch main holds 3; `floe rollback --table a.t --to 81` with --replay",
        "its recorded progress is gone; it was 7. Set the table property floe.progress again",
        "its progress belongs to control topic A, not to B",
        "its recorded progress went back from 9 to 3: it was put back. Put the newer one back; or `floe rebase FILE` reads",
        "pipeline p: batch 4 does not follow batch 2",
        "pipeline p: batch 3: it records batch 1. The table was put back; `floe rebase FILE` reads again what it lacks",
        "batches of two pipelines change its rows at once: a and b",
        "12 commits failed, the last one with: the store is full",
        "not committed by the deadline",
        "not committed by the deadline: the store is full",
        "whatever a later version says",
    ],
)
def test_each_reason_of_a_blocked_table_has_a_command(reason: str) -> None:
    """Whoever is woken has something to type for each cause, with the table or pipeline that the reason is about."""
    reported = CommitComplete("c", 0, NOW_MS - 60_000, blocked={"a.t": reason}, position=3)
    shown = text_of(first_screen((written("a.t", 1), complete(1), reported), PipelineFactsSeen(("run-1",))))
    assert SINCE in shown
    [*commands] = re.findall(r"(floe [a-z]+(?: [^`]*?)?) -t prod Copy", shown)
    assert commands, shown
    assert "FILE" in shown or "a.t" in commands[-1] or " p " in f"{commands[-1]} " or "floe doctor" in commands[-1]


def test_a_coordinator_that_is_gone_is_reported_with_what_waits() -> None:
    """Nobody coordinates: the head says so, and each table whose announcements wait is on the first screen."""
    shown = text_of(first_screen((written("shop.orders", 1), complete(1)), PipelineFactsSeen(("run-1",)), None))
    assert "STOPPED shop.orders" in shown
    assert "nobody coordinates, and 1 announcement waits" in shown
    assert "floe coordinator -t prod" in shown


def test_a_fault_that_is_over_is_on_the_screen_no_more() -> None:
    """The screens above can be empty: the run says that all is well again."""
    events, facts, _ = FAULTS["store-full"]
    report = events[-1]
    assert isinstance(report, StateChanged)
    well = replace(report, state=Health.RUNNING, reason="", remedy="", code="")
    assert "Nothing is in trouble</h2>" in first_screen((*events, well), facts)


@given(
    st.lists(st.tuples(st.sampled_from(LOGGED), st.sampled_from(["", "FLOE-R101"])), max_size=4),
    st.lists(st.sampled_from(["idle", "waits", "fails"]), max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_no_screen_says_that_all_is_well_while_something_stands_still(
    ended: list[tuple[Health, str]], tables: list[str], is_coordinated: bool, asked: bool
) -> None:
    """Over all states of pipelines and tables: the headline says that nothing is in trouble, and no more, only where each
    pipeline runs and each table is committed; pipelines whose run vanished, failed or ended without all of its commits
    are in trouble, and what somebody stopped is counted."""
    fold, offset = LogFold(), 0
    events: list[ControlEvent] = []
    for number, (state, code) in enumerate(ended):
        since_ms = NOW_MS - 60_000
        report = StateChanged(
            Subject.PIPELINE, f"p{number}", state, "why", "", code, 0, since_ms, since_ms, f"run-{number}"
        )
        events.append(report)
    for number, state in enumerate(tables):
        table = f"shop.t{number}"
        events += [written(table, 1), complete(1)]
        if state == "idle":
            events.append(committed(table, 1))
        if state == "fails":
            failed = StateChanged(Subject.TABLE, table, Health.FAILED, "503", "", "FLOE-R136", 3, NOW_MS, NOW_MS, "c")
            events.append(failed)
    for offset, event in enumerate(events):
        fold.observe(offset, event, NOW_MS)
    live = {} if asked else {f"p{number}": PipelineFactsSeen((f"run-{number}",)) for number in range(len(ended))}
    live |= {"orders": PipelineFactsSeen(("run-1",))}
    broker = BrokerSeen(NOW_MS, "c" if is_coordinated else None, fold.position, 0, live)
    found = overview(fold, broker, Built(), NOW_MS, 1, PROD)
    [headline] = re.findall(r"<h2[^>]*>([^<]*)</h2>", parts(found, PageView())["troubles"].html)
    states = Counter(("pipeline", each.condition.state) for each in found.pipelines)
    states += Counter(("table", each.condition.state) for each in found.tables)
    rest = {key: count for key, count in states.items() if key[1] not in (Health.RUNNING, Health.IDLE)}
    assert (headline == "Nothing is in trouble") == (not rest), (headline, states)
    if headline.startswith("Nothing"):
        assert {state for _, state in rest} <= {Health.STOPPED, Health.PAUSED}
        assert all(f"{count} {kind}" in headline for (kind, _), count in rest.items())
    if asked:
        by_name = {each.pipeline: each.condition.state for each in found.pipelines}
        for number, (state, code) in enumerate(ended):
            is_asked = state is Health.STOPPED and not code
            assert by_name[f"p{number}"] is (Health.STOPPED if is_asked else Health.FAILED)

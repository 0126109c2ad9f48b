"""The first screen for planted faults: each names the part, since when, and what to do; the texts are golden.

In: what runs and coordinators tell of a fault, in the words of the code that tells it. Out: the first trouble's text.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from framework.commit.events.event_types import ControlEvent, Health, StateChanged, Subject
from framework.commit.machine.health import BLOCKED_REMEDY, FAILING_REMEDY, STALLED_COMMIT_REMEDY
from framework.overview.build import Built, overview
from framework.overview.fold import LogFold
from framework.overview.values import BrokerSeen, PartitionView, PipelineFactsSeen
from framework.web.page import Looked, parts
from tests.unit.web.desk import NOW_MS, complete, written

SINCE = "since 2027-01-15 07:59:00 UTC"


def of_table(state: Health, reason: str, remedy: str, code: str) -> tuple[ControlEvent, ...]:
    since_ms = NOW_MS - 60_000
    report = StateChanged(Subject.TABLE, "shop.orders", state, reason, remedy, code, 3, since_ms, NOW_MS, "c")
    return (written("shop.orders", 1), complete(1), report)


def of_run(state: Health, reason: str, remedy: str, code: str) -> tuple[ControlEvent, ...]:
    since_ms = NOW_MS - 60_000
    report = StateChanged(Subject.PIPELINE, "orders", state, reason, remedy, code, 3, since_ms, NOW_MS, "run-1")
    return (written("shop.orders", 1), complete(1), report)


TRIED = "it is tried again by itself"
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
        of_table(Health.BLOCKED, "column total is gone, and files that wait hold it", BLOCKED_REMEDY, "FLOE-R110"),
        PipelineFactsSeen(("run-1",)),
        f"BLOCKED shop.orders table {SINCE} FLOE-R110 column total is gone, and files that wait hold it Do {{blocked}}",
    ),
    "hung-task": (
        of_run(Health.DEGRADED, "batch 12 makes no progress in writing", "`floe stop orders`", "FLOE-R150"),
        PipelineFactsSeen(("run-1",)),
        f"STALLED orders pipeline {SINCE} FLOE-R150 batch 12 makes no progress in writing Do floe stop orders "
        "floe stop orders -t prod Copy",
    ),
    "hung-commit": (
        of_table(Health.DEGRADED, "the commit makes no progress", STALLED_COMMIT_REMEDY, "FLOE-R151"),
        PipelineFactsSeen(("run-1",)),
        f"STALLED shop.orders table {SINCE} FLOE-R151 the commit makes no progress Do {{stalled}}",
    ),
    "group-moved": (
        of_run(Health.RUNNING, "", "", ""),
        PipelineFactsSeen(("run-1",), foreign_offsets="orders-0: the committed offset 7 was not written by floe"),
        f"BLOCKED orders pipeline {SINCE} FLOE-R313 orders-0: the committed offset 7 was not written by floe Do "
        "floe offsets set orders --from-log writes the announced offsets back "
        "floe offsets set orders --from-log -t prod Copy",
    ),
    "run-killed": (
        of_run(Health.RUNNING, "", "", ""),
        PipelineFactsSeen((), (PartitionView("orders", 0, 20, 25, 5),)),
        "FAILED orders pipeline since 2027-01-15 08:00:00 UTC FLOE-R138 run run-1 vanished: it was killed, or its machine "
        "is gone Do floe run goes on from the safe offsets floe run -t prod Copy",
    ),
    "dead-letter-flood": (
        of_run(
            Health.FAILED,
            "batch 12 has 900 dead letters in 1,000 records, and errors.max_ratio is 0.5",
            "look at the producer, and at `floe dlq stats`",
            "FLOE-R322",
        ),
        PipelineFactsSeen(),
        f"FAILED orders pipeline {SINCE} FLOE-R322 batch 12 has 900 dead letters in 1,000 records, and errors.max_ratio is "
        "0.5 Do look at the producer, and at floe dlq stats floe dlq stats -t prod Copy",
    ),
}  # fmt: skip


def first_screen(events: tuple[ControlEvent, ...], facts: PipelineFactsSeen, owner: str | None = "c") -> str:
    fold = LogFold()
    for offset, event in enumerate(events):
        fold.observe(offset, event, NOW_MS)
    broker = BrokerSeen(NOW_MS, owner, fold.position, 0, {"orders": facts})
    found = overview(fold, broker, Built(), NOW_MS, 1, "prod", "control-iceberg")
    return parts(found, Looked())["troubles"].html


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_screen_names_the_part_since_when_and_what_to_do(fault: str) -> None:
    """For each planted fault the first trouble says what is wrong with what, since when, why, and the remedy."""
    events, facts, expected = FAULTS[fault]
    shown = first_screen(events, facts)
    remedies = {"failing": FAILING_REMEDY, "blocked": BLOCKED_REMEDY, "stalled": STALLED_COMMIT_REMEDY}
    first = text_of(re.findall(r"<article.*?</article>", shown, re.DOTALL)[0])
    plain = {name: " ".join(text.replace("`", " ").split()) for name, text in remedies.items()}
    assert first.startswith(expected.format(**plain)), first


def test_a_coordinator_that_is_gone_is_told_with_what_waits() -> None:
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
    assert "Nothing is in trouble" in first_screen((*events, well), facts)

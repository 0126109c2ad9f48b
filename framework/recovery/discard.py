"""Gives up what waits for a table, by one event in the control log, which every coordinator heeds.

In: a target's broker and catalog and a table's name. Out: a `DiscardPlan`, and the event. Refuses while a pipeline is
live whose announcements are given up: it would go on announcing for a table that cannot take them.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.commit.events.event_types import Acted
from framework.commit.machine.cycle import waiting_reason
from framework.commit.machine.model import TableState
from framework.commit.recovery.discard import DiscardPlan, plan_discard
from framework.config.names.table_names import identifier_of
from framework.diagnose.suggest import listed
from framework.errors import SetupError, StateDisagreement
from framework.observe.liveness import exclusive, refuse_live
from framework.observe.status.control_log import read_control_log
from framework.plan.compile import coordinator_group

DOING = "floe discard"


@dataclass(frozen=True)
class ControlPlace:
    """A control topic of a target, and the catalog whose tables its announcements are for."""

    prefix: str
    kafka: dict[str, str]
    control_topic: str
    catalog: IcebergTables


def decide_discard(at: ControlPlace, table: str) -> DiscardPlan:
    """Look, and change nothing.

    Raises:
        SetupError: broker or catalog cannot be reached, or the table's catalog is not named. StateDisagreement: as
            `plan_discard`.
    """
    group = coordinator_group(at.prefix, at.control_topic)
    log = read_control_log(KafkaAdmin(at.kafka), at.kafka, at.control_topic, group, at.catalog)
    if log.state.stopped is not None:
        stop = log.state.stopped
        raise StateDisagreement(stop.message, code=stop.code, place=at.control_topic, remedy=stop.remedy)
    state = log.state.table_named(table)
    namesakes = [name for name in log.state.tables if identifier_of(name) == identifier_of(table)]
    if state is None and namesakes:
        raise SetupError(
            f"nothing is announced for table {table}, only for {listed(namesakes, 'and')} in another catalog",
            code="FLOE-E313",
            place=table,
            remedy=f"name the table with its catalog: --table {namesakes[0]}",
        )
    if state is None:
        return plan_discard(table, None, None, None)
    view = at.catalog.load_view(state.table, state.branch, log.facts.topic_id)
    gone = _gone(at.catalog, state) if view is not None else frozenset()
    return plan_discard(table, state, view, waiting_reason(log.state, state), gone)


def _gone(catalog: IcebergTables, state: TableState) -> frozenset[str]:
    """The files that are gone, of the first announcements that lack some and follow one another."""
    found: set[str] = set()
    for announcement in state.pending:
        missing = catalog.missing_files(state.table, list(announcement.event.paths))
        if found and not missing:
            break
        found.update(missing)
    return frozenset(found)


def refuse_live_pipelines(at: ControlPlace, plan: DiscardPlan) -> None:
    """Raises SetupError where a run is live whose announcements would be given up."""
    admin = KafkaAdmin(at.kafka)
    for pipeline in sorted(plan.rows):
        refuse_live(admin, at.prefix, pipeline, DOING)


def perform_discard(at: ControlPlace, expected: DiscardPlan, by: str = "", why: str = "") -> None:
    """Publish the event behind who gives up and why, if it is still what was shown. Publishing it twice changes nothing.

    Raises:
        SetupError: a pipeline is live. StateDisagreement: something has changed since it was looked at.
        FloeError: the broker did not take the event.
    """
    with ExitStack() as stack:
        for pipeline in sorted(expected.rows):
            stack.enter_context(exclusive(at.kafka, at.prefix, pipeline, at.control_topic, DOING))
        if decide_discard(at, expected.table) != expected:
            raise StateDisagreement(
                f"what waits for table {expected.table} has changed in the meantime; nothing was given up",
                code="FLOE-R346",
                place=expected.table,
                remedy="run the command again",
            )
        failpoint("recovery-decided")
        publisher = ControlPublisher(at.kafka, at.control_topic)
        try:
            now_ms = int(time.time() * 1000)
            detail = f"announcements {expected.first} to {expected.below - 1}"
            publisher.publish((Acted("discard", expected.table, by, why, now_ms, detail), expected.event(now_ms)))
            failpoint("recovery-told")
        finally:
            publisher.close()

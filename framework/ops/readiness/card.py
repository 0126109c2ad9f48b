"""Puts the scorecard together: every check in its order, then the plans with offsets as they are at the end.

In: a loaded pipeline and what the person asked for. Out: a Scorecard. One check's trouble hides no other's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from framework import __version__
from framework.config.spec import LoadedPipeline
from framework.errors import FloeError
from framework.ops.readiness import checks, retention
from framework.ops.readiness.commit_times import commits
from framework.ops.readiness.comparisons import comparisons
from framework.ops.readiness.drills import drills
from framework.ops.readiness.model import Check, Evidence, Scorecard, look
from framework.ops.readiness.replay import replayed
from framework.ops.readiness.review import Review
from framework.plan.model import Plan
from framework.record.process import Sql


@dataclass(frozen=True)
class CardOptions:
    """`replay_offsets`: how many are read again. `sql`: what runs the pipeline's SQL, None where Spark is not wanted.
    `outage_ms`: how long everything may stand still without loss, in place of what the file says. `comparisons`: what
    `floe compare` printed, by the name of its file."""

    old_group: str | None
    replay_offsets: int
    sql: Sql | None
    outage_ms: int | None
    comparisons: tuple[tuple[str, str], ...] = ()


def scorecard(pipeline: LoadedPipeline, plan: Plan, asked: CardOptions, say: Callable[[str], None]) -> Scorecard:
    """Ask everything; `say` is called with each check before it begins.

    Raises:
        SetupError: the catalog does not answer at all.
    """
    at_ms = int(time.time() * 1000)
    review = Review.of(pipeline, plan)
    outage_ms = pipeline.spec.source.outage_ms if asked.outage_ms is None else asked.outage_ms
    questions: tuple[tuple[str, str, Callable[[], Iterable[Evidence]]], ...] = (
        ("plan", "Is the file valid, and would a run be let go on?", partial(checks.plans, review)),
        ("owners", "Is there somebody to ask for each duty?", partial(checks.owners, review)),
        ("objectives", "Is what readers are promised kept?", partial(checks.objectives, review)),
        ("schema", "Do the tables take what the file declares?", partial(checks.schemas, review)),
        ("grants", "Do broker, catalog and store let it do what it must?", partial(checks.grants, review)),
        ("commit-time", "Does the catalog commit all tables within the interval?", partial(commits, review)),
        (
            "source-retention",
            "How long until an unread record is lost?",
            partial(retention.source_retention, review, outage_ms),
        ),
        (
            "outage",
            "Do topics keep what comes in the longest outage?",
            partial(retention.kept_topics, review, outage_ms),
        ),
        (
            "control-retention",
            "How long until an announcement is lost?",
            partial(retention.control_retention, review, outage_ms),
        ),
        ("snapshots", "Is there a snapshot to go back to?", partial(checks.snapshots, review)),
        ("upkeep", "Does upkeep leave alone what waits to be committed?", partial(checks.upkeep, review)),
        (
            "replay",
            "Do the records give the rows that are there?",
            partial(replayed, review, asked.replay_offsets, asked.sql),
        ),
        ("store-failure", "Was a failure of the store seen, and got over?", partial(checks.store_failures, review)),
        (
            "offsets",
            "Where does it begin, and where does the writer before it stand?",
            partial(checks.positions, review, asked.old_group),
        ),
    )
    if pipeline.target.log_archive.table:
        asks = "Is the control log kept before retention takes it?"
        questions = (*questions, ("log-archive", asks, partial(retention.archived_log, review)))
    if pipeline.spec.source.rebuild_topic or pipeline.spec.source.rebuild_table:
        asks = "Is all there that the tables would be made again from?"
        questions = (*questions, ("rebuild", asks, partial(retention.rebuild_paths, review)))
    max_age_ms = pipeline.target.drills_max_age_ms
    if max_age_ms is not None:
        asks = "Were the faults tried that it must survive?"
        questions = (*questions, ("drills", asks, partial(drills, review, max_age_ms)))
    if asked.comparisons:
        asks = "Do the tables hold what the other writer's hold?"
        questions = (*questions, ("comparison", asks, partial(comparisons, review, asked.comparisons)))
    found: list[Check] = []
    for name, question, find in questions:
        say(name)
        found.append(look(name, question, find))
    return Scorecard(
        plan.pipeline,
        pipeline.target.name,
        pipeline.file,
        __version__,
        at_ms,
        tuple(found),
        _steps(partial(checks.cut_over, review, asked.old_group)),
        _steps(partial(checks.way_back, review)),
    )


def _steps(plan: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """None where they cannot be said; the check that could not find it out says why."""
    try:
        return plan()
    except FloeError:
        return ()

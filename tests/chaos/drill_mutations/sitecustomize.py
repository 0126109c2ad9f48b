"""Takes one protection out of floe in the steps of a drill, by the variable FLOE_DRILL_MUTATION, in every Python process that has
this folder in PYTHONPATH.

In: the name of a drill. Out: the code without what that drill tries. A step that a fault kills is as it is everywhere: the fault
has to come.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any


def crash_before_announcement() -> None:
    """What was read counts as read, announced or not: who begins anew begins at the ends of the topic."""
    from framework.commit import offsets
    from framework.runtime.pipeline import begin

    decide = offsets.decide_start

    def at_the_end(pipeline: Any, group: Any, facts: Any, *more: Any) -> Any:
        ends = {key: fact.log_end for key, fact in facts.items()}
        return replace(decide(pipeline, group, facts, *more), positions=ends)

    begin.decide_start = at_the_end  # type: ignore[assignment]


def crash_before_commit() -> None:
    """Invariant 6: a coordinator that knows no position begins at the end of the log."""
    from framework.commit.machine import step

    step.start_offset = lambda assigned: assigned.log_end or 0
    from framework.adapters.kafka.control import leadership

    if hasattr(leadership, "start_offset"):
        leadership.start_offset = step.start_offset


def catalog_outage() -> None:
    """Invariant 10: a coordinator does not outlive an error of a catalog."""
    from framework.adapters.iceberg.tables import IcebergTables
    from framework.errors import FloeError

    load = IcebergTables.load_view

    def or_end(self: Any, *arguments: Any) -> Any:
        try:
            return load(self, *arguments)
        except FloeError:
            os._exit(1)

    IcebergTables.load_view = or_end  # type: ignore[method-assign]


def lost_coordinator() -> None:
    """Invariant 5: nobody looks at what a table records of the announcements that it has."""
    from framework.adapters.iceberg import views
    from framework.adapters.iceberg.commits import conditions

    views.parse = lambda text, control_topic_id: None
    conditions.parse = lambda text, control_topic_id: None


def rollback_and_replay() -> None:
    """A table that is rolled back does not list what it has lost."""
    from framework.recovery import rollback

    rollback.lacking_after = lambda noted, *more: noted


def lost_offsets() -> None:
    """Whoever finds no offsets does not ask the log: a pipeline with announcements begins anew, as far as others let it."""
    from framework.commit import offsets
    from framework.runtime.pipeline import begin

    decide = offsets.decide_start

    def anew(pipeline: Any, group: Any, facts: Any, chain: Any, *more: Any) -> Any:
        return decide(pipeline, group, facts, chain if group else None, *more)

    begin.decide_start = anew  # type: ignore[assignment]


mutation = os.environ.get("FLOE_DRILL_MUTATION")
if mutation and "framework.ops.drill.child" in sys.orig_argv and not os.environ.get("FLOE_FAULT"):
    globals()[mutation.replace("-", "_")]()

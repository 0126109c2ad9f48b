"""What was deployed last, as values, and what differs from it.

In: what runs have published, or a saved plan. Out: a History, and the changes since. Reads nothing itself:
`framework.deploy.last_deployed` does that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from framework.commit.events.event_types import Deployed
from framework.config.spec import LoadedPipeline
from framework.plan.canonical import canonical, hash_of
from framework.plan.deploy.saved import SavedPlan
from framework.plan.diff.diff import PlanChange, changes_of_new, diff

# What the log holds may be of another version of floe, or of anybody.
_OF_ANOTHER_FORM = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class DeploymentHistory:
    """`newest` is what each pipeline published last, where that is still known; `has_run` names those that have
    positions."""

    newest: Mapping[str, Deployed] = field(default_factory=dict)
    has_run: frozenset[str] = frozenset()

    def of(self, pipeline: str) -> Deployed | None:
        return self.newest.get(pipeline)


def history_of(saved: SavedPlan) -> DeploymentHistory:
    """A saved plan as if it were what was deployed; a bare hash says nothing."""
    newest = {}
    for value in saved.pipelines or ():
        name = value["plan"]["pipeline"]  # type: ignore[index]
        newest[name] = Deployed(name, "", hash_of([value]), value, "", 0)
    return DeploymentHistory(newest, frozenset(newest))


def changes_since(
    pipeline: LoadedPipeline, history: DeploymentHistory, held: Collection[str] = ()
) -> tuple[PlanChange, ...] | None:
    """What differs from what was deployed; None where that is not known, or was published in a form that this version does not
    know. A pipeline that never ran may be a renamed one.

    Args:
        held: the names of the pipelines that the files hold.
    """
    name = pipeline.spec.name
    reported = history.of(name)
    if reported is not None and reported.plan:
        try:
            return diff(reported.plan, canonical(pipeline), name in history.has_run)
        except _OF_ANOTHER_FORM:
            return None
    if name in history.has_run or reported is not None:
        return None
    now, others = canonical(pipeline), []
    for other in history.newest.values():
        with suppress(*_OF_ANOTHER_FORM):
            changes_of_new(now, [other.plan], held)
            others.append(other.plan)
    return changes_of_new(now, others, held)

"""Previews of the files alone, compared with what was deployed where that is known: no broker and no catalog is asked.

In: loaded pipelines and a History. Out: a PipelinePreview each. Imports no engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.commit.events.event_types import Deployed
from framework.config.spec import LoadedPipeline
from framework.deploy.history import DeploymentHistory, changes_since
from framework.ops.preview.model import (
    Action,
    DeployedPreview,
    PipelinePreview,
    PlanWarning,
    Problem,
    StartPreview,
    TablePreview,
)
from framework.plan.canonical import plan_hash
from framework.plan.compile import compile_plan


def preview_offline(pipelines: Sequence[LoadedPipeline], history: DeploymentHistory) -> list[PipelinePreview]:
    """The same without broker and catalog: only what differs from what was deployed."""
    held = names(pipelines)
    return [described(pipeline, history, held) for pipeline in pipelines]


def names(pipelines: Sequence[LoadedPipeline]) -> frozenset[str]:
    return frozenset(pipeline.spec.name for pipeline in pipelines)


def described(
    pipeline: LoadedPipeline,
    history: DeploymentHistory,
    held: frozenset[str],
    start: StartPreview | None = None,
    tables: tuple[TablePreview, ...] | None = None,
    problems: tuple[Problem, ...] = (),
    warnings: tuple[PlanWarning, ...] = (),
) -> PipelinePreview:
    reported, now = history.of(pipeline.spec.name), plan_hash([pipeline])
    known = reported is not None or pipeline.spec.name in history.has_run
    action = Action.START if not known else Action.UNCHANGED if reported and reported.hash == now else Action.RESTART
    changes = changes_since(pipeline, history, held)
    deployed = _deployed(reported)
    return PipelinePreview(
        compile_plan(pipeline), now, action, deployed, changes, start, tables, problems, pipeline.template, warnings
    )


def _deployed(reported: Deployed | None) -> DeployedPreview | None:
    if reported is None:
        return None
    return DeployedPreview(reported.hash, reported.run, reported.floe, reported.timestamp_ms, reported.deployment)

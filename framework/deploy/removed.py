"""Finds the deployed pipelines that a folder's files no longer hold.

In: the pipelines of a folder, and what was deployed. Out: RemovedPipelines. What this machine deployed is known from its
own records; what another one deployed under the folder's name, from what its live runs have told.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.secrets import resolve
from framework.config.spec import LoadedPipeline
from framework.deploy.applications import Applications
from framework.deploy.last_deployed import History
from framework.plan.compile import compile_plan
from framework.plan.removed import RemovedPipeline, removed_pipelines
from framework.runtime.liveness import live_members


def removed_from(
    folders: Sequence[Path], pipelines: Sequence[LoadedPipeline], history: History, is_offline: bool
) -> tuple[RemovedPipeline, ...]:
    """The pipelines of the folders' deployments that no file holds.

    Args:
        folders: those that were named; without one nothing is known to be missing.
        is_offline: only what this machine deployed is looked at.

    Raises:
        SetupError: the broker does not answer.
    """
    if not folders:
        return ()
    names = {folder.absolute().name for folder in folders}
    held = {pipeline.spec.name for pipeline in pipelines}
    target = pipelines[0].target
    deployed: dict[str, tuple[str, str]] = {}
    for application in Applications(Path(target.state_dir), target.name).all():
        if application.record.deployment in names:
            told = application.record
            deployed |= dict.fromkeys(told.pipelines, (told.hash, told.deployment))
    others = {
        name: (told.hash, told.deployment)
        for name, told in history.newest.items()
        if not is_offline and told.deployment in names and name not in held and name not in deployed
    }
    connections = {compile_plan(pipeline).read.connection for pipeline in pipelines} if others else set()
    for connection in sorted(connections):
        admin = KafkaAdmin(resolve(target.kafka[connection]))
        # A run that has ended told the same; only one that is there now would be stopped.
        deployed |= {name: told for name, told in others.items() if live_members(admin, target.prefix, name)}
    return removed_pipelines(deployed, held)


def removed_since(
    folders: Sequence[Path], pipelines: Sequence[LoadedPipeline], saved: History
) -> tuple[RemovedPipeline, ...]:
    """The pipelines of a saved plan that no file holds; nothing where only files were named."""
    held = {pipeline.spec.name for pipeline in pipelines}
    deployed = {name: (told.hash, told.deployment) for name, told in saved.newest.items()}
    return removed_pipelines(deployed, held) if folders else ()

"""Finds the deployed pipelines that a folder's files no longer hold, without asking a broker.

In: the pipelines of a folder, this machine's records of what it deployed, or a saved plan. Out: RemovedPipelines. Where
only files were named, nothing is known to be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.config.spec import LoadedPipeline
from framework.deploy.applications import Applications
from framework.deploy.history import DeploymentHistory
from framework.plan.deploy.removed import RemovedPipeline, removed_pipelines


def removed_here(folders: Sequence[Path], pipelines: Sequence[LoadedPipeline]) -> tuple[RemovedPipeline, ...]:
    """The pipelines that this machine deployed from the folders and that no file holds."""
    return removed_pipelines(deployed_here(folders, pipelines), names(pipelines))


def deployed_here(folders: Sequence[Path], pipelines: Sequence[LoadedPipeline]) -> dict[str, tuple[str, str]]:
    """Hash and deployment of what this machine deployed from the folders, by the pipeline's name."""
    if not folders:
        return {}
    target, deployments = pipelines[0].target, deployments_of(folders)
    records = [application.record for application in Applications(Path(target.state_dir), target.name).all()]
    return {
        pipeline: (record.hash, record.deployment)
        for record in records
        if record.deployment in deployments
        for pipeline in record.pipelines
    }


def removed_since(
    folders: Sequence[Path], pipelines: Sequence[LoadedPipeline], saved: DeploymentHistory
) -> tuple[RemovedPipeline, ...]:
    """The pipelines of a saved plan that no file holds."""
    deployed = {name: (reported.hash, reported.deployment) for name, reported in saved.newest.items()}
    return removed_pipelines(deployed, names(pipelines)) if folders else ()


def deployments_of(folders: Sequence[Path]) -> frozenset[str]:
    """The names that `floe deploy` gives to deployments of the folders."""
    return frozenset(folder.absolute().name for folder in folders)


def names(pipelines: Sequence[LoadedPipeline]) -> frozenset[str]:
    return frozenset(pipeline.spec.name for pipeline in pipelines)

"""Finds the deployed pipelines that a folder's files no longer hold, on whatever machine they run.

In: the pipelines of a folder, and what runs have published. Out: RemovedPipelines: those that this machine deployed, and
those whose live runs were deployed elsewhere under the folder's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.secrets import resolve
from framework.config.spec import LoadedPipeline
from framework.deploy.history import DeploymentHistory
from framework.deploy.removed import deployed_here, deployments_of, names
from framework.observe.liveness import live_members
from framework.plan.deploy.removed import RemovedPipeline, removed_pipelines


def removed_from(
    folders: Sequence[Path], pipelines: Sequence[LoadedPipeline], history: DeploymentHistory
) -> tuple[RemovedPipeline, ...]:
    """The pipelines of the folders' deployments that no file holds.

    Raises:
        SetupError: the broker does not answer.
    """
    held, deployments = names(pipelines), deployments_of(folders)
    deployed = deployed_here(folders, pipelines)
    others = {
        name: (reported.hash, reported.deployment)
        for name, reported in history.newest.items()
        if reported.deployment in deployments and name not in held and name not in deployed
    }
    target = pipelines[0].target
    connections = {pipeline.spec.source.kafka.connection for pipeline in pipelines} if others else set()
    for connection in sorted(connections):
        admin = KafkaAdmin(resolve(target.kafka[connection]))
        # A run that has ended published the same; only one that is there now would be stopped.
        deployed |= {name: reported for name, reported in others.items() if live_members(admin, target.prefix, name)}
    return removed_pipelines(deployed, held)

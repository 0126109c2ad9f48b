"""Deployed pipelines that no file of the folder holds any longer: a deleted file, or a renamed pipeline.

In: what was deployed, by name, and the pipelines that the files hold. Out: RemovedPipelines, in order. `floe deploy`
stops them, which a person must allow (FLOE-P108); their tables and positions stay. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

REMOVED = "FLOE-P108"
WHY = "no file of the folder holds it any longer; `floe deploy` stops it, and its tables and its position stay"


@dataclass(frozen=True)
class RemovedPipeline:
    """`hash` is of its newest known plan, "" where none is known; `deployment` is the one that holds it, "" for a saved
    plan."""

    pipeline: str
    hash: str
    deployment: str

    def to_json(self) -> dict[str, object]:
        return {
            "pipeline": self.pipeline,
            "hash": self.hash,
            "deployment": self.deployment,
            "danger": REMOVED,
            "why": WHY,
        }


def removed_pipelines(deployed: Mapping[str, tuple[str, str]], held: Collection[str]) -> tuple[RemovedPipeline, ...]:
    """What is deployed and not held.

    Args:
        deployed: hash and deployment by the pipeline's name.
        held: the names of the pipelines in the files.
    """
    return tuple(RemovedPipeline(name, *deployed[name]) for name in sorted(deployed) if name not in held)


def needs_consent(removed: Collection[RemovedPipeline], allowed: Collection[str]) -> bool:
    """Whether something is removed and nobody has allowed it."""
    return bool(removed) and REMOVED not in allowed

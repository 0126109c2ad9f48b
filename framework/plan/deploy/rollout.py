"""What a rollout of a folder does: which applications are started, restarted, left alone or stopped.

In: the applications that the files make, and those that run now. Out: RolloutSteps in the order in which they are done:
what ends comes before what starts. A second rollout of the same files is made of `keep` alone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from framework.errors import ConfigError

_HASH_SHOWN = len("sha256:") + 12


class RolloutAction(str, Enum):
    START = "start"
    RESTART = "restart"
    KEEP = "keep"
    STOP = "stop"


@dataclass(frozen=True)
class Wanted:
    """An application that the files make. `fingerprint` covers what `hash` does not: floe's code and its packages."""

    name: str
    pipelines: tuple[str, ...]
    hash: str
    fingerprint: str


@dataclass(frozen=True)
class Present:
    """An application that was deployed. `ended` says how, where it does not run any more; "" while it runs."""

    name: str
    pipelines: tuple[str, ...]
    hash: str
    fingerprint: str
    ended: str = ""


@dataclass(frozen=True)
class RolloutStep:
    """`needs_consent`: pipelines would stop that no file holds any more."""

    action: RolloutAction
    application: str
    pipelines: tuple[str, ...]
    why: str
    needs_consent: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "action": self.action.value,
            "application": self.application,
            "pipelines": list(self.pipelines),
            "why": self.why,
        }


def plan_rollout(wanted: Sequence[Wanted], present: Iterable[Present]) -> tuple[RolloutStep, ...]:
    """The steps from what runs to what is wanted."""
    known = {application.name: application for application in present}
    kept = {pipeline for application in wanted for pipeline in application.pipelines}
    steps = [
        RolloutStep(
            RolloutAction.STOP, gone.name, gone.pipelines, _why_gone(gone, kept), not kept >= set(gone.pipelines)
        )
        for name, gone in sorted(known.items())
        if name not in {application.name for application in wanted}
    ]
    for application in wanted:
        action, why = _step(application, known.get(application.name))
        steps.append(RolloutStep(action, application.name, application.pipelines, why))
    return tuple(steps)


def _step(wanted: Wanted, present: Present | None) -> tuple[RolloutAction, str]:
    if present is None:
        return RolloutAction.START, "it is new"
    if present.ended:
        return RolloutAction.START, present.ended
    if present.hash != wanted.hash:
        return RolloutAction.RESTART, f"its plan is {wanted.hash[:_HASH_SHOWN]}, but {present.hash[:_HASH_SHOWN]} runs"
    if present.fingerprint != wanted.fingerprint:
        return RolloutAction.RESTART, "floe or its packages have changed since it was started"
    return RolloutAction.KEEP, f"{present.hash[:_HASH_SHOWN]} runs"


def _why_gone(gone: Present, kept: set[str]) -> str:
    return (
        "its pipelines now run in other applications" if kept >= set(gone.pipelines) else "no file holds it any longer"
    )


def check_removals(steps: Iterable[RolloutStep], allowed: bool) -> None:
    """Raises ConfigError when pipelines would stop and nobody has allowed that."""
    missing = [step.application for step in steps if step.needs_consent]
    if missing and not allowed:
        raise ConfigError(
            f"{', '.join(missing)} was deployed, but no file holds it any longer",
            code="FLOE-P108",
            place=missing[0],
            remedy="to stop it, add --allow-remove (or --allow FLOE-P108); its tables and its position stay",
        )


def summary(steps: Iterable[RolloutStep]) -> str:
    """`1 started, 1 restarted, 2 unchanged, 0 stopped`."""
    counts = dict.fromkeys(RolloutAction, 0)
    for step in steps:
        counts[step.action] += 1
    return (
        f"{counts[RolloutAction.START]} started, {counts[RolloutAction.RESTART]} restarted, "
        f"{counts[RolloutAction.KEEP]} unchanged, {counts[RolloutAction.STOP]} stopped"
    )

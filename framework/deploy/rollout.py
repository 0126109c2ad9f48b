"""Does the steps of a rollout on this machine, and waits until what was started runs.

In: RolloutSteps, the staged applications, and a folder of records. Out: what became of each application that was
started. Everything ends before anything starts, so that no run is fenced by the one that follows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from framework.config.spec import LoadedPipeline
from framework.deploy.applications import Applications, DeployedApplication, last_lines
from framework.deploy.history import DeploymentHistory
from framework.deploy.last_deployed import read_histories
from framework.deploy.launch import Application
from framework.errors import FloeError
from framework.plan.canonical import plan_hash
from framework.plan.deploy.rollout import RolloutAction, RolloutStep, Wanted

POLL_S = 1.0
LOG_LINES = 5
Say = Callable[[str], None]


@dataclass(frozen=True)
class Ready:
    """An application that the files make, staged, with its pipelines."""

    wanted: Wanted
    application: Application
    pipelines: tuple[LoadedPipeline, ...]


def perform(
    steps: Sequence[RolloutStep],
    ready: Mapping[str, Ready],
    applications: Applications,
    deployment: str,
    most_restarts: int,
    drain_s: float,
    say: Say,
) -> list[DeployedApplication]:
    """Stop, then start; returns what was started."""
    present = {each.record.name: each for each in applications.all(deployment)}
    ending = [present[s.application] for s in steps if s.action in (RolloutAction.STOP, RolloutAction.RESTART)]
    # One that ended may have left its driver behind.
    ending += [present[s.application] for s in steps if s.action is RolloutAction.START and s.application in present]
    stop_all(ending, applications, drain_s, say)
    for step in steps:
        if step.action is RolloutAction.STOP:
            applications.forget(present[step.application])
    started = []
    for step in steps:
        if step.action in (RolloutAction.START, RolloutAction.RESTART):
            one = ready[step.application]
            started.append(applications.start(one.application, one.wanted, deployment, most_restarts))
            say(f"{step.application}: {'started again' if step.action is RolloutAction.RESTART else 'started'}")
    return started


def stop_all(
    ending: Sequence[DeployedApplication], applications: Applications, drain_s: float, say: Say
) -> dict[str, int | None]:
    """Drain applications side by side; their exit codes by name."""
    if not ending:
        return {}
    for one in ending:
        if one.alive:
            say(f"{one.record.name}: draining")
    with ThreadPoolExecutor(len(ending)) as pool:
        codes = list(pool.map(partial(applications.stop, timeout_s=drain_s), ending))
    return {one.record.name: code for one, code in zip(ending, codes, strict=True)}


def wait_until_running(
    started: Sequence[DeployedApplication],
    ready: Mapping[str, Ready],
    look: Callable[[str], DeployedApplication],
    timeout_s: float,
    say: Say,
) -> None:
    """Until every pipeline that was started has published its plan on the control topic.

    Raises:
        FloeError: an application ended first, or time passed; the end of its log is in the message.
    """
    deadline = time.monotonic() + timeout_s
    waiting = {one.record.name: one for one in started}
    while waiting:
        # One look for all: each asks the broker through clients of its own.
        history = read_histories([pipeline for name in waiting for pipeline in ready[name].pipelines])
        reported = [
            n for n, one in waiting.items() if _all_reported(ready[n].pipelines, history, one.record.started_ms)
        ]
        for name in reported:
            say(f"{name}: runs")
            del waiting[name]
        for name in waiting:
            now = look(name)
            if not now.alive:
                raise _not_running(now, f"ended with {now.exit_code} before it ran")
            if time.monotonic() > deadline:
                raise _not_running(now, f"does not run after {timeout_s:.0f} s; it is {now.state}")
        time.sleep(POLL_S if waiting else 0)


def _all_reported(pipelines: Iterable[LoadedPipeline], history: DeploymentHistory, since_ms: int) -> bool:
    for pipeline in pipelines:
        reported = history.of(pipeline.spec.name)
        if reported is None or reported.timestamp_ms < since_ms or reported.hash != plan_hash([pipeline]):
            return False
    return True


def _not_running(application: DeployedApplication, what: str) -> FloeError:
    return FloeError(
        f"application {application.record.name} {what}",
        code="FLOE-R411",
        place=str(application.log),
        remedy="read the log; `floe deploy --status` shows what the supervisor does, and deploying again is safe",
        quoted=tuple(last_lines(application.log, LOG_LINES)),
    )

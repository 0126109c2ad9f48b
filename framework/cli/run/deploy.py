"""`floe deploy FOLDER`: rolls out a folder of pipelines; `--status` shows what was deployed, and `--stop` ends it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from framework.adapters.project.files import load_or_raise
from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.fitted_table import print_table
from framework.cli.shared.options import json_option, loading_options
from framework.cli.shared.review import check_reviewed, review_options
from framework.cli.shared.target_options import load_target_or_raise
from framework.errors import ConfigError

if TYPE_CHECKING:
    from framework.config.spec import LoadedPipeline
    from framework.deploy.applications import Applications, DeployedApplication
    from framework.deploy.rollout import Ready
    from framework.plan.deploy.rollout import RolloutStep

DRAIN_S = 300.0
START_S = 300.0
MOST_RESTARTS = 20


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@loading_options
@review_options
@click.option("--name", help="The deployment's name; by default the folder's name.")
@click.option("--together", is_flag=True, help="One application for all pipelines; by default each has its own.")
@click.option("--allow-remove", is_flag=True, help="Stop pipelines that were deployed and are no longer in any file.")
@click.option(
    "--restart",
    type=click.IntRange(0),
    default=MOST_RESTARTS,
    show_default=True,
    help="How often to restart at most, after failures in a row.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; do nothing.")
@click.option("--status", "show_status", is_flag=True, help="Show what is deployed and its state.")
@click.option("--stop", "stop_now", is_flag=True, help="Drain and stop what is deployed.")
@json_option
def deploy(
    folder: Path | None,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    reviewed: str | None,
    allow: tuple[str, ...],
    name: str | None,
    together: bool,
    allow_remove: bool,
    restart: int,
    dry_run: bool,
    show_status: bool,
    stop_now: bool,
    as_json: bool,
) -> int:
    """Start what is new in FOLDER, restart what changed, leave the rest alone. With --allow-remove, stop what is gone.

    Each pipeline becomes an application of its own. A supervisor on this machine restarts it after a failure. Drivers go
    through spark-submit to the target's master. They run what is rendered now, even if the files change later. A second
    run changes nothing.

    \b
    floe deploy pipelines/ --target prod --dry-run
    floe deploy pipelines/ --target prod
    floe deploy --status --target prod
    """
    from framework.deploy.applications import Applications

    if show_status or stop_now:
        spec = load_target_or_raise(target or "local")
        applications = Applications(Path(spec.state_dir), spec.name)
        return _stop(applications, name, as_json) if stop_now else _status(applications, name, as_json)
    if folder is None:
        raise click.UsageError("name a FOLDER, or give --status or --stop")
    pipelines = load_or_raise([folder], target, variables, sets)
    allowed = check_reviewed(pipelines, reviewed, allow)
    from framework.deploy.risks import check_breaking_changes
    from framework.plan.deploy.removed import REMOVED

    check_breaking_changes(pipelines, allowed)
    deployment = name or folder.absolute().name
    return _roll_out(pipelines, deployment, together, allow_remove or REMOVED in allowed, restart, dry_run, as_json)


def _roll_out(
    pipelines: Sequence[LoadedPipeline],
    deployment: str,
    together: bool,
    allow_remove: bool,
    most_restarts: int,
    dry_run: bool,
    as_json: bool,
) -> int:
    from framework.adapters.host.process import exclusive
    from framework.deploy.applications import Applications
    from framework.deploy.launch import check_yarn_is_named, stage
    from framework.deploy.rollout import perform, wait_until_running
    from framework.plan.deploy.rollout import check_removals, plan_rollout

    spec = pipelines[0].target
    applications = Applications(Path(spec.state_dir), spec.name)
    ready = prepare(pipelines, deployment, together)

    def say(text: str) -> None:
        click.echo(f"deploy: {log_line(text)}", err=True)

    with exclusive(applications.lock_file):
        steps = plan_rollout(
            [one.wanted for one in ready.values()], [one.present() for one in applications.all(deployment)]
        )
        if dry_run:
            _report(steps, deployment, spec.name, as_json, dry_run)
            return 0
        check_removals(steps, allow_remove)
        check_yarn_is_named(spec, os.environ)
        for one in ready.values():
            if not _is_kept(one, steps):
                stage(one.application, say)
        started = perform(steps, ready, applications, deployment, most_restarts, DRAIN_S, say)
        wait_until_running(started, ready, lambda name: _find(applications, name), START_S, say)
    _report(steps, deployment, spec.name, as_json, dry_run)
    return 0


def prepare(pipelines: Sequence[LoadedPipeline], deployment: str, together: bool) -> dict[str, Ready]:
    """The applications that the files make, by name; nothing is written.

    Raises:
        ConfigError: the target runs drivers in the cluster, where no supervisor of this machine reaches them.
    """
    from framework.deploy.launch import plan_application
    from framework.deploy.rollout import Ready
    from framework.plan.canonical import plan_hash
    from framework.plan.deploy.rollout import Wanted
    from framework.plan.deploy.submit import deploy_mode_of

    spec = pipelines[0].target
    if deploy_mode_of(spec, None) == "cluster":
        raise ConfigError(
            "floe deploy runs drivers on this machine, but the target runs them in the cluster",
            code="FLOE-P003",
            place=spec.name,
            remedy="set spark.submit.deployMode to client, or hand them to the cluster with `floe submit`",
        )
    groups = {deployment: tuple(pipelines)} if together else {p.spec.name: (p,) for p in pipelines}
    ready = {}
    for name, group in groups.items():
        application = plan_application(group, None, False, deployment=deployment, name=name)
        # The command names the code and the packages by their hashes.
        fingerprint = hashlib.sha256("\0".join(application.command).encode()).hexdigest()[:16]
        wanted = Wanted(name, tuple(p.spec.name for p in group), plan_hash(group), fingerprint)
        ready[name] = Ready(wanted, application, group)
    return ready


def _is_kept(one: Ready, steps: Sequence[RolloutStep]) -> bool:
    return any(step.application == one.wanted.name and step.action.value == "keep" for step in steps)


def _find(applications: Applications, name: str) -> DeployedApplication:
    return next(each for each in applications.all() if each.record.name == name)


def _report(steps: Sequence[RolloutStep], deployment: str, target: str, as_json: bool, dry_run: bool) -> None:
    from framework.plan.deploy.rollout import summary

    if as_json:
        document = {
            "command": "deploy",
            "ok": True,
            "deployment": deployment,
            "target": target,
            "dry_run": dry_run,
            "steps": [step.to_json() for step in steps],
        }
        click.echo(json.dumps(document, indent=2))
        return
    for step in steps:
        click.echo(f"{step.action.value:<8} {step.application}: {step.why}")
    click.echo(f"{'would be: ' if dry_run else ''}{summary(steps)}")


def _status(applications: Applications, name: str | None, as_json: bool) -> int:
    from framework.deploy.applications import LOG

    found = applications.all(name)
    sound = all(one.alive or one.exit_code == 0 for one in found)
    if as_json:
        shown = [one.to_json() for one in found]
        click.echo(json.dumps({"command": "deploy", "ok": sound, "applications": shown}))
    elif not found:
        click.echo("nothing is deployed from this machine; `floe deploy FOLDER` deploys")
    else:
        console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
        print_table(console, _table(found))
        console.print(f"logs: {applications.root}/APPLICATION/{LOG}")
    return 0 if sound else 1


def _table(found: Sequence[DeployedApplication]) -> Table:
    from framework.cli.shared.status_text import age

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("application", "deployment", "state", "since", "restarts", "pid", "plan"):
        table.add_column(column, justify="right" if column in ("restarts", "pid") else "left")
    for one in found:
        record = one.record
        state = f"{one.state} ({one.exit_code})" if one.exit_code is not None else one.state
        since = age(time.time() * 1000 - record.started_ms)
        pid = str(one.pid) if one.pid is not None else ""
        table.add_row(record.name, record.deployment, state, since, str(one.restarts), pid, record.hash[:19])
    return table


def _stop(applications: Applications, name: str | None, as_json: bool) -> int:
    from framework.adapters.host.process import exclusive
    from framework.deploy.rollout import stop_all

    with exclusive(applications.lock_file):
        running = [one for one in applications.all(name) if one.alive]
        codes = stop_all(running, applications, DRAIN_S, lambda text: click.echo(f"deploy: {log_line(text)}", err=True))
    if as_json:
        click.echo(json.dumps({"command": "deploy", "ok": not any(codes.values()), "stopped": codes}))
    else:
        for application, code in codes.items():
            click.echo(f"{application}: ended with {code}")
        click.echo(f"{len(codes)} stopped" if codes else "nothing was running")
    return next((code for code in codes.values() if code), 0)

"""`floe plan FILE...`: what a run would do, compared with what was deployed, before anything happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework.adapters.host.private_files import write_private
from framework.adapters.project.files import load_or_raise
from framework.cli.shared.options import FILES, json_option, loading_options
from framework.cli.shared.review import allow_option

if TYPE_CHECKING:
    from framework.config.spec import LoadedPipeline
    from framework.ops.preview.model import PipelinePreview
    from framework.ops.preview.text import PreviewLine
    from framework.plan.deploy.removed import RemovedPipeline

_COLOURS = {"+": "green", "~": "yellow", "-": "red", "!": "red"}


@click.command()
@FILES
@loading_options
@allow_option
@click.option("--offline", is_flag=True, help="Ask neither broker nor catalog; compare with --against, if given.")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False),
    help="A saved plan to compare with, instead of what was deployed.",
)
@click.option("--out", type=click.Path(dir_okay=False), help="Write the plan for `--plan` of run, submit and deploy.")
@click.option("--steps", is_flag=True, help="Also show the steps of a run.")
@click.option(
    "--grants", is_flag=True, help="Show instead what brokers, stores and catalogs must allow a run; asks nobody."
)
@click.option("--principal", default="User:floe", show_default=True, help="With --grants: as whom Kafka knows the run.")
@click.option(
    "--role", default="floe", show_default=True, help="With --grants: as whom a catalog's database knows the run."
)
@json_option
def plan(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    allow: tuple[str, ...],
    offline: bool,
    against: str | None,
    out: str | None,
    steps: bool,
    grants: bool,
    principal: str,
    role: str,
    as_json: bool,
) -> int:
    """Show what a run would do: tables made or changed, offsets to start from, what changes since the last deployment.

    Changes nothing. Ends with 2 if a change is dangerous and not allowed by its code, with the run's own exit code if the
    run would be refused, else with 0.

    \b
    floe plan pipelines/ --target prod
    floe plan pipelines/orders.yaml --target prod --out plan.json --allow FLOE-P103
    floe plan pipelines/ --target prod --grants --principal User:floe
    """
    if grants:
        return _show_grants(load_or_raise(files, target, variables, sets), principal, role, as_json)
    from framework.ops.preview.text import preview_lines
    from framework.plan.canonical import plan_hash
    from framework.plan.deploy.saved import render_saved
    from framework.plan.diff.consent import allowed_codes

    allowed = allowed_codes(allow)
    pipelines = load_or_raise(files, target, variables, sets, offline=offline or against is not None)
    previews, removed = look(pipelines, [Path(file) for file in files if Path(file).is_dir()], offline, against)
    code = exit_code(previews, removed, allowed)
    if out is not None:
        write_private(Path(out).parent.resolve() / Path(out).name, render_saved(pipelines, allowed))
    now = plan_hash(pipelines)
    if as_json:
        shown = [preview.to_json() for preview in previews]
        document = {"command": "plan", "ok": code == 0, "hash": now, "allowed": sorted(allowed), "plans": shown}
        document["removed"] = [each.to_json() for each in removed]
        click.echo(json.dumps(document, indent=2))
        return code
    print_lines(preview_lines(previews, allowed, steps, removed))
    click.echo(f"{now}{f'  written to {out}' if out else ''}")
    return code


def _show_grants(pipelines: Sequence[LoadedPipeline], principal: str, role: str, as_json: bool) -> int:
    from framework.plan.grants.run import run_grants
    from framework.plan.grants.text import grant_document, grant_lines

    found = run_grants(pipelines, role)
    if as_json:
        click.echo(json.dumps(grant_document(found, principal), indent=2))
    else:
        for line in grant_lines(found, principal):
            click.echo(line)
    return 0


def look(
    pipelines: Sequence[LoadedPipeline], folders: Sequence[Path], offline: bool, against: str | None
) -> tuple[list[PipelinePreview], tuple[RemovedPipeline, ...]]:
    """The previews, live or of the files alone, and what was deployed from the folders and is in no file."""
    from framework.deploy.history import DeploymentHistory, history_of
    from framework.deploy.removed import removed_here, removed_since
    from framework.ops.preview.offline import preview_offline
    from framework.plan.deploy.saved import read_saved

    if against is not None:
        saved = history_of(read_saved(Path(against).read_text(encoding="utf-8"), against))
        return preview_offline(pipelines, saved), removed_since(folders, pipelines, saved)
    if offline:
        return preview_offline(pipelines, DeploymentHistory()), removed_here(folders, pipelines)
    # Clients of Kafka and Iceberg are imported only where they are asked.
    from framework.deploy.last_deployed import read_histories
    from framework.deploy.removed_runs import removed_from
    from framework.ops.preview.facts import preview

    history = read_histories(pipelines)
    return preview(pipelines, history), removed_from(folders, pipelines, history)


def exit_code(previews: Sequence[PipelinePreview], removed: Sequence[RemovedPipeline], allowed: Collection[str]) -> int:
    """2 for a breaking change that is not allowed, else that of the first problem, else 0."""
    from framework.errors import ConfigError
    from framework.plan.deploy.removed import needs_consent
    from framework.plan.diff.consent import missing_consent

    if needs_consent(removed, allowed) or any(missing_consent(preview.changes or (), allowed) for preview in previews):
        return ConfigError.exit_code
    return next((problem.exit_code for preview in previews for problem in preview.problems), 0)


def print_lines(lines: Iterable[PreviewLine]) -> None:
    """The lines, in colour on a terminal."""
    from framework.cli.shared.options import use_colour

    colour = use_colour(sys.stdout.isatty())
    for line in lines:
        text = str(line)
        click.echo(click.style(text, fg=_COLOURS[line.mark]) if colour and line.mark in _COLOURS else text)

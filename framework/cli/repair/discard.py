"""`floe discard`: gives up what waits for a table that can never take it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from framework.cli.shared.options import dry_run_option, json_option, table_option, whoami, why_option
from framework.cli.shared.recovery import refuse_unless_dry_run, replay_command
from framework.cli.shared.target_options import open_control, target_options
from framework.commit.offset_ranges import OffsetRanges
from framework.config.names.table_names import catalog_of
from framework.diagnose.counted import counted

if TYPE_CHECKING:
    from framework.commit.recovery.discard import DiscardPlan
    from framework.diagnose.whole_commands import StartedFrom


@click.command()
@table_option
@target_options
@dry_run_option
@why_option
@json_option
def discard(
    table: str, target: str | None, connection: str | None, control_topic: str, dry_run: bool, why: str, as_json: bool
) -> None:
    """Give up what is announced for a table that is gone for good, was replaced, or lost a column that the files hold. Also
    gives up announcements whose files are gone from the store. The rows are then in no table, and the pipeline does not
    read them again. `floe log` keeps the record.

    \b
    floe discard --table shop.orders --dry-run
    """
    from framework.recovery.discard import ControlPlace, decide_discard, perform_discard, refuse_live_pipelines, runs_of
    from framework.runtime.job import open_catalog

    control = open_control(target, connection, control_topic)
    catalog = open_catalog(control.target, (catalog_of(table),))
    at = ControlPlace(control.target.prefix, control.kafka, control.topic, catalog)
    plan = decide_discard(at, table)
    refuse_unless_dry_run(dry_run, lambda: refuse_live_pipelines(at, plan))
    if not as_json:
        _show(plan, runs_of(at) if plan.ranges else {})
    done = not dry_run and not plan.settled
    if done:
        perform_discard(at, plan, whoami(), why)
    if as_json:
        document = {"command": "discard", "ok": True, "dry_run": dry_run, "done": done, "plan": asdict(plan)}
        click.echo(json.dumps(document))
    elif done:
        click.echo("given up; coordinators go on after it, and `floe log` keeps the record")
    elif not plan.settled:
        click.echo("dry run: nothing was changed")


def _show(plan: DiscardPlan, runs: Mapping[str, StartedFrom]) -> None:
    if plan.settled:
        click.echo(f"nothing waits for table {plan.table}")
        return
    click.echo(f"table {plan.table}: {plan.reason}")
    for pipeline, rows in sorted(plan.rows.items()):
        click.echo(f"  {counted(rows, 'row')} of pipeline {pipeline}")
    click.echo(
        f"  {counted(plan.announcements, 'announcement')} at control offsets {plan.first} to {plan.below - 1}, "
        f"{counted(plan.files, 'file')}" + (f"; {plan.kept} after them keep waiting" if plan.kept else "")
    )
    replays = {gap.replay_pipeline: gap.pipeline for gap in plan.noted}
    for pipeline in sorted(replays.keys() & plan.ranges):
        command = replay_command(plan.table, replays[pipeline], runs)
        click.echo(
            f"  what {pipeline} read there stays on the table's list: {command}, with the file of pipeline "
            f"{replays[pipeline]}, reads it again"
        )
    for pipeline, ranges in plan.ranges.items():
        if pipeline in replays:
            continue
        for layer in OffsetRanges.of(ranges).layers():
            named = " ".join(
                f"--from {r.topic}:{r.partition}={r.start} --to {r.topic}:{r.partition}={r.end}" for r in layer
            )
            command = replay_command(plan.table, pipeline, runs, named)
            click.echo(f"  what {pipeline} read there can be read again: {command}")

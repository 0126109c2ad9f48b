"""`floe rollback`: rolls a table back to an older snapshot."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from framework.cli.shared.options import dry_run_option, json_option, milliseconds, table_option, whoami, why_option
from framework.cli.shared.recovery import refuse_unless_dry_run, replay_command
from framework.cli.shared.target_options import open_control, target_options
from framework.config.names.table_names import catalog_of
from framework.diagnose.counted import counted, moment_text

if TYPE_CHECKING:
    from framework.commit.recovery.rollback import RollbackPlan


@click.command()
@table_option
@click.option(
    "--to",
    required=True,
    metavar="SNAPSHOT|TIME",
    help="A snapshot's id, or a time (UTC, such as 2026-01-31T12:00:00) for the newest snapshot up to then.",
)
@click.option(
    "--replay", is_flag=True, help="Record what was in the snapshots given up, so that `floe replay` can read it again."
)
@click.option("--skip", is_flag=True, help="Give up what was in these snapshots.")
@target_options
@dry_run_option
@why_option
@json_option
def rollback(
    table: str,
    to: str,
    replay: bool,
    skip: bool,
    target: str | None,
    connection: str | None,
    control_topic: str,
    dry_run: bool,
    why: str,
    as_json: bool,
) -> None:
    """Roll a table back, so that its pipelines can go on. If another engine already rolled it back, give `--to` the snapshot
    that the table is at.

    \b
    floe rollback --table shop.orders --to 2026-01-31T12:00:00 --replay --dry-run
    """
    from framework.recovery.discard import ControlPlace, runs_of
    from framework.recovery.rollback import decide_rollback, perform_rollback, refuse_live_pipelines
    from framework.runtime.job import open_catalog
    from framework.runtime.lineage import recovery_publisher

    if replay == skip:
        raise click.UsageError("say what happens to the records in the snapshots given up: --replay or --skip")
    is_time = not to.isdigit()
    moment = milliseconds(to) if is_time else int(to)
    control = open_control(target, connection, control_topic)
    catalog = open_catalog(control.target, (catalog_of(table),))
    at = ControlPlace(control.target.prefix, control.kafka, control.topic, catalog)
    plan = decide_rollback(at, table, moment, is_time, replay)
    refuse_unless_dry_run(dry_run, lambda: refuse_live_pipelines(at, plan))
    if not as_json:
        _show(plan)
    snapshot_id = None
    if not dry_run and not plan.settled:
        with recovery_publisher(
            control.target, control.connection, catalog, lambda text: click.echo(text, err=True)
        ) as reported:
            snapshot_id = perform_rollback(at, plan, whoami(), why, reported)
    if as_json:
        document = {"command": "rollback", "ok": True, "dry_run": dry_run, "snapshot_id": snapshot_id}
        shown = {key: value for key, value in asdict(plan).items() if key not in ("noted", "kept_snapshots")}
        click.echo(json.dumps({**document, "plan": shown}))
    elif snapshot_id is not None:
        runs = runs_of(at) if plan.gaps else {}
        commands = " and ".join(
            replay_command(table, name, runs) for name in sorted({gap.pipeline for gap in plan.gaps})
        )
        after = f"; {commands} {'read' if ' and ' in commands else 'reads'} again what it lacks" if commands else ""
        click.echo(f"rolled back; snapshot {snapshot_id} carries on from {plan.snapshot_id}{after}")
    elif not plan.settled:
        click.echo("dry run: nothing was changed")


def _show(plan: RollbackPlan) -> None:
    if plan.settled:
        click.echo(f"table {plan.table} is there already, and nothing after it was given up")
        return
    click.echo(
        f"table {plan.table}: from snapshot {plan.head_id} back to {plan.snapshot_id}, {moment_text(plan.timestamp_ms)}"
    )
    for each in plan.given_up:
        whose = "" if each.by_floe else f", {each.operation} by another writer, which is lost for good"
        click.echo(
            f"  gives up snapshot {each.snapshot_id}, {moment_text(each.timestamp_ms)}: {counted(each.added_rows, 'row')}{whose}"
        )
    for gap in plan.unclear:
        for r in gap.ranges:
            click.echo(
                f"  taken off its list, since it holds rows of it: pipeline {gap.pipeline}, {r.topic}:{r.partition} "
                f"{r.start} to {r.end - 1}"
            )
    for gap in plan.gaps:
        for r in gap.ranges:
            click.echo(
                f"  to be read again for pipeline {gap.pipeline}: {r.topic}:{r.partition} {r.start} to {r.end - 1}"
            )

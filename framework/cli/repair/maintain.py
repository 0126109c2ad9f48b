"""`floe maintain`: keeps tables healthy by hand, as the coordinator does by itself."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared import complete
from framework.cli.shared.options import json_option
from framework.cli.shared.target_options import open_control
from framework.diagnose.counted import counted
from framework.diagnose.whole_commands import CONTROL_TOPIC

if TYPE_CHECKING:
    from framework.runtime.maintenance.tables import MaintenanceReport, Size


@click.command()
@click.argument("patterns", nargs=-1, required=True, metavar="TABLE...", shell_complete=complete.tables)
@click.option(
    "--target", "-t", default=None, help="The target; `local` if you name none.", shell_complete=complete.targets
)
@click.option("--connection", default=None, help="The target's Kafka connection; its only one if not named.")
@click.option(
    "--control-topic", "control_topics", multiple=True, default=(CONTROL_TOPIC,), show_default=True,
    help="A control topic through which the tables are filled; repeat it to name all of them.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@json_option
def maintain(
    patterns: tuple[str, ...],
    target: str | None,
    connection: str | None,
    control_topics: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Keep tables healthy: rewrite small files, merge manifests, expire snapshots, remove the files that only they needed,
    and orphans. Pipelines may keep running.

    What is done is what `maintenance:` in the pipeline file says, as the newest run of the pipeline published it. Nothing goes
    that a rollback, a reader, a tag, a branch, the table's progress or an announcement needs. A table that floe did not
    create is maintained if you name it. You can kill it at any moment and run it again.

    \b
    floe maintain shop.orders --target prod --dry-run
    floe maintain '*' --target prod
    """
    from framework.runtime.job import open_catalog
    from framework.runtime.maintenance.tables import maintain as keep

    control = open_control(target, connection, control_topics[0])
    say = (lambda text: None) if as_json else (lambda text: click.echo(log_line(text), err=True))
    # All of them: a table of any catalog may lie in the location of another.
    catalog = open_catalog(control.target, control.target.catalogs)
    archive = control.target.log_archive.table
    reports = keep(control.kafka, control_topics, catalog, patterns, dry_run, say, archive=archive)
    if as_json:
        tables = [asdict(report) for report in reports]
        click.echo(json.dumps({"command": "maintain", "ok": True, "dry_run": dry_run, "tables": tables}))
        return
    for report in reports:
        for line in _lines(report, dry_run):
            click.echo(line)
    if dry_run:
        click.echo("dry run: nothing was changed")


def _lines(report: MaintenanceReport, dry_run: bool) -> list[str]:
    if report.skipped:
        return [f"{report.table}: left alone: {report.skipped}"]
    would = "would be " if dry_run else ""
    compacted = report.rewritten
    done = [
        f"compaction is left out: {compacted.reason}"
        if compacted.reason
        else f"{counted(compacted.files_before, 'file')} {would}rewritten as {compacted.files_after:,}",
        f"{counted(report.expired, 'snapshot')} {would}expired",
        f"{counted(report.removed, 'file')} {would}removed with them",
        f"{counted(report.orphans, 'orphan')} {would}removed",
    ]
    lines = [
        f"{report.table}: {', '.join(done)}",
        f"  before: {_size(report.before)}",
        f"  after:  {_size(report.after)}",
    ]
    lines += [f"  {counted(count, 'snapshot')}: {reason}" for reason, count in report.kept.items()]
    return lines


def _size(size: Size) -> str:
    return f"{counted(size.snapshots, 'snapshot')}, {counted(size.files, 'file')}, {counted(size.bytes, 'byte')}"

"""`floe clean`: lists orphan files below the tables' locations, or removes them with --delete."""

from __future__ import annotations

import json

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared import complete
from framework.cli.shared.options import json_option
from framework.cli.shared.target_options import open_control
from framework.commit.file_ages import DEFAULT_AGE_MS, SAFETY_AGE_MS
from framework.config.units import duration_ms
from framework.diagnose.counted import counted
from framework.diagnose.whole_commands import CONTROL_TOPIC
from framework.errors import ConfigError

SHOWN = 20


@click.command()
@click.argument("patterns", nargs=-1, metavar="[TABLE...]", shell_complete=complete.tables)
@click.option(
    "--target", "-t", default=None, help="The target; `local` if you name none.", shell_complete=complete.targets
)
@click.option("--connection", default=None, help="The target's Kafka connection; its only one if not named.")
@click.option(
    "--control-topic", "control_topics", multiple=True, default=(CONTROL_TOPIC,), show_default=True,
    help="A control topic through which the tables are filled; repeat it to name all of them.",
)  # fmt: skip
@click.option(
    "--older-than", default=f"{DEFAULT_AGE_MS // 86_400_000}d", show_default=True, help="How old a file must be."
)
@click.option("--delete", is_flag=True, help="Delete the orphan files; without it they are only listed.")
@json_option
def clean(
    patterns: tuple[str, ...],
    target: str | None,
    connection: str | None,
    control_topics: tuple[str, ...],
    older_than: str,
    delete: bool,
    as_json: bool,
) -> None:
    """Find orphan files of the tables that floe fills: files of a batch that was never announced, or of a commit that was
    refused. A dry run unless you give --delete. Pipelines may keep running.

    It never touches a file that a snapshot, a manifest or the table's metadata names, a file that an announcement in the
    control topic names, or a file younger than --older-than, which is at least a day.

    \b
    floe clean --target prod
    floe clean 'rpc.*' --older-than 7d --delete --target prod
    floe clean 'cold:*'   # the tables of one catalog
    """
    from framework.runtime.job import open_catalog
    from framework.runtime.maintenance.orphans import clean as look

    age_ms = duration_ms(older_than)
    if age_ms is None:
        raise click.BadParameter(f"`{older_than}` is not a duration, such as 3d or 36h", param_hint="--older-than")
    if age_ms < SAFETY_AGE_MS:
        raise ConfigError(
            f"--older-than {older_than} is below the safety age of one day: younger files may belong to a batch in progress",
            code="FLOE-R374",
            place="--older-than",
            remedy="name one day or more, such as --older-than 1d",
        )
    control = open_control(target, connection, control_topics[0])
    say = (lambda text: None) if as_json else (lambda text: click.echo(log_line(text), err=True))
    # All of them: a table of any catalog may lie in the location of another.
    catalog = open_catalog(control.target, control.target.catalogs)
    reports = look(control.kafka, control_topics, catalog, patterns, age_ms, delete, say)
    if as_json:
        tables = [
            {
                "table": r.table,
                "skipped": r.skipped,
                "orphans": [{"location": f.location, "bytes": f.size, "modified_ms": f.modified_ms} for f in r.orphans],
                "spared": r.spared,
                "removed": r.removed,
            }
            for r in reports
        ]
        click.echo(json.dumps({"command": "clean", "ok": True, "dry_run": not delete, "tables": tables}))
        return
    for report in reports:
        if report.skipped:
            click.echo(f"{report.table}: not looked at: {report.skipped}")
            continue
        spared = ", ".join(f"{count:,} {reason}" for reason, count in report.spared.items()) or "none"
        click.echo(
            f"{report.table}: {counted(len(report.orphans), 'orphan')}, {counted(report.bytes, 'byte')}; spared: {spared}"
        )
        for file in report.orphans[:SHOWN]:
            click.echo(f"  {file.size:>12,}  {file.location}")
        if len(report.orphans) > SHOWN:
            click.echo(f"  ... and {len(report.orphans) - SHOWN:,} more; --json lists all")
    total = sum(len(r.orphans) for r in reports)
    if delete:
        click.echo(f"{counted(sum(r.removed for r in reports), 'file')} removed")
    else:
        click.echo(f"dry run: {counted(total, 'file')} would be removed" + ("; --delete removes them" if total else ""))

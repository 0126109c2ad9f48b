"""`floe status`: which offset is safe, what is announced but not visible, which snapshot is visible, and who coordinates."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from framework.cli.fitted_table import print_table
from framework.cli.options import json_option
from framework.cli.target_options import open_control, target_options
from framework.diagnose.counted import counted
from framework.diagnose.render import trouble
from framework.diagnose.shown import all_shown

if TYPE_CHECKING:
    from framework.commit.maintenance.health import TableHealth
    from framework.runtime.status import PipelineStatus, Status, TableStatus


@click.command()
@target_options
@click.option("--health", "with_health", is_flag=True, help="Also say of each table what maintenance would gain.")
@json_option
def status(target: str | None, connection: str | None, control_topic: str, with_health: bool, as_json: bool) -> None:
    """Show pipelines (state, lag, where every record went) and tables (state, last commit, what waits).

    States: RUNNING, IDLE, DEGRADED, STALLED, BLOCKED, FAILED, PAUSED, STOPPED. Whatever has a problem says why, since when,
    and what to do.

    \b
    floe status --target prod
    """
    from framework.runtime.job import open_catalog
    from framework.runtime.status import read_status

    control = open_control(target, connection, control_topic)
    found = read_status(
        control.target.name,
        control.target.prefix,
        control.kafka,
        control.topic,
        open_catalog(control.target, ()),
        with_health,
    )
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        _print(all_shown(found), time.time() * 1000)


def _print(found: Status, now_ms: float) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    # Wide rather than wrapped: a name or a snapshot id that is cut cannot be copied.
    c = found.control
    console.print(
        f"target {found.target}, control topic {c.topic}: everything below {c.low_water} of {c.log_end} is in every table; "
        f"{'coordinated by ' + found.coordinator if found.coordinator else 'nobody coordinates now'}"
    )
    for pause in found.pauses:
        console.print(
            f"{pause.holds.value} of `{pause.pattern}` is paused by {pause.by} for {age(now_ms - pause.timestamp_ms)}"
            + (f": {pause.reason}" if pause.reason else "")
        )
    if not found.pipelines:
        console.print("no pipeline has announced anything yet; `floe run FILE` starts one")
        return
    console.print()
    print_table(console, pipelines_table(found.pipelines))
    _explain(console, [(p.pipeline, p) for p in found.pipelines], now_ms)
    for line in found.pipelines:
        for partition in line.partitions:
            for start, end in partition.gaps:
                console.print(
                    f"  {line.pipeline}: records {start:,} to {end - 1:,} of {partition.topic}-{partition.partition} "
                    "were removed by retention before they were read"
                )
    console.print()
    print_table(console, tables_table(found.tables, now_ms))
    _explain(console, [(t.table, t) for t in found.tables], now_ms)
    for table in found.tables:
        if table.health is not None:
            console.print(health_line(table.table, table.health, found.target))


def health_line(table: str, health: TableHealth, target: str) -> str:
    """One table's health, with the command that mends it where that is worth it."""
    said = (
        f"  {table}: {health.small_files:,} of {counted(health.data_files, 'file')} small, "
        f"{counted(health.delete_files, 'delete file')}, {counted(health.manifests, 'manifest')}, "
        f"{counted(health.snapshots, 'snapshot')}, {counted(health.metadata_bytes, 'byte')} of metadata"
    )
    if not health.gain_files:
        return said
    return f"{said}\n    `floe maintain {table} -t {target}` leaves {health.gain_files:,} files fewer"


def _explain(console: Console, lines: list[tuple[str, PipelineStatus | TableStatus]], now_ms: float) -> None:
    """Why something is not as it should be, since when, and what to do; once for all that share it."""
    for name, line in lines:
        if line.reason:
            since = f" for {age(now_ms - line.since_ms)}" if line.since_ms is not None else ""
            for text in trouble(f"{name}: {line.state.value}{since}", line.reason, line.remedy):
                console.print(text)


def pipelines_table(pipelines: tuple[PipelineStatus, ...]) -> Table:
    """Every record since the pipeline first ran: offsets = written + filtered + dead letters + dropped + holes + lost."""
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for name in (
        "pipeline",
        "state",
        "batch",
        "lag",
        "offsets\n=",
        "written\n+",
        "filtered\n+",
        "dead\nletters +",
        "dropped\n+",
        "holes\n+",
        "lost",
    ):
        table.add_column(name, justify="left" if name in ("pipeline", "state") else "right")
    for p in pipelines:
        t = p.totals
        counts = (t.offsets, t.written, t.filtered, t.dead_lettered, t.dropped, t.holes, t.lost)
        table.add_row(p.pipeline, p.state.value, str(p.batch), f"{p.lag:,}", *(f"{count:,}" for count in counts))
    return table


def tables_table(tables: tuple[TableStatus, ...], now_ms: float) -> Table:
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for name in (
        "table",
        "state",
        "last\ncommit",
        "snapshot",
        "added",
        "files",
        "rows",
        "waiting\nrows",
        "waiting\nfiles",
    ):
        table.add_column(name, justify="left" if name in ("table", "state") else "right")
    for t in tables:
        last = t.last_commit
        done = (
            (
                f"{age(now_ms - last.timestamp_ms)} ago",
                str(last.snapshot_id),
                f"+{last.rows:,}",
                str(last.files),
                f"{last.total_rows:,}" if last.total_rows is not None else "",
            )
            if last
            else ("never", "", "", "", "")
        )
        table.add_row(t.table, t.state.value, *done, f"{t.pending.rows:,}", str(t.pending.files))
    return table


def age(milliseconds: float) -> str:
    """`75000` as `1m 15s`: two units, the largest that fit."""
    seconds = max(0, int(milliseconds / 1000))
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count}{unit}" for count, unit in parts[:2])

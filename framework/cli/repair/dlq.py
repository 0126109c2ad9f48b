"""`floe dlq list | show | stats | replay`: what could not be written, why, and another try."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.repair.dlq_text import (
    describe,
    groups_of,
    json_bytes,
    nothing_waits,
    place_of,
    replay_json,
    replay_lines,
    show_table,
    time_of,
)
from framework.cli.shared.dlq_options import DeadLetterSelection, PipelineFile, dead_letters, pipeline_file, place
from framework.cli.shared.options import json_option
from framework.config.names.table_names import catalog_of
from framework.config.spec import LoadedPipeline
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import SetupError

if TYPE_CHECKING:
    from framework.recovery.dead_letters import Selection

BRIEF = ("topic", "partition", "offset", "timestamp", "stage", "code", "field_path", "expected", "actual", "message")
WHOLE = (*BRIEF, "key", "value", "headers", "pipeline", "run")


@click.group()
def dlq() -> None:
    """Look at a pipeline's dead letters, and replay them once the cause is fixed."""


def _read(pipeline: LoadedPipeline, selection: Selection, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Dead letters as rows, newest first; timestamps in milliseconds."""
    import pyarrow as pa

    from framework.plan.compile import compile_plan
    from framework.recovery.dead_letters import dead_letter_table_of, read_with_marks
    from framework.runtime.job import open_catalog

    plan = compile_plan(pipeline)
    catalog = open_catalog(pipeline.target, (catalog_of(dead_letter_table_of(plan)),))
    found = read_with_marks(plan, catalog, selection, columns)
    at = found.schema.get_field_index("timestamp")
    found = found.set_column(at, "timestamp", found.column(at).cast(pa.int64()))
    keys = [("timestamp", "descending"), ("topic", "ascending"), ("partition", "ascending"), ("offset", "descending")]
    rows: list[dict[str, Any]] = found.sort_by(keys).to_pylist() if len(found) else []
    for row in rows:
        row["timestamp_ms"] = None if row["timestamp"] is None else row.pop("timestamp") // 1000
        row.pop("timestamp", None)
    return rows


def _nothing(pipeline: LoadedPipeline, replayed: int) -> str:
    return nothing_waits(pipeline.spec.name, _letter_table(pipeline), replayed)


def _letter_table(pipeline: LoadedPipeline) -> str | None:
    """The full name of the table that the file names."""
    named = pipeline.spec.errors.dead_letter_table
    return pipeline.spec.tables.full_name(named) if named else None


@dlq.command("list")
@dead_letters
@click.option("--all", "with_replayed", is_flag=True, help="Also those that were replayed.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many to list, newest first.")
@json_option
def list_command(dead_letters: DeadLetterSelection, with_replayed: bool, limit: int, as_json: bool) -> None:
    """List the dead letters that wait, newest first.

    Example: floe dlq list pipelines/orders.yaml -t prod --code FLOE-D304 --since 2h
    """
    pipeline = dead_letters.pipeline_file.load()
    rows = _read(pipeline, dead_letters.selection, BRIEF)
    chosen = [row for row in rows if with_replayed or not row["replayed"]]
    if as_json:
        document = {"command": "dlq list", "ok": True, "pipeline": pipeline.spec.name, "total": len(chosen)}
        click.echo(json.dumps({**document, "letters": chosen[:limit]}))
        return
    if not chosen:
        click.echo(_nothing(pipeline, len(rows)))
        return
    columns = {**dict.fromkeys(("record", "time", "stage", "code"), "left"), "what is wrong": "wrap"}
    rows_shown = (
        (
            place_of(row),
            time_of(row["timestamp_ms"]),
            row["stage"],
            row["code"],
            ("(replayed) " if row["replayed"] else "") + row["message"],
        )
        for row in chosen[:limit]
    )
    show_table(columns, rows_shown)
    whole = (
        f"`floe dlq show {argument(dead_letters.pipeline_file.file)} {argument(place_of(chosen[0]))}` shows one in full"
    )
    click.echo(f"\n{min(limit, len(chosen)):,} of {counted(len(chosen), 'dead letter')}; {whole}")


@dlq.command("show")
@pipeline_file
@place
@click.option("--raw", is_flag=True, help="Write the value's bytes to standard output, and nothing else.")
@json_option
def show_command(pipeline_file: PipelineFile, place: tuple[str, int, int], raw: bool, as_json: bool) -> None:
    """Show one dead letter in full: its bytes, with a mark at the problem, and what was expected.

    Example: floe dlq show pipelines/orders.yaml orders-0@51
    """
    from framework.recovery.dead_letters import Selection

    pipeline = pipeline_file.load()
    topic, partition, offset = place
    rows = _read(pipeline, Selection(topic=topic, partition=partition, offset=offset), WHOLE)
    if not rows:
        raise SetupError(
            f"pipeline {pipeline.spec.name} has no dead letter {topic}-{partition}@{offset}",
            code="FLOE-E602",
            place=str(_letter_table(pipeline)),
            remedy=f"`floe dlq list {argument(pipeline_file.file)} --all` lists them",
        )
    row = rows[0]
    if raw:
        sys.stdout.buffer.write(row["value"] or b"")
    elif as_json:
        headers = [{"key": h["key"], "value": json_bytes(h["value"])} for h in row.pop("headers") or ()]
        dead_letter = {**row, "key": json_bytes(row["key"]), "value": json_bytes(row["value"]), "headers": headers}
        click.echo(json.dumps({"command": "dlq show", "ok": True, "letter": dead_letter}))
    else:
        for line in describe(row):
            click.echo(line)


@dlq.command("stats")
@dead_letters
@json_option
def stats_command(dead_letters: DeadLetterSelection, as_json: bool) -> None:
    """Count dead letters by what is wrong with them: how many wait, how many were replayed, since when.

    Example: floe dlq stats pipelines/orders.yaml -t prod
    """
    pipeline = dead_letters.pipeline_file.load()
    rows = _read(pipeline, dead_letters.selection, BRIEF)
    groups = groups_of(rows)
    waiting = sum(group["waiting"] for group in groups)
    if as_json:
        document = {"command": "dlq stats", "ok": True, "pipeline": pipeline.spec.name, "waiting": waiting}
        click.echo(json.dumps({**document, "replayed": len(rows) - waiting, "groups": groups}))
        return
    if not rows:
        click.echo(_nothing(pipeline, 0))
        return
    left = dict.fromkeys(("code", "stage", "topic", "field"), "left")
    columns = {
        **left,
        "waiting": "right",
        "replayed": "right",
        "first": "wrap",
        "last": "wrap",
        "newest record": "left",
    }
    show_table(
        columns,
        (
            (
                group["code"],
                group["stage"],
                group["topic"],
                group["field_path"] or "",
                f"{group['waiting']:,}",
                f"{group['replayed']:,}",
                time_of(group["first_ms"]),
                time_of(group["last_ms"]),
                group["example"],
            )
            for group in groups
        ),
        ("first", "replayed", "stage"),
    )
    done = len(rows) - waiting
    click.echo(
        f"\n{waiting:,} {'waits' if waiting == 1 else 'wait'}, {done:,} {'was' if done == 1 else 'were'} replayed"
    )


@dlq.command("replay")
@dead_letters
@json_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def replay_command(dead_letters: DeadLetterSelection, as_json: bool, quiet: bool) -> None:
    """Send dead letters through the pipeline file as it is now, exactly once.

    What can be written now is written and marked as replayed; what fails again stays as it is. The pipeline may keep
    running. Running this twice, or again after it was killed, writes nothing twice.

    Example: floe dlq replay pipelines/orders.yaml -t prod --code FLOE-D304
    """
    from framework.adapters.secrets import resolve
    from framework.plan.catalogs import used_catalogs
    from framework.plan.compile import compile_plan
    from framework.recovery.dead_letter_replay import replay
    from framework.runtime.job import open_catalog

    pipeline = dead_letters.pipeline_file.load()
    started = time.monotonic()

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"{time.monotonic() - started:7.1f} s  {log_line(text)}", err=True)

    kafka = resolve(pipeline.target.kafka[pipeline.spec.source.kafka.connection])
    catalog = open_catalog(pipeline.target, used_catalogs(compile_plan(pipeline)))
    report = replay(pipeline, kafka, catalog, dead_letters.selection, say)
    if as_json:
        click.echo(json.dumps(replay_json(report)))
    else:
        for line in replay_lines(report, dead_letters.pipeline_file.file):
            click.echo(line)

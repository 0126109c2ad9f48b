"""`floe offsets show | set`: shows a pipeline's source offsets wherever they are kept, and moves them safely."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from framework.cli.shared.fitted_table import print_table
from framework.cli.shared.options import json_option, whoami, why_option
from framework.cli.shared.recovery import refuse_unless_dry_run
from framework.cli.shared.target_options import Control, open_pipeline, pipeline_argument, target_options

if TYPE_CHECKING:
    from framework.commit.recovery.settle_offsets import OffsetsOrigin, PipelineOffsets, Settlement
    from framework.config.spec import LoadedPipeline
    from framework.recovery.source_offsets import Where


@click.group()
def offsets() -> None:
    """Show a pipeline's source offsets everywhere, or move them."""


@offsets.command()
@pipeline_argument
@target_options
@json_option
def show(pipeline: str, target: str | None, connection: str | None, control_topic: str, as_json: bool) -> None:
    """Show for each partition what the group, the control log and the tables say, and what disagrees.

    \b
    floe offsets show pipelines/orders.yaml --target prod
    """
    from framework.commit.recovery.settle_offsets import disagreements
    from framework.recovery.source_offsets import read_places
    from framework.runtime.job import open_catalog

    name, control, loaded = open_pipeline(pipeline, target, connection, control_topic)
    catalog = open_catalog(control.target, _needed(loaded))
    places = read_places(_where(name, control, loaded), catalog)
    found = disagreements(places)
    if as_json:
        click.echo(json.dumps({"command": "offsets show", "ok": True, **asdict(places), "disagreements": list(found)}))
        return
    _show(places)
    for line in found:
        click.echo(f"  disagrees: {line}")
    if not places.known:
        click.echo(f"  pipeline {name} has never run against target {control.target.name}")


@offsets.command(name="set")
@pipeline_argument
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION=OFFSET...]")
@target_options
@click.option("--from-log", is_flag=True, help="To the end of the pipeline's announcements in the control topic.")
@click.option("--from-tables", is_flag=True, help="To the furthest source offset of the pipeline that a table records.")
@click.option(
    "--to-time",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"]),
    help="To the first record of each partition at or after this time (UTC).",
)
@click.option("--allow-loss", is_flag=True, help="Accept that some records will never be read.")
@click.option("--allow-duplicates", is_flag=True, help="Accept that some records will be read and added a second time.")
@click.option("--dry-run", is_flag=True, help="Show the move and change nothing.")
@why_option
@json_option
def set_command(
    pipeline: str,
    positions: tuple[str, ...],
    target: str | None,
    connection: str | None,
    control_topic: str,
    from_log: bool,
    from_tables: bool,
    to_time: datetime | None,
    allow_loss: bool,
    allow_duplicates: bool,
    dry_run: bool,
    why: str,
    as_json: bool,
) -> None:
    """Move a pipeline's source offsets; its chain of batches goes on from there. Refuses while the pipeline is live.

    \b
    floe offsets set orders --from-log --dry-run
    floe offsets set orders orders:0=1200 orders:1=900 --allow-loss
    """
    from framework.commit.recovery.settle_offsets import OffsetsOrigin, settle
    from framework.observe.liveness import refuse_live
    from framework.recovery.source_offsets import offsets_at, perform, read_places
    from framework.runtime.job import open_catalog

    given = parse_positions(positions)
    if sum((from_log, from_tables, to_time is not None, bool(given))) != 1:
        raise click.UsageError("name one of --from-log, --from-tables, --to-time and TOPIC:PARTITION=OFFSET")
    origin = OffsetsOrigin.LOG if from_log else OffsetsOrigin.TABLES if from_tables else OffsetsOrigin.GIVEN
    name, control, loaded = open_pipeline(pipeline, target, connection, control_topic)
    where, catalog = _where(name, control, loaded), open_catalog(control.target, _needed(loaded))
    doing = "floe offsets set"
    from framework.adapters.kafka.admin import KafkaAdmin

    refuse_unless_dry_run(dry_run, lambda: refuse_live(KafkaAdmin(where.kafka), where.prefix, name, doing))
    places = read_places(where, catalog)
    if to_time is not None:
        given = offsets_at(where, places, int(to_time.replace(tzinfo=timezone.utc).timestamp() * 1000))

    def decide(now: PipelineOffsets) -> Settlement:
        return settle(now, origin, given, allow_loss, allow_duplicates)

    try:
        settlement = decide(places)
    except Exception:
        if not as_json:
            _show(places)  # a refusal is read beside what it is about
        raise
    if not as_json:
        _show_moves(settlement, origin)
    control_offset = None if dry_run else perform(where, catalog, decide, settlement, doing, whoami(), why)
    if as_json:
        document = {**asdict(settlement), "lost": settlement.lost, "repeated": settlement.repeated}
        click.echo(json.dumps({"command": "offsets set", "ok": True, "dry_run": dry_run, **document}))
    elif control_offset is None:
        click.echo("dry run: nothing was changed")
    else:
        click.echo(f"set; the next run of {name} goes on there as batch {settlement.batch + 1}")


def parse_positions(texts: tuple[str, ...]) -> Mapping[tuple[str, int], int]:
    """TOPIC:PARTITION=OFFSET texts as offsets by partition. Raises BadParameter."""
    found: dict[tuple[str, int], int] = {}
    for text in texts:
        name, _, offset = text.partition("=")
        topic, _, partition = name.rpartition(":")
        if not topic or not partition.isdigit() or not offset.isdigit():
            raise click.BadParameter(f"`{text}` is not TOPIC:PARTITION=OFFSET, such as orders:0=1200")
        found[topic, int(partition)] = int(offset)
    return found


def _where(name: str, control: Control, loaded: LoadedPipeline | None) -> Where:
    from framework.recovery.source_offsets import Where

    kafka = loaded.spec.source.kafka if loaded is not None else None
    topics: tuple[str, ...] | str = () if kafka is None else (kafka.topics or kafka.topic_pattern or ())
    tables: tuple[str, ...] = ()
    if loaded is not None:
        spec = loaded.spec
        named = [rule.table for rule in spec.routes.rules if "{" not in rule.table]
        named += [history.table for history in spec.tables.histories]
        named += [spec.errors.dead_letter_table] if spec.errors.dead_letter_table else []
        tables = tuple(map(spec.tables.full_name, named))
    return Where(name, control.target.prefix, control.kafka, control.topic, topics, tables)


def _needed(loaded: LoadedPipeline | None) -> tuple[str, ...]:
    """The catalogs to check before anything is asked; without a file, those of the tables in the log are found open or not."""
    from framework.plan.catalogs import used_catalogs
    from framework.plan.compile import compile_plan

    return used_catalogs(compile_plan(loaded)) if loaded is not None else ()


def _show(places: PipelineOffsets) -> None:
    click.echo(
        f"pipeline {places.pipeline}: cluster {places.cluster_id}, control topic {places.control_topic} "
        f"({places.control_topic_id}), newest batch {places.batch}"
    )
    table = _grid("partition", "group", "announced", "tables", "log start", "log end", "lag")
    for p in places.partitions:
        recorded = sorted(set((p.recorded or {}).values()))
        in_tables = (
            _number(recorded[0]) if len(recorded) == 1 else (f"{recorded[0]}..{recorded[-1]}" if recorded else "-")
        )
        table.add_row(
            p.name,
            _number(p.group),
            _number(p.announced),
            in_tables,
            _number(p.log_start),
            _number(p.log_end),
            _number(p.lag),
        )
    print_table(_console(), table)
    for topic, topic_id in sorted({(p.topic, p.topic_id) for p in places.partitions}):
        click.echo(f"  topic {topic}: {'id ' + topic_id if topic_id else 'does not exist'}")


def _show_moves(settlement: Settlement, origin: OffsetsOrigin) -> None:
    click.echo(f"pipeline {settlement.pipeline}, {origin.value}:")
    table = _grid("partition", "group now", "after", "lost", "read again")
    for m in settlement.moves:
        table.add_row(f"{m.topic}:{m.partition}", _number(m.before), str(m.after), f"{m.lost:,}", f"{m.repeated:,}")
    print_table(_console(), table)
    for name in settlement.forgotten:
        click.echo(f"  {name} was deleted, or its topic was taken out of the file: it is forgotten")
    for topic in settlement.recreated:
        click.echo(f"  {topic} was recreated; the offsets are those of the new topic")


def _grid(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)

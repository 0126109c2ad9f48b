"""`floe rebase`: moves a pipeline to another control topic or cluster, based on what its tables record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from framework.adapters.project.files import load_or_raise
from framework.cli.shared.fitted_table import print_table
from framework.cli.shared.options import dry_run_option, json_option, loading_options, milliseconds
from framework.cli.shared.recovery import open_recovery, refuse_unless_dry_run
from framework.config.names.table_names import as_written
from framework.diagnose.counted import counted

if TYPE_CHECKING:
    from framework.commit.recovery.rebase import RebaseFacts, RebasePlan

DOING = "floe rebase"


@click.command()
@click.argument("file", type=click.Path(), metavar="FILE")
@loading_options
@click.option(
    "--same-offsets",
    is_flag=True,
    help="The source topics have other ids, and each offset holds the record that it held: restored, or copied byte for byte.",
)
@click.option(
    "--begin-at",
    metavar="earliest|latest|TIME",
    help="The source topics hold other records: begin here. TIME is UTC, such as 2026-01-31T12:00:00.",
)
@click.option(
    "--complete",
    multiple=True,
    metavar="TABLE",
    help="This table lacks nothing that was announced, so reading need not go back for it.",
)
@click.option(
    "--from-log-start", is_flag=True, help="Read everything that the topics hold; each table adds what it lacks."
)
@click.option("--allow-loss", is_flag=True, help="Go on even though retention removed records that a table lacks.")
@click.option(
    "--allow-duplicates", is_flag=True, help="Accept that tables may already hold rows of what the pipeline reads next."
)
@dry_run_option
@json_option
def rebase(
    file: str,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    same_offsets: bool,
    begin_at: str | None,
    complete: tuple[str, ...],
    from_log_start: bool,
    allow_loss: bool,
    allow_duplicates: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Let a pipeline go on from what its tables hold: after its control topic was recreated, lost or renamed, after its
    offsets were lost, on another cluster. Nothing is added twice; what a table lacks is read again.

    \b
    floe rebase pipelines/orders.yaml --dry-run
    floe rebase pipelines/orders.yaml -t dr --same-offsets
    """
    from framework.adapters.kafka.admin import KafkaAdmin
    from framework.commit.recovery.rebase import RebaseChoice
    from framework.observe.liveness import refuse_live
    from framework.recovery.rebase import begin_offsets, decide_rebase, perform_rebase
    from framework.runtime.lineage import recovery_publisher
    from framework.runtime.pipeline.begin import naming_file

    if begin_at and (same_offsets or from_log_start):
        raise click.UsageError("--begin-at says where to begin; leave --same-offsets and --from-log-start out")
    begin_time = _begin(begin_at)
    (loaded,) = load_or_raise((file,), target, variables, sets)
    at = open_recovery(loaded, quiet=as_json)
    refuse_unless_dry_run(dry_run, lambda: refuse_live(KafkaAdmin(at.kafka), at.prefix, at.plan.pipeline, DOING))

    shown: dict[tuple[str, int], int] = {}  # where each partition begins; its end moves on after the first look

    def choice(facts: RebaseFacts) -> RebaseChoice:
        begin = None
        if begin_time is not None:
            shown.update({**begin_offsets(at, facts, begin_time), **shown})
            begin = {key: offset for key, offset in shown.items() if key in facts.partitions}
        lacking_nothing = tuple(map(as_written, complete))
        return RebaseChoice(same_offsets, begin, lacking_nothing, from_log_start, allow_loss, allow_duplicates)

    with naming_file(at.plan):
        plan = decide_rebase(at, choice, make_control_topic=not dry_run)
    if not as_json:
        show_plan(plan)
    done = not dry_run and not plan.settled
    if done:
        with recovery_publisher(loaded.target, at.plan.read.connection, at.catalog, at.say) as reported:
            perform_rebase(replace(at, reported=reported), choice, plan, DOING)
    if as_json:
        click.echo(
            json.dumps({"command": "rebase", "ok": True, "dry_run": dry_run, "done": done, "plan": asdict(plan)})
        )
    elif plan.settled:
        click.echo("nothing to do: tables, group and control topic agree")
    elif dry_run:
        click.echo("dry run: nothing was changed")
    else:
        click.echo(f"taken over; the next run of {plan.pipeline} goes on there as batch {plan.batch + 1}")


def _begin(text: str | None) -> str | int | None:
    return text if text is None or text in ("earliest", "latest") else milliseconds(text)


def show_plan(plan: RebasePlan) -> None:
    """What was, what is, and what will be done, table by table."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    former = ", ".join(plan.former_control_topic_ids) or "the same"
    console.print(f"pipeline {plan.pipeline}, cluster {plan.cluster_id}")
    console.print(f"control topic {plan.control_topic}: id {plan.control_topic_id}, before {former}")
    partitions = _grid("partition", "group", "announced", "tables", "log", "goes on at")
    for p in plan.partitions:
        tables = "-" if p.tables_least is None else f"{p.tables_least}"
        if p.tables_most is not None and p.tables_most != p.tables_least:
            tables += f"..{p.tables_most}"
        log = f"{p.log_start}..{p.log_end}"
        partitions.add_row(
            f"{p.topic}:{p.partition}", _number(p.group), _number(p.announced), tables, log, str(p.after)
        )
    print_table(console, partitions)
    for topic, now, before in sorted(
        {(p.topic, p.topic_id, p.former_topic_id) for p in plan.partitions if p.former_topic_id}
    ):
        console.print(f"  topic {topic}: id {now}, before {before}")
    tables_grid = _grid("table", "batch", "will record", "by control topic")
    for t in plan.tables:
        by = ", ".join(t.former_control_topic_ids) or "the same"
        tables_grid.add_row(t.table, _number(t.former_batch), f"batch {t.after.batch}", by)
    if plan.tables:
        print_table(console, tables_grid)
    for t in plan.replays:
        console.print(
            f"  {t.table}: what it records of replayed dead letters (batch {t.after.batch}) moves to this control topic"
        )
    if plan.read_again:
        offsets = counted(plan.read_again, "offset is", "offsets are")
        console.print(f"{offsets} read again for the tables that lack them; the others drop them")
    if plan.lost:
        console.print(f"retention removed {counted(plan.lost, 'record')} that some table lacks")


def _grid(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)

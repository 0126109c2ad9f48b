"""`floe replay`: reads source ranges again for one table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from framework.adapters.project.files import load_or_raise
from framework.adapters.telemetry.safe_output import log_line
from framework.cli.repair.offsets import parse_positions
from framework.cli.shared.options import dry_run_option, json_option, loading_options, milliseconds, table_option
from framework.cli.shared.recovery import open_recovery
from framework.diagnose.counted import counted

if TYPE_CHECKING:
    from framework.commit.recovery.table_replay import ReplayPlan
    from framework.recovery.rebase import Recovery
    from framework.recovery.table_replay import ReplayRequest


@click.command()
@click.argument("file", type=click.Path(), metavar="FILE")
@table_option
@click.option(
    "--from",
    "begin",
    multiple=True,
    metavar="TOPIC:PARTITION=OFFSET|TIME",
    help="Where to begin, instead of with what the table is known to lack; once for each partition, or a time (UTC) for all.",
)
@click.option("--to", "end", multiple=True, metavar="TOPIC:PARTITION=OFFSET|TIME", help="Where to end (exclusive).")
@click.option("--allow-duplicates", is_flag=True, help="Accept that the table may already hold these rows.")
@loading_options
@dry_run_option
@json_option
def replay(
    file: str,
    table: str,
    begin: tuple[str, ...],
    end: tuple[str, ...],
    allow_duplicates: bool,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Read again, for one table, what it lacks after `floe rollback --replay`, or ranges whose rows were deleted. Uses FILE
    as it is now. Other tables stay as they are, and the pipeline may keep running. Refuses ranges that the table holds.

    \b
    floe replay pipelines/orders.yaml --table shop.orders --dry-run
    floe replay pipelines/orders.yaml --table shop.orders --from orders:0=100 --to orders:0=200
    """
    from framework.recovery.table_replay import decide_replay, perform_replay
    from framework.runtime.pipeline.begin import naming_file

    if bool(begin) != bool(end):
        raise click.UsageError("name both --from and --to, or neither")
    (loaded,) = load_or_raise((file,), target, variables, sets)
    at = open_recovery(loaded, quiet=as_json)
    with naming_file(at.plan):
        named = _named(at, table, begin, end, allow_duplicates) if begin else None
        plan = decide_replay(at, table, named)
    if not as_json:
        _show(plan)
    started = time.monotonic()

    def say(text: str) -> None:
        if not as_json:
            click.echo(f"{time.monotonic() - started:7.1f} s  {log_line(text)}", err=True)

    rows = perform_replay(at, loaded, plan, say) if not dry_run and not plan.settled else None
    if as_json:
        document = {"command": "replay", "ok": True, "dry_run": dry_run, "rows": rows, "plan": asdict(plan)}
        click.echo(json.dumps(document))
    elif rows is not None:
        click.echo(f"replayed: {counted(rows, 'row')} added to {table}")
    elif not plan.settled:
        click.echo("dry run: nothing was changed")


def _named(
    at: Recovery, table: str, begin: tuple[str, ...], end: tuple[str, ...], allow_duplicates: bool
) -> ReplayRequest:
    from framework.recovery.recover_table import BRANCH
    from framework.recovery.table_replay import ReplayRequest, control_topic_id

    found = at.catalog.load_recorded(table, BRANCH, control_topic_id(at))
    head = (found.view.snapshot_id if found is not None else None) or 0
    return ReplayRequest(_offsets(at, begin), _offsets(at, end), format(head, "x")[-8:], allow_duplicates)


def _offsets(at: Recovery, texts: tuple[str, ...]) -> Mapping[tuple[str, int], int]:
    from framework.adapters.kafka.admin import KafkaAdmin
    from framework.recovery.table_replay import source_facts

    if len(texts) == 1 and "=" not in texts[0]:
        facts = source_facts(at)
        found = KafkaAdmin(at.kafka).offsets_at(facts, milliseconds(texts[0]))
        return {key: offset if offset >= 0 else facts[key].log_end for key, offset in found.items()}
    return parse_positions(texts)


def _show(plan: ReplayPlan) -> None:
    if plan.settled:
        click.echo(f"table {plan.table} is not known to lack anything of pipeline {plan.pipeline}")
    for gap in plan.gaps:
        for r in gap.ranges:
            click.echo(f"  {r.topic}:{r.partition} from {r.start} to {r.end - 1}: {counted(r.end - r.start, 'offset')}")

"""`floe tap FILE`: live records as they are at one stage of the pipeline, looked at by nobody's group."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.dlq_options import PipelineFile, parsed_place, pipeline_file
from framework.diagnose.counted import counted

if TYPE_CHECKING:
    from framework.plan.model import Plan
    from framework.record.process import Sql

STAGES = ("decode", "route", "convert", "dead_letter")
# Dead letters are few: so many of the newest records are looked at for them, before those that come.
_LOOK_BACK = 1_000


def _from(context: click.Context, parameter: click.Parameter, value: str) -> Any:
    return value if value in ("newest", "end") else parsed_place(context, parameter, value)


@click.command()
@pipeline_file
@click.option("--stage", type=click.Choice(STAGES), default="convert", show_default=True, help="What is shown.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many records to show."
)
@click.option(
    "--seconds", type=click.FloatRange(0, 86_400), default=10, show_default=True, help="How long to wait for more."
)
@click.option(
    "--from",
    "begin",
    callback=_from,
    default="newest",
    show_default=True,
    metavar="WHERE",
    help="`newest`: the newest records that are there, and those that come; `end`: those that come; or "
    "TOPIC-PARTITION@OFFSET, and then that partition alone.",
)
@click.option(
    "--mask", multiple=True, metavar="FIELD", help="Hide this field (dotted path) and all below it; `key` too."
)
@click.option("--no-spark", is_flag=True, help="Do not start Spark: a pipeline with `transform.sql` is refused.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line (schemas/tap.v1.schema.json).")
def tap(
    pipeline_file: PipelineFile,
    stage: str,
    limit: int,
    seconds: float,
    begin: str | tuple[str, int, int],
    mask: tuple[str, ...],
    no_spark: bool,
    as_json: bool,
) -> int:
    """Show live records at one stage: decoded, with their tables, as rows, or only those that are dead letters.

    Each goes through the run's own code, with the tables as they are now: what is shown is what a run would do. Nothing is
    written, no group is joined and no offset is committed. Values of secrets, of fields that `evolve.exclude` names and of
    those that --mask names are hidden.

    \b
    floe tap pipelines/orders.yaml -t prod --stage route --limit 5
    floe tap pipelines/orders.yaml -t prod --stage dead_letter --seconds 60 --mask customer.email --json
    """
    from framework.adapters.kafka.live import Begin
    from framework.ops.tap.lines import Stage, document, is_of_stage, json_line, text_lines
    from framework.ops.tap.live import live_samples
    from framework.plan.compile import compile_plan
    from framework.record.masks import Masks

    pipeline = pipeline_file.load()
    plan = compile_plan(pipeline)
    if plan.transform is not None and no_spark:
        raise click.UsageError("the pipeline has `transform.sql`, which only Spark can run; leave out --no-spark")
    at, masks = Stage(stage), Masks.of(mask, plan.write.tables)
    hidden: set[str] = set()
    count = looked = 0
    place = begin if isinstance(begin, tuple) else None
    newest = 0 if begin == "end" else _LOOK_BACK if at is Stage.DEAD_LETTER else limit
    with ExitStack() as stack:
        sql = sql_of(plan, pipeline.target.spark_conf, stack)
        for found in live_samples(pipeline, plan, Begin(newest, place), seconds, sql):
            looked += len(found)
            chosen = [seen for seen in found if is_of_stage(seen, at)]
            left = limit - count
            for seen in chosen[:left] if place is not None else chosen[-left:]:
                line = document(seen, at, masks)
                hidden |= set(line["masked"])
                click.echo(json_line(line) if as_json else "\n".join(text_lines(line)))
                count += 1
            if count >= limit:
                break
    reported = f"masked: {', '.join(map(log_line, sorted(hidden)))}; " if hidden else ""
    click.echo(f"{reported}{counted(count, 'record')} shown of {looked:,} looked at; no offset was committed", err=True)
    return 0


def sql_of(plan: Plan, conf: Mapping[str, str], stack: ExitStack) -> Sql | None:
    """What runs the pipeline's SQL; Spark is started for it alone."""
    if plan.transform is None:
        return None
    from framework.testing.sql import LocalSpark

    engine = stack.enter_context(LocalSpark(lambda text: click.echo(log_line(text), err=True)))
    return engine.bind(plan.transform.sql, conf)

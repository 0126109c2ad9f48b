"""`floe readiness FILE`: the scorecard of a migration review, answered live, with evidence."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.dlq_options import PipelineFile, pipeline_file
from framework.cli.shared.options import format_option, report_option, write_reports
from framework.cli.watch.tap import sql_of
from framework.config.units import duration_ms

FORMATS = ("md", "json", "html")


def _duration(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is not None and duration_ms(value) is None:
        raise click.BadParameter(f"`{value}` is not a duration, such as 3d or 36h", context, parameter)
    return None if value is None else duration_ms(value)


@click.command()
@pipeline_file
@format_option(FORMATS, "Markdown, JSON (schemas/readiness.v1.schema.json), or one HTML page.")
@report_option(FORMATS)
@click.option("--old-group", metavar="GROUP", help="The consumer group of the writer before this one: where it stands.")
@click.option(
    "--replay-offsets",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="How many of the newest offsets are read again and compared.",
)
@click.option(
    "--outage",
    metavar="DURATION",
    callback=_duration,
    help="The longest outage, such as 3d, that must lose nothing, in place of `source.longest_outage`: what keeps less fails.",
)
@click.option(
    "--comparison",
    "comparisons",
    type=click.File("r"),
    multiple=True,
    metavar="FILE",
    help="What `floe compare --json` printed for a table of the pipeline; repeat it for several.",
)
@click.option("--no-spark", is_flag=True, help="Do not start Spark; then a pipeline with SQL is not read again.")
def readiness(
    pipeline_file: PipelineFile,
    format_: str,
    reports: list[tuple[str, Path]],
    old_group: str | None,
    replay_offsets: int,
    outage: int | None,
    comparisons: tuple[TextIO, ...],
    no_spark: bool,
) -> int:
    """Answer the questions of a migration review from broker, catalog, store and tables, each with what was seen and the
    remedy.

    Ends with 0 for go and with 10 for no go, if some check fails. What could not be checked is said, and never counts as
    passed. Changes nothing; scratch tables and a scratch topic are made and removed.

    \b
    floe readiness pipelines/orders.yaml -t prod
    floe readiness pipelines/orders.yaml -t prod --outage 3d --old-group connect-orders --report html=readiness.html
    """
    from framework.ops.readiness.card import CardOptions, scorecard
    from framework.ops.readiness.text import rendered
    from framework.plan.compile import compile_plan

    pipeline = pipeline_file.load()
    plan = compile_plan(pipeline)
    with ExitStack() as stack:
        sql = None if no_spark else sql_of(plan, pipeline.target.spark_conf, stack)
        compared = tuple((each.name, each.read()) for each in comparisons)
        asked = CardOptions(old_group, replay_offsets, sql, outage, compared)
        card = scorecard(pipeline, plan, asked, lambda name: click.echo(f"  {log_line(name)}", err=True))
    click.echo(rendered(card, format_))
    write_reports(reports, partial(rendered, card))
    return card.exit_code

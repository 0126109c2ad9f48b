"""`floe cost FILE`: what a pipeline uses and costs in a month, at the rates that were seen."""

from __future__ import annotations

import json
from pathlib import Path

import click

from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.dlq_options import PipelineFile, pipeline_file
from framework.cli.shared.options import json_option


@click.command()
@pipeline_file
@click.option(
    "--prices", type=click.Path(path_type=Path), metavar="FILE", help="What things cost; without it there is no money."
)
@click.option(
    "--metrics",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="What `/metrics` of a run says, saved in a file. Requests are then those that it counted. "
    "Repeat it for several processes.",
)
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="How far back to look.")
@click.option(
    "--list", "lists", is_flag=True, help="List all files of the tables, for the size of metadata and orphans."
)
@json_option
def cost(
    pipeline_file: PipelineFile,
    prices: Path | None,
    metrics: tuple[Path, ...],
    days: int,
    lists: bool,
    as_json: bool,
) -> int:
    """Show what a pipeline stores, asks and commits in a month at the rates that were seen, and what that costs.

    Rates are those of the snapshots that the tables keep and of the records that the source topics hold. What is not known is
    said to be so. Changes nothing.

    \b
    floe cost pipelines/orders.yaml -t prod
    floe cost pipelines/orders.yaml -t prod --prices prices.yaml --metrics driver.prom --list
    """
    from framework.adapters.project.files import real_world
    from framework.ops.cost.look import counted_in, look
    from framework.ops.cost.model import DAY_MS
    from framework.ops.cost.prices import read_prices
    from framework.ops.cost.text import document, lines
    from framework.ops.readiness.review import Review
    from framework.plan.compile import compile_plan

    pipeline = pipeline_file.load()
    known = None if prices is None else read_prices(prices, real_world())
    try:
        counts = counted_in([each.read_text(encoding="utf-8", errors="replace") for each in metrics])
    except OSError as error:
        raise click.FileError(str(error.filename), error.strerror) from error
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; give it what `/metrics` of a `floe run` says", param_hint="--metrics"
        ) from None
    review = Review.of(pipeline, compile_plan(pipeline))
    month = look(review, days * DAY_MS, counts, known, lists, lambda text: click.echo(f"  {log_line(text)}", err=True))
    if as_json:
        click.echo(json.dumps(document(month)))
    else:
        for line in lines(month):
            click.echo(line)
    return 0


__all__ = ["cost"]

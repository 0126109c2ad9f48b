"""`floe run FILE...`: compile the files and run them in one driver."""

from __future__ import annotations

import json
import time

import click

from framework.cli.options import load_options, load_pipelines


@click.command("run")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@load_options
@click.option("--until-caught-up", is_flag=True, help="Read to the end offsets seen at the start, commit, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def run_command(
    files: tuple[str, ...],
    target: str | None,
    variables: tuple[str, ...],
    sets: tuple[str, ...],
    until_caught_up: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run pipelines until SIGTERM, or until caught up.

    All FILEs share one driver and one coordinator. SIGTERM or Ctrl-C drains: the batch in hand is finished and
    announced, what is announced is committed, and the exit code is 0.
    """
    pipelines = load_pipelines(files, target, variables, sets)
    started = time.monotonic()

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"{time.monotonic() - started:7.1f} s  {text}", err=True)

    from framework.runtime.job import run_job

    result = run_job(pipelines, until_caught_up, say)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "command": "run",
                    "ok": True,
                    "seconds": round(result.seconds, 1),
                    "pipelines": [
                        {
                            "pipeline": r.pipeline,
                            "state": r.state,
                            "batches": r.batches,
                            "rows": r.rows,
                            "accounting": r.accounting.__dict__,
                            "totals": r.totals.__dict__,
                        }
                        for r in result.reports
                    ],
                }
            )
        )
        return
    for report in result.reports:
        a = report.accounting
        click.echo(
            f"{report.pipeline}: {report.state}; {a.offsets:,} offsets = {a.written:,} written + {a.filtered:,} filtered + "
            f"{a.dead_lettered:,} dead letters + {a.dropped:,} dropped + {a.holes:,} holes; {a.rows:,} rows in {len(report.rows)} tables"
        )

"""`floe run FILE...`: compile the files and run them in one driver."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from framework.adapters.project.files import load_or_raise
from framework.adapters.telemetry.run_log import RunLog
from framework.cli.shared.options import FILES, json_option, loading_options, log_format_option
from framework.cli.shared.review import check_reviewed, review_options
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import LogFormat


@click.command()
@FILES
@loading_options
@review_options
@click.option("--until-caught-up", is_flag=True, help="Read to the end offsets seen at the start, commit, and end.")
@json_option
@log_format_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def run(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    reviewed: str | None,
    allow: tuple[str, ...],
    until_caught_up: bool,
    as_json: bool,
    log_format: LogFormat,
    quiet: bool,
) -> None:
    """Run pipelines until SIGTERM, or until caught up.

    All FILEs share one driver and one coordinator. SIGTERM or Ctrl-C drains: the batch in hand is finished and
    announced, what is announced is committed, and the exit code is 0.

    A change since the last deployment that takes something away is refused until you allow it by its code. `floe plan`
    shows the codes.
    """
    pipelines = load_or_raise(files, target, variables, sets)
    allowed = check_reviewed(pipelines, reviewed, allow)
    from framework.runtime.spark.session import StartingSession

    spark = StartingSession(pipelines)
    if not until_caught_up:
        spark.begin()  # Java starts while the rest of floe is being imported and the broker is asked

    say = RunLog(log_format, quiet)
    from framework.deploy.risks import check_breaking_changes
    from framework.runtime.job import run_job

    check_breaking_changes(pipelines, allowed)
    result = run_job(pipelines, until_caught_up, say, spark=spark)
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
                            "troubles": r.troubles,
                        }
                        for r in result.reports
                    ],
                }
            )
        )
        return
    echo = say.answer if log_format is LogFormat.JSON else click.echo
    for report in result.reports:
        a = report.accounting
        echo(
            f"{report.pipeline}: {report.state}; {a}; {counted(a.rows, 'row')} in {counted(len(report.rows), 'table')}"
        )
        for table, reason in sorted(report.troubles.items()):
            echo(f"  {table} was in trouble: {reason}")

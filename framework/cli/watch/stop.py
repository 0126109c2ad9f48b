"""`floe stop PIPELINE`: asks the live run, wherever it is, to drain, and reports until it has ended."""

from __future__ import annotations

import json

import click

from framework.cli.shared.options import json_option, whoami, why_option
from framework.cli.shared.target_options import open_pipeline, pipeline_argument, target_options
from framework.cli.watch.log import describe
from framework.commit.events.event_types import CommitToTable, ControlEvent, DataComplete, Health, StateChanged
from framework.errors import FloeError, TableBlocked


@click.command()
@pipeline_argument
@target_options
@click.option(
    "--drain", is_flag=True, default=True, help="Finish the current batch first; this is the default, and the only way."
)
@click.option("--timeout", "timeout_s", type=click.IntRange(1), default=300, show_default=True, help="In seconds.")
@why_option
@json_option
def stop(
    pipeline: str,
    target: str | None,
    connection: str | None,
    control_topic: str,
    drain: bool,
    timeout_s: int,
    why: str,
    as_json: bool,
) -> None:
    """Ask the live run to finish its batch, announce it, commit what is announced, and end with exit code 0.

    The request goes through the control topic, so it reaches the run wherever it is. Other pipelines of the same driver go
    on. Exit code 0: it drained and ended, or was not running. 1: it failed. 6: a table is blocked or paused, and what is
    announced for it waits. 7: it did not end in time.

    \b
    floe stop orders --drain --timeout 60 --target prod
    """
    from framework.recovery.requests import stop_pipeline

    name, control, _ = open_pipeline(pipeline, target, connection, control_topic)

    def show(offset: int, event: ControlEvent) -> None:
        ours = isinstance(event, DataComplete) and event.pipeline == name
        reported = isinstance(event, StateChanged) and event.name == name
        if not as_json and (ours or reported or isinstance(event, CommitToTable)):
            click.echo(f"{offset:>8}  {type(event).__name__:<15} {describe(event)}")

    outcome = stop_pipeline(
        control.kafka, control.target.prefix, control.topic, name, float(timeout_s), whoami(), show, why
    )
    if outcome.runs and outcome.state is not Health.STOPPED:
        raise FloeError(
            f"pipeline {name} has failed: {outcome.reason}",
            code=outcome.code or "FLOE-R101",
            place=name,
            remedy=outcome.remedy or "`floe status` says why; `floe run FILE` goes on from the safe offsets",
        )
    if outcome.code:
        raise TableBlocked(outcome.reason, code=outcome.code, place=name, remedy=outcome.remedy)
    if as_json:
        document = {"pipeline": name, "runs": list(outcome.runs), "reason": outcome.reason}
        click.echo(json.dumps({"command": "stop", "ok": True, **document}))
    else:
        click.echo(
            f"{name} has stopped: {outcome.reason}" if outcome.runs else f"{name} is not running: nothing to stop"
        )

"""`floe pause` and `floe resume`: pause the reading of pipelines or the commits of tables, whichever process runs them."""

from __future__ import annotations

import json
import time

import click

from framework.cli.shared import complete
from framework.cli.shared.options import json_option, whoami, why_option
from framework.cli.shared.target_options import Control, open_control, target_options
from framework.commit.events.event_types import Holds, PauseChanged


def _what(command: click.Command) -> click.Command:
    """--reading and --commits."""
    for option in (
        click.option(
            "--commits",
            metavar="PATTERN",
            help="The tables whose commits to pause: a name or a glob; `cold:*` for all of a catalog.",
            shell_complete=complete.tables,
        ),
        click.option(
            "--reading",
            metavar="PATTERN",
            help="The pipelines whose reading to pause: a name or a glob.",
            shell_complete=complete.pipeline_names,
        ),
    ):
        command = option(command)
    return command


@click.command()
@target_options
@_what  # type: ignore[arg-type]
@click.option("--reason", "--why", default="", help="Why; shown by `floe status`.")
@json_option
def pause(
    target: str | None,
    connection: str | None,
    control_topic: str,
    reading: str | None,
    commits: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Pause the reading of pipelines, or the commits of tables, until `floe resume` with the same pattern.

    A pause outlives runs and coordinators, and `floe status` shows it. While reading is paused, heartbeats go on. While
    commits are paused, announcements wait and nothing is lost.

    \b
    floe pause --commits 'rpc.*' --reason "compaction" --target prod
    floe pause --reading orders --target prod
    """
    _say(open_control(target, connection, control_topic), reading, commits, True, reason, as_json)


@click.command()
@target_options
@_what  # type: ignore[arg-type]
@why_option
@json_option
def resume(
    target: str | None,
    connection: str | None,
    control_topic: str,
    reading: str | None,
    commits: str | None,
    why: str,
    as_json: bool,
) -> None:
    """Resume what was paused. Give the same pattern as for `floe pause`.

    \b
    floe resume --commits 'rpc.*' --target prod
    """
    _say(open_control(target, connection, control_topic), reading, commits, False, why, as_json)


def _say(control: Control, reading: str | None, commits: str | None, paused: bool, reason: str, as_json: bool) -> None:
    from framework.adapters.kafka.admin import KafkaAdmin
    from framework.adapters.kafka.control.topic import check_control_topic
    from framework.recovery.requests import say_pause

    if (reading is None) == (commits is None):
        raise click.UsageError("name one of --reading PIPELINE and --commits TABLE")
    holds, pattern = (Holds.READING, reading) if reading is not None else (Holds.COMMITS, commits or "")
    check_control_topic(KafkaAdmin(control.kafka), control.topic)
    event = PauseChanged(holds, pattern, paused, reason, whoami(), int(time.time() * 1000))
    changed = say_pause(control.kafka, control.target.prefix, control.topic, event)
    verb = "pause" if paused else "resume"
    if as_json:
        document = {"holds": holds.value, "pattern": pattern, "paused": paused, "changed": changed}
        click.echo(json.dumps({"command": verb, "ok": True, **document}))
    elif paused:
        click.echo(
            f"{holds.value} of `{pattern}` is paused" if changed else f"{holds.value} of `{pattern}` was paused already"
        )
    elif changed:
        click.echo(f"{holds.value} of `{pattern}` goes on")
    else:
        click.echo(f"there is no pause of {holds.value} with the pattern `{pattern}`; `floe status` lists all pauses")

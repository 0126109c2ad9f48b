"""`floe status`: which offset is safe, what is announced but not visible, which snapshot is visible, and who coordinates.

In: a target, filters. Out: two tables for people, or one JSON document; an exit code that says trouble. By default from
the control topic's words alone, without a table being loaded; Iceberg is imported only under `--verify` and `--health`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from framework.cli.shared import complete
from framework.cli.shared.options import json_option
from framework.cli.shared.target_options import Control, open_control, target_options
from framework.commit.events.event_types import Health
from framework.errors import FloeError

if TYPE_CHECKING:
    from framework.adapters.iceberg.tables import IcebergTables
    from framework.observe.status.read import Status

STATES = [state.value for state in Health]


@click.command()
@target_options
@click.option(
    "--pipeline",
    "pipelines",
    multiple=True,
    metavar="PATTERN",
    help="Only pipelines of this name or glob, and tables that they write to. May be repeated.",
    shell_complete=complete.pipeline_names,
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="PATTERN",
    help="Only tables of this name or glob. May be repeated.",
    shell_complete=complete.tables,
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only what is in this state. May be repeated.",
)
@click.option("--verify", is_flag=True, help="Also load the tables, and say where they differ from the log.")
@click.option("--health", "with_health", is_flag=True, help="As --verify, and say what maintenance would gain.")
@click.option("--watch", is_flag=True, help="Show it again and again, until you end it with Ctrl-C.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch: the pause between two looks.",
)
@json_option
def status(
    target: str | None,
    connection: str | None,
    control_topic: str,
    pipelines: tuple[str, ...],
    tables: tuple[str, ...],
    states: tuple[str, ...],
    verify: bool,
    with_health: bool,
    watch: bool,
    every_s: float,
    as_json: bool,
) -> int:
    """Show pipelines (state, lag, where every record went) and tables (state, last commit, what waits).

    States: RUNNING, IDLE, DEGRADED, STALLED, BLOCKED, FAILED, PAUSED, STOPPED. Whatever has a problem says why, since when,
    and what to do. Ends with exit code 9 if anything that is shown is BLOCKED, STALLED or FAILED.

    What runs and coordinators have written to the control topic counts; --verify also loads the tables.

    \b
    floe status --target prod
    floe status --target prod --state BLOCKED --state FAILED
    """
    from framework.observe.status.read import filtered, read_status

    control = open_control(target, connection, control_topic)
    catalog = _catalog(control) if verify or with_health else None

    def look() -> Status:
        found = read_status(
            control.target.name,
            control.target.prefix,
            control.kafka,
            control.topic,
            catalog,
            with_health,
            control.other,
        )
        return filtered(found, pipelines, tables, tuple(Health(state.upper()) for state in states))

    if watch:
        _watch(look, every_s, as_json)
    found = look()
    _show(found, as_json)
    return found.exit_code


def _catalog(control: Control) -> IcebergTables:
    from framework.runtime.job import open_catalog

    return open_catalog(control.target, ())


def _show(found: Status, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    from framework.cli.shared.status_text import print_status
    from framework.diagnose.shown import all_shown

    print_status(all_shown(found))


def _watch(look: Callable[[], Status], every_s: float, as_json: bool) -> None:
    """Until a signal; a broker that is away for now is reported, and asked again."""
    while True:
        shown: Status | FloeError
        try:
            shown = look()
        except FloeError as error:
            shown = error
        if not as_json:
            click.clear()  # only a terminal
        if not isinstance(shown, FloeError):
            _show(shown, as_json)
        elif as_json:
            from framework.cli.shared.json_errors import document_of

            click.echo(json.dumps(document_of(("status",), shown)))
        else:
            from framework.adapters.telemetry.safe_output import error_text

            click.echo(error_text(shown))
        time.sleep(every_s)

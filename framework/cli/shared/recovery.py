"""What the recovery verbs share: a pipeline's file, opened with the broker and the catalogs that hold its state, and what a dry
run says of a run that is live: the verb itself is refused until that has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from framework.adapters.secrets import resolve
from framework.adapters.telemetry.safe_output import log_line
from framework.config.spec import LoadedPipeline
from framework.diagnose.shown import argument
from framework.diagnose.whole_commands import UNKNOWN_RUN, ReaderPlace, StartedFrom, whole_commands
from framework.errors import SetupError
from framework.plan.catalogs import used_catalogs
from framework.plan.compile import compile_plan

if TYPE_CHECKING:
    from framework.recovery.rebase import Recovery


def open_recovery(loaded: LoadedPipeline, quiet: bool) -> Recovery:
    """Open broker and catalog of the file's target; progress goes to standard error unless `quiet`.

    Raises:
        SetupError: the catalog cannot be reached.
    """
    from framework.recovery.rebase import Recovery
    from framework.runtime.job import open_catalog

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"  {log_line(text)}", err=True)

    plan = compile_plan(loaded)
    kafka = resolve(loaded.target.kafka[plan.read.connection])
    return Recovery(plan, loaded.target.prefix, kafka, open_catalog(loaded.target, used_catalogs(plan)), say)


def refuse_unless_dry_run(dry_run: bool, refuse: Callable[[], None]) -> None:
    """Ends the verb where `refuse` does. A dry run says on standard error what would refuse it, and goes on.

    Raises:
        SetupError: what `refuse` raises, for the verb itself.
    """
    try:
        refuse()
    except SetupError as error:
        if not dry_run:
            raise
        said = f"without --dry-run it is refused for now ({error.code}): {error.message}; {whole_here(error.remedy)}"
        click.echo(log_line(said), err=True)


def whole_here(text: str, run: StartedFrom = UNKNOWN_RUN) -> str:
    """The text with whole commands, as whoever typed this verb would type them."""
    given = click.get_current_context().params
    place = ReaderPlace(*(given.get(name) or "" for name in ("target", "control_topic", "connection")))
    return whole_commands(text, place, run if run.file else StartedFrom(given.get("file") or ""))


def replay_command(table: str, pipeline: str, runs: Mapping[str, StartedFrom], ranges: str = "") -> str:
    """Between back quotes, and whole where a run has said which file it runs."""
    named = f"`floe replay FILE --table {argument(table)}{' ' if ranges else ''}{ranges}`"
    return whole_here(named, runs.get(pipeline, UNKNOWN_RUN))

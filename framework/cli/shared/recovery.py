"""What the recovery verbs share: a pipeline's file, opened with the broker and the catalogs that hold its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from framework.adapters.secrets import resolve
from framework.adapters.telemetry.safe_output import log_line
from framework.config.spec import LoadedPipeline
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

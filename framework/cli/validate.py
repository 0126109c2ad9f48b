"""`floe validate`: pipeline and target files checked without a cluster. Imports no engine, no broker client, no Arrow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping

import click

from framework.adapters.files import expand, real_world
from framework.cli.main import use_colour
from framework.cli.options import FILES, format_option, loading_options
from framework.config.check_files import check_files
from framework.diagnose.render import FORMATS, render


@click.command()
@FILES
@loading_options
@format_option(FORMATS, "How findings are printed.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
def validate(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    format_: str,
    strict: bool,
) -> int:
    """Check pipeline, target and template files without a cluster: every finding, in every file.

    A folder means all *.yaml files in it and below it.
    """
    paths = expand(files)
    # Trees of files hold no cycles that matter in a process this short, and looking for them takes a fifth of its time.
    gc.disable()
    try:
        findings = check_files(paths, target, real_world(offline=True), variables, sets)
        click.echo(render(findings, format_, [str(path) for path in paths], use_colour(sys.stdout.isatty())))
    finally:
        gc.enable()
    wrong = any(finding.is_error or strict for finding in findings)
    return 2 if wrong else 0

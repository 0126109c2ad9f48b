"""`floe validate`: pipeline and target files checked without a cluster. Imports no engine, no broker client, no Arrow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from framework.adapters.project.files import find_files, no_files, real_world
from framework.cli.shared.options import FILES, format_option, loading_options, report_option, use_colour, write_reports
from framework.config.check_files import check_files
from framework.diagnose.diagnostic import Severity
from framework.diagnose.render import FORMATS, render
from framework.diagnose.shown import shown


@click.command()
@FILES
@loading_options
@format_option(FORMATS, "How findings are printed.")
@report_option(FORMATS)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--verbose", "-v", is_flag=True, help="Also name the YAML files of folders that are not floe's.")
def validate(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    format_: str,
    reports: list[tuple[str, Path]],
    strict: bool,
    verbose: bool,
) -> int:
    """Check pipeline, target and template files without a cluster: every finding, in every file.

    A folder means floe's *.yaml and *.yml files in it and below it: those that begin with `apiVersion: floe/v1`, or else
    look like a pipeline, target or template. Other tools' files are left alone; a file that you name is always checked.
    """
    found = find_files(files)
    if verbose:
        for path in found.skipped:
            click.echo(f"{shown(str(path))}: skipped, not a floe file", err=True)
    # Trees of files hold no cycles that matter in a process this short, and looking for them takes a fifth of its time.
    gc.disable()
    try:
        findings = check_files(found.files, target, real_world(offline=True), variables, sets)
        findings += tuple(map(no_files, found.empty))
        named = [str(path) for path in (*found.files, *found.empty)]
        if strict:  # what makes a check red is shown as an error, or nobody finds it
            findings = tuple(replace(finding, severity=Severity.ERROR) for finding in findings)
        click.echo(render(findings, format_, named, use_colour(sys.stdout.isatty())))
        write_reports(reports, partial(render, findings, files=named))
    finally:
        gc.enable()
    return 2 if any(finding.is_error for finding in findings) else 0

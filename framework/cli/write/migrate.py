"""`floe migrate`: updates files to the current version of their format."""

from __future__ import annotations

import sys
from collections import Counter

import click

from framework.adapters.project.files import expand, real_world, rewrite_text
from framework.cli.shared.options import FILES, use_colour
from framework.config.document import Files, read_source
from framework.config.versions import CURRENT, migrate
from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.render import text_of


@click.command("migrate")
@FILES
@click.option("--check", is_flag=True, help="Write nothing; end with 1 if a file has an older version.")
def migrate_command(files: tuple[str, ...], check: bool) -> int:
    """Update pipeline, target and template files to the current version of their format, `apiVersion`.

    Changes only what the newer version requires; comments and layout stay. A folder means floe's *.yaml and *.yml
    files in it and below it. Ends with 2 when a file is wrong or has a version that this floe does not know.

    \b
    floe migrate pipelines
    floe migrate pipelines --check
    """
    world = real_world(offline=True)
    findings: list[Diagnostic] = []
    done: Counter[str] = Counter()
    for path in expand(files):
        source, problem = read_source(path, world)
        if source is None:
            findings += [problem.diagnostic] if problem else []
            continue
        migrated = migrate(source)
        texts = Files()
        texts.add(source)
        findings += texts.finish(migrated.findings)
        if migrated.text is None:
            continue
        if migrated.text == source.text:
            done["current"] += 1
            continue
        click.echo(f"{path}: {migrated.version} {'is not' if check else 'became'} {CURRENT}")
        done["older"] += 1
        if not check:
            rewrite_text(path, source.text, migrated.text)
    for finding in findings:
        click.echo(text_of(finding, use_colour(sys.stdout.isatty())) + "\n")
    if done["current"]:
        click.echo(f"{counted(done['current'], 'file has', 'files have')} the current version, {CURRENT}")
    if findings:
        return 2
    return 1 if check and done["older"] else 0

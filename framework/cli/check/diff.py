"""`floe diff FILE...`: how the files differ from what was deployed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from framework.adapters.project.files import load_or_raise
from framework.cli.check.plan import look, print_lines
from framework.cli.shared.options import json_option, loading_options


@click.command()
@click.argument("files", nargs=-1, type=click.Path(), metavar="FILE...")
@loading_options
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False),
    help="A saved plan to compare with, instead of what was deployed; does not ask broker or catalog.",
)
@click.option(
    "--template",
    metavar="NAME",
    help="Show what this version of a template (library:name@2) would change for each pipeline that uses the template, "
    "here and below unless files are named; asks nobody.",
)
@click.option("--exit-code", "with_code", is_flag=True, help="End with 1 when something differs.")
@json_option
def diff(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    against: str | None,
    template: str | None,
    with_code: bool,
    as_json: bool,
) -> int:
    """Show what would change: deployed on the left, the files on the right. `floe plan` also shows tables and offsets.

    \b
    floe diff pipelines/ --target prod --exit-code
    floe diff --template acme:landing@2
    """
    if not files:
        if template is None:
            raise click.UsageError("name a file, or a folder with pipeline files")
        files = (".",)
    if template is not None:
        from framework.cli.check.diff_template import diff_template

        if against is not None:
            raise click.UsageError("--template compares the files with themselves; leave --against out")
        return diff_template(files, template, target, variables, sets, with_code, as_json)
    from framework.ops.preview.model import Action
    from framework.ops.preview.offline import preview_offline
    from framework.ops.preview.text import pipeline_lines, removed_lines

    pipelines = load_or_raise(files, target, variables, sets, offline=against is not None)
    folders = [Path(file) for file in files if Path(file).is_dir()]
    if against:
        previews, removed = look(pipelines, folders, True, against)
    else:
        from framework.deploy.last_deployed import read_histories
        from framework.deploy.removed_runs import removed_from

        history = read_histories(pipelines)
        previews, removed = preview_offline(pipelines, history), removed_from(folders, pipelines, history)
    differ = sum(preview.action is not Action.UNCHANGED for preview in previews) + len(removed)
    if as_json:
        keys = ("pipeline", "target", "file", "hash", "action", "deployed", "changes")
        shown = [{key: value for key, value in preview.to_json().items() if key in keys} for preview in previews]
        document = {"command": "diff", "ok": True, "differ": differ, "pipelines": shown}
        click.echo(json.dumps({**document, "removed": [each.to_json() for each in removed]}, indent=2))
    else:
        for preview in previews:
            print_lines(pipeline_lines(preview, (), False))
        print_lines(removed_lines(removed, ()))
    return 1 if with_code and differ else 0

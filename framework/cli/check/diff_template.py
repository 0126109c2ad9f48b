"""`floe diff --template`: what another version of a template would change, for each pipeline that uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from framework.adapters.project.files import load_or_raise, raise_findings, real_world
from framework.cli.check.plan import print_lines
from framework.config.document import read_source
from framework.config.load import load_pipeline
from framework.config.spec import LoadedPipeline
from framework.config.templates.find import find_template
from framework.config.templates.instead import same_template, with_template
from framework.diagnose.render import text_of
from framework.diagnose.shown import shown
from framework.ops.preview.text import PreviewLine, changes_lines
from framework.plan.diff.template_change import TemplateChange, summary, template_change

_HASH_SHOWN = len("sha256:") + 12


def diff_template(
    files: Sequence[str],
    name: str,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    with_code: bool,
    as_json: bool,
) -> int:
    """Prints the changes; 2 where a file would not load, 1 with `with_code` where something differs, else 0."""
    pipelines = load_or_raise(files, target, variables, sets, offline=True)
    using = [each for each in pipelines if each.template and same_template(each.template.name, name)]
    if not using:
        folder = Path(pipelines[0].file).parent
        finding = find_template(name, None, folder, real_world(offline=True)).finding
        if finding:
            raise_findings("there is no such template", (finding,))
    changes = [_change(each, name, target, variables, sets) for each in using]
    differ = sum(bool(change.changes) for change in changes)
    wrong = any(change.after is None for change in changes)
    if as_json:
        document = {"command": "diff", "ok": not wrong, "template": name, "differ": differ}
        click.echo(json.dumps({**document, "pipelines": [change.to_json() for change in changes]}, indent=2))
    else:
        for change in changes:
            print_lines(_lines(change))
        click.echo(shown(summary(changes, name.partition("@")[0], len(pipelines) - len(using))))
    return 2 if wrong else 1 if with_code and differ else 0


def _change(
    now: LoadedPipeline, name: str, target: str | None, variables: Mapping[str, str], sets: Mapping[str, str]
) -> TemplateChange:
    world = real_world(offline=True)
    path = Path(now.file)
    source, problem = read_source(path, world)
    if source is None:
        return template_change(now, None, [problem.diagnostic] if problem else [])
    text, findings = with_template(source, name, world)
    if findings:
        return template_change(now, None, findings)
    read = world.read_file
    changed = replace(world, read_file=lambda asked: text.text if asked == path else read(asked))
    return template_change(now, load_pipeline(path, target, changed, variables, sets), ())


def _lines(change: TemplateChange) -> Iterator[PreviewLine]:
    before = f"{change.before.name} {change.before.version} ({change.before.hash[:_HASH_SHOWN]})"
    if change.after is None:
        yield PreviewLine("!", 0, f"pipeline {change.pipeline} ({change.file}): would not load; it uses {before}")
        for finding in change.findings:
            for line in text_of(finding).splitlines():
                yield PreviewLine(" ", 2, line)
        return
    after = f"{change.after.name} {change.after.version} ({change.after.hash[:_HASH_SHOWN]})"
    reported = "" if change.changes else ", nothing else changes"
    yield PreviewLine(
        "~" if change.changes else " ", 0, f"pipeline {change.pipeline} ({change.file}): {before} -> {after}{reported}"
    )
    yield from changes_lines(change.changes, ())

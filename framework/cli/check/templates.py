"""`floe templates`: shared templates by the names under which pipelines use them, and the lock of their libraries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from framework.adapters.project.files import raise_findings, real_world
from framework.adapters.project.template_names import template_names
from framework.cli.check.templates_lock import lock, update
from framework.cli.shared.options import format_option, json_option
from framework.config.filled.variables import Declared
from framework.config.names.file_kinds import kind_in
from framework.config.templates.find import TemplateLookup, find_template
from framework.config.templates.library import read_template
from framework.config.tree import Mapping, plain
from framework.diagnose.shown import shown
from framework.testing.report import FORMATS

_WIDTH = 100
_FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("pipelines"),
    show_default=True,
    help="The folder of the pipeline files that would use them.",
)


@click.group("templates")
def templates() -> None:
    """List, describe and test shared templates; lock and update libraries of them."""


templates.add_command(lock)
templates.add_command(update)


@templates.command("list")
@_FOLDER
@json_option
def list_command(folder: Path, as_json: bool) -> int:
    """List the templates that pipelines in a folder can use: of folders `templates/`, of locked libraries, of packages."""
    world = real_world(offline=True)
    rows = []
    for name in template_names(folder, world):
        found = find_template(name, None, folder, world)
        if found.source is not None and kind_in(found.source.text) != "Template":
            continue  # a part that templates of its library include
        head = _head(found)
        problem = (
            found.finding.message if found.finding else "" if head else "its head is wrong; `floe validate` says how"
        )
        rows.append({"name": name, **(_about(head[0]) if head else {}), **({"problem": problem} if problem else {})})
    if as_json:
        click.echo(json.dumps({"command": "templates list", "ok": True, "templates": rows}, indent=2))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "version", "description"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            shown(row["name"]), row.get("version", ""), shown(row.get("problem") or row.get("description", ""))
        )
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.width = max(console.width, _WIDTH)
    console.print(table if rows else "no template is here; `floe explain C605` says where they are looked for")
    return 0


@templates.command("describe")
@click.argument("name")
@_FOLDER
@json_option
def describe_command(name: str, folder: Path, as_json: bool) -> int:
    """Show what a template makes and which parameters it takes."""
    found = find_template(name, None, folder, real_world(offline=True))
    tree, declared = _head_or_raise(found)
    about, parameters = _about(tree), [_parameter(each) for each in declared]
    if as_json:
        document = {"command": "templates describe", "ok": True, "name": name, **about, "parameters": parameters}
        click.echo(json.dumps(document, indent=2))
        return 0
    click.echo(f"{shown(name)} {about['version']}: {shown(about['description'])}")
    for each in parameters:
        given = f"by default {json.dumps(each['default'])}" if "default" in each else "required"
        choices = f", one of {json.dumps(each['choices'])}" if "choices" in each else ""
        click.echo(f"  {each['name']} ({each['type']}, {given}{choices}): {shown(each['description'])}")
    major = about["version"].partition(".")[0]
    required = ", ".join(f"{each['name']}: ..." for each in parameters if "default" not in each)
    click.echo(f'\ntemplate: {{name: {json.dumps(name)}, version: "{major}", parameters: {{{required}}}}}')
    return 0


@templates.command("test")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_FOLDER
@click.option("--target", "-t", metavar="NAME", help="The target, by name or path; by default `local`.")
@format_option(FORMATS, "How results are printed.")
@click.option("--no-spark", is_flag=True, help="Skip the tests of templates with `transform.sql`, with a warning.")
def test_command(names: tuple[str, ...], folder: Path, target: str | None, format_: str, no_spark: bool) -> int:
    """Run the tests of templates, of locked libraries and packages too. Ends as `floe test` does.

    \b
    floe templates test acme:landing@2
    """
    from framework.cli.check.test_verb import engine_for, exit_code, template_report
    from framework.cli.shared.options import use_colour
    from framework.config.load import DEFAULT_TARGET, load_target
    from framework.testing.report import render

    world = real_world(offline=True)
    loaded = load_target(target or DEFAULT_TARGET, world, folder)
    reports = []
    with engine_for(no_spark) as run:
        for name in names:
            found = find_template(name, None, folder, world)
            if found.source is None:
                raise_findings(f"the template {name} cannot be tested", (found.finding,) if found.finding else ())
            reports.append(template_report(Path(found.source.file), loaded, found.world, run))
    click.echo(render(reports, format_, use_colour(sys.stdout.isatty())))
    return exit_code(reports)


def _head(found: TemplateLookup) -> tuple[Mapping, tuple[Declared, ...]] | None:
    if found.source is None:
        return None
    tree, declared, findings = read_template(found.source)
    return None if tree is None or any(finding.is_error for finding in findings) else (tree, declared)


def _head_or_raise(found: TemplateLookup) -> tuple[Mapping, tuple[Declared, ...]]:
    if found.source is None:
        raise_findings("there is no such template", (found.finding,) if found.finding else ())
    tree, declared, findings = read_template(found.source)
    if tree is None or any(finding.is_error for finding in findings):
        raise_findings("the template is wrong", tuple(findings))
    return tree, declared


def _about(tree: Mapping) -> dict[str, str]:
    metadata = plain(tree).get("metadata", {})
    return {key: str(metadata[key]) for key in ("version", "description", "owner") if key in metadata}


def _parameter(declared: Declared) -> dict[str, Any]:
    value: dict[str, Any] = {"name": declared.name, "type": declared.type, "description": declared.description}
    if declared.has_default:
        value["default"] = declared.default
    return {**value, "choices": list(declared.choices)} if declared.choices else value

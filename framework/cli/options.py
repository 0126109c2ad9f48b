"""Options that many verbs share, and the values they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

import click

from framework.cli import complete
from framework.config.table_names import as_written

Command = TypeVar("Command", bound=Callable[..., Any])

FILES = click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")


def _pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"`{value}` has no `=`; write NAME=VALUE", context, parameter)
        pairs[name.strip()] = text
    return pairs


def loading_options(command: Command) -> Command:
    """Adds `--target`, `--var` and `--set`, which arrive as `target`, `variables` and `sets`."""
    for option in (
        click.option(
            "--set",
            "sets",
            multiple=True,
            callback=_pairs,
            metavar="PATH=VALUE",
            help="Replace one value of the file, such as tables.defaults.commit.interval=10s.",
        ),
        click.option(
            "--var",
            "variables",
            multiple=True,
            callback=_pairs,
            metavar="NAME=VALUE",
            help="Give a variable its value.",
        ),
        click.option(
            "--target",
            "-t",
            "target",
            metavar="NAME",
            help="The target, by name or path; by default `local`.",
            shell_complete=complete.targets,
        ),
    ):
        command = option(command)
    return command


def format_option(formats: Sequence[str], help_line: str) -> Callable[[Command], Command]:
    """Adds `--format`, which arrives as `format_`; the first one is the default."""
    choice = click.Choice(formats)
    return click.option("--format", "format_", type=choice, default=formats[0], show_default=True, help=help_line)


def json_option(command: Command) -> Command:
    """Adds `--json`, which arrives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def dry_run_option(command: Command) -> Command:
    """Adds `--dry-run`, which arrives as `dry_run`."""
    return click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")(command)


def why_option(command: Command) -> Command:
    """Adds `--why`, which arrives as `why`: it stands in the control log beside who did it and when."""
    return click.option(
        "--why", default="", metavar="TEXT", help="Why; `floe log` and `floe top` show it with your name."
    )(command)


def table_option(command: Command) -> Command:
    """Adds `--table`, which arrives as `table`: a full name, with the catalog where it is not the default one."""
    return click.option(
        "--table",
        required=True,
        callback=lambda context, parameter, value: as_written(value),
        shell_complete=complete.tables,
        help="The table, as namespace.name; in another catalog than `default`, as CATALOG:namespace.name.",
    )(command)


def milliseconds(text: str) -> int:
    """A time such as 2026-01-31T12:00:00 as milliseconds since 1970; UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        raise click.BadParameter(f"`{text}` is not a time such as 2026-01-31T12:00:00") from None
    return int(moment.replace(tzinfo=moment.tzinfo or timezone.utc).timestamp() * 1000)

"""Options that many verbs share, and the values they give."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import click

from framework.cli.shared import complete
from framework.config.names.table_names import as_written
from framework.diagnose.log_lines import LogFormat

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


def report_option(formats: Sequence[str], name: str = "reports") -> Callable[[Command], Command]:
    """Adds `--report FORMAT=FILE`, which arrives under `name`: pairs of a format and a path."""

    def pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, Path]]:
        given = []
        for value in values:
            format_, equals, file = value.partition("=")
            if format_ not in formats or not equals or not file:
                choices = ", ".join(formats)
                raise click.BadParameter(f"`{value}` is not FORMAT=FILE; formats: {choices}", context, parameter)
            given.append((format_, Path(file)))
        return given

    return click.option(
        "--report",
        name,
        multiple=True,
        callback=pairs,
        metavar="FORMAT=FILE",
        help="Also write the result to a file, in this format; repeat it for several.",
    )


def write_reports(reports: Sequence[tuple[str, Path]], text_in: Callable[[str], str]) -> None:
    """Writes what `--report` asked for; `text_in` gives the text in a format."""
    for format_, path in reports:
        try:
            path.write_text(text_in(format_) + "\n", encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(path), error.strerror) from error


def json_option(command: Command) -> Command:
    """Adds `--json`, which arrives as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def log_format_option(command: Command) -> Command:
    """Adds `--log-format`, which arrives as `log_format`; a variable says it for processes that nobody gives options."""
    return click.option(
        "--log-format",
        type=click.Choice([each.value for each in LogFormat]),
        callback=lambda context, parameter, value: LogFormat(value),
        default=LogFormat.TEXT.value,
        envvar="FLOE_LOG_FORMAT",
        show_default=True,
        help="The form of the lines on standard error; FLOE_LOG_FORMAT says it, too.",
    )(command)


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


def use_colour(is_terminal: bool) -> bool:
    """Colour only for a terminal, and never under NO_COLOR."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def whoami() -> str:
    """Who asks, for those who look at the log later."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"

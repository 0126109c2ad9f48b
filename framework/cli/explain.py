"""`floe explain CODE`: what a code means, with a wrong and a right example."""

from __future__ import annotations

import json

import click

from framework.cli.options import json_option
from framework.diagnose.codes import CODES, explanation, lookup
from framework.diagnose.codes_page import page


@click.command()
@click.argument("code", required=False)
@json_option
@click.option(
    "--format", "format_", type=click.Choice(("text", "markdown")), default="text", help="All codes as one page."
)
def explain(code: str | None, as_json: bool, format_: str) -> int:
    """Explain an error code, with a wrong and a right example. Without CODE: list all."""
    if format_ == "markdown":
        click.echo(page(), nl=False)
        return 0
    if code is None:
        entries = list(CODES.values())
        click.echo(
            json.dumps([{"code": entry.code, "title": entry.title} for entry in entries], indent=2)
            if as_json
            else "\n".join(f"{entry.code}  {entry.title}" for entry in entries)
        )
        return 0
    entry = lookup(code)
    if entry is None:
        raise click.UsageError(f"there is no code {code}; `floe explain` lists all")
    if as_json:
        click.echo(json.dumps(entry.__dict__, indent=2, ensure_ascii=False))
    else:
        click.echo(explanation(entry))
    return 0

"""`floe explain CODE`: what a code means, what it looks like, and how to repair it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import click

from framework.cli.shared import complete
from framework.cli.shared.options import json_option
from framework.diagnose.codes.catalogue import CODES, explanation, lookup
from framework.diagnose.codes.page import page
from framework.diagnose.suggest import listed
from framework.diagnose.transcript import repair_lines, seen_lines


@click.command()
@click.argument("code", required=False, shell_complete=complete.codes)
@json_option
@click.option(
    "--format", "format_", type=click.Choice(("text", "markdown")), default="text", help="All codes as one page."
)
def explain(code: str | None, as_json: bool, format_: str) -> int:
    """Explain an error code: what it means, an example or a transcript, and the command that repairs it. Without CODE: list
    all."""
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
        raise click.UsageError(f"there is no code {code}{_near(code)}; `floe explain` lists all")
    if as_json:
        lines = {"transcript": seen_lines(entry), "mends": repair_lines(entry)}
        click.echo(json.dumps({**asdict(entry), **lines}, indent=2, ensure_ascii=False))
    else:
        click.echo(explanation(entry))
    return 0


def _near(code: str) -> str:
    """The codes that were probably meant: with digits where letters look like them, or that begin so. Of other digits nobody
    knows which were meant."""
    typed = re.sub(r"[^A-Z0-9]", "", code.upper()).removeprefix("FLOE")
    number = typed[1:].translate(str.maketrans("OIL", "011"))
    meant = [known for known in CODES if number and known.startswith(f"FLOE-{typed[:1]}{number}")]
    return f"; did you mean {listed(meant[:5])}?" if meant else ""

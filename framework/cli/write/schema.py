"""`floe schema`: what a file may hold, as JSON Schema for editors or as a page for people."""

from __future__ import annotations

from importlib.resources import files

import click

from framework.config.writing.reference_page import page

WRITTEN_BY_PEOPLE = ("pipeline", "target", "template")
NAMES = tuple(sorted(path.name.split(".")[0] for path in files("schemas").iterdir() if path.name.endswith(".json")))


@click.command()
@click.argument("name", type=click.Choice(NAMES), default="pipeline")
@click.option(
    "--format", "format_", type=click.Choice(("json", "markdown")), default="json", show_default=True, help="For whom."
)
def schema(name: str, format_: str) -> int:
    """Print the JSON Schema (draft-07) of a kind of file, or of what floe prints. For files, also the reference page.

    An editor with yaml-language-server reads the schema that a file's first line names:

    # yaml-language-server: $schema=schemas/pipeline.v1.schema.json
    """
    if format_ == "markdown":
        if name not in WRITTEN_BY_PEOPLE:
            raise click.UsageError(f"only {', '.join(WRITTEN_BY_PEOPLE)} have a reference page")
        click.echo(page(name), nl=False)
    else:
        click.echo(files("schemas").joinpath(f"{name}.v1.schema.json").read_text(encoding="utf-8"), nl=False)
    return 0

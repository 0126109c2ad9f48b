"""`floe schema`: the JSON Schemas that editors use, as published in `schemas/`."""

from __future__ import annotations

from importlib.resources import files

import click

NAMES = ("pipeline", "target")


@click.command()
@click.argument("name", type=click.Choice(NAMES), default="pipeline")
def schema(name: str) -> int:
    """Print the JSON Schema (draft-07) of pipeline or target files.

    In an editor with yaml-language-server, the first line of a file may name it:
    # yaml-language-server: $schema=schemas/pipeline.v1.schema.json
    """
    click.echo(files("schemas").joinpath(f"{name}.v1.schema.json").read_text(encoding="utf-8").rstrip())
    return 0

"""`floe render`: a pipeline file as floe sees it, after templates, target, variables and `--set`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from framework.adapters.project.files import real_world
from framework.cli.shared.options import loading_options
from framework.config.load import load_pipeline
from framework.config.writing.emit import to_yaml
from framework.errors import ConfigError


@click.command()
@click.argument("file", type=click.Path(), metavar="FILE")
@loading_options
@click.option("--trace", is_flag=True, help="Show after each line which file and line it came from.")
def render_command(
    file: str, target: str | None, variables: Mapping[str, str], sets: Mapping[str, str], trace: bool
) -> int:
    """Print a pipeline file with templates, target, variables and --set filled in. Secrets stay references."""
    result = load_pipeline(file, target, real_world(offline=True), variables, sets)
    if result.tree is None or not result.ok:
        raise ConfigError("the file cannot be rendered", result.diagnostics)
    click.echo(to_yaml(result.tree, result.files, trace), nl=False)
    return 0

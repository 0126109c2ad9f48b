"""`floe graph`: which topics flow through which pipelines into which tables, as a picture."""

from __future__ import annotations

from collections.abc import Mapping

import click

from framework.adapters.project.files import pipeline_files, pipelines_or_raise, real_world
from framework.cli.shared.options import FILES, format_option, loading_options
from framework.config.load import load_pipelines
from framework.plan.compile import compile_plan
from framework.plan.graph.draw import FORMATS, draw
from framework.plan.graph.graph import graph_of


@click.command()
@FILES
@loading_options
@format_option(FORMATS, "Mermaid for Markdown pages, DOT for Graphviz, SVG for a browser.")
def graph(
    files: tuple[str, ...], target: str | None, variables: Mapping[str, str], sets: Mapping[str, str], format_: str
) -> int:
    """Draw topics, pipelines and tables, and the rules between them. A folder means all pipelines in it.

    floe graph pipelines --format svg > pipelines.svg
    """
    world = real_world(offline=True)
    pipelines = pipelines_or_raise(load_pipelines(pipeline_files(files, world), target, world, variables, sets))
    click.echo(draw(graph_of(map(compile_plan, pipelines)), format_), nl=False)
    return 0

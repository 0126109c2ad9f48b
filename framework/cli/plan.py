"""`floe plan FILE`: print the steps that `floe run` would execute."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from framework.adapters.files import load_or_raise
from framework.cli.options import FILES, json_option, loading_options
from framework.plan.compile import compile_plan
from framework.plan.explain import explain_plan, plan_to_json


@click.command()
@FILES
@loading_options
@json_option
def plan(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    as_json: bool,
) -> None:
    """Show what a pipeline will do, step by step, without touching anything."""
    plans = [compile_plan(pipeline) for pipeline in load_or_raise(files, target, variables, sets)]
    if as_json:
        click.echo(json.dumps({"command": "plan", "ok": True, "plans": [plan_to_json(one) for one in plans]}, indent=2))
        return
    for one in plans:
        click.echo(f"pipeline {one.pipeline} on target {one.target} ({one.source_file})")
        for number, (title, lines) in enumerate(explain_plan(one), start=1):
            click.echo(f"  {number}. {title}")
            for line in lines:
                click.echo(f"       {line}")

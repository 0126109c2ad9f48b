"""`floe plan FILE`: print the steps that `floe run` would execute."""

from __future__ import annotations

import json

import click

from framework.cli.options import load_options, load_pipelines
from framework.plan.compile import compile_plan
from framework.plan.explain import explain_plan, plan_to_json


@click.command("plan")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@load_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan_command(
    files: tuple[str, ...], target: str | None, variables: tuple[str, ...], sets: tuple[str, ...], as_json: bool
) -> None:
    """Show what a pipeline will do, step by step, without touching anything."""
    plans = [compile_plan(pipeline) for pipeline in load_pipelines(files, target, variables, sets)]
    if as_json:
        click.echo(json.dumps({"command": "plan", "ok": True, "plans": [plan_to_json(plan) for plan in plans]}, indent=2))
        return
    for plan in plans:
        click.echo(f"pipeline {plan.pipeline} on target {plan.target} ({plan.source_file})")
        for number, (title, lines) in enumerate(explain_plan(plan), start=1):
            click.echo(f"  {number}. {title}")
            for line in lines:
                click.echo(f"       {line}")

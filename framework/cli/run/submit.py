"""`floe submit FILE...`: hand pipelines to Spark through spark-submit, on any of its masters."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping

import click

from framework.adapters.project.files import load_or_raise
from framework.adapters.telemetry.safe_output import log_line
from framework.cli.shared.options import FILES, json_option, loading_options
from framework.cli.shared.review import check_reviewed, review_options


@click.command()
@FILES
@loading_options
@review_options
@click.option("--until-caught-up", is_flag=True, help="Read to the end offsets seen at the start, commit, and end.")
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    help="Where the driver runs; by default as the target says.",
)
@click.option("--one-each", is_flag=True, help="One application for each file; by default all files share one.")
@click.option(
    "--maintenance",
    is_flag=True,
    help="Maintain the tables that the pipelines fill, and end; they may run meanwhile.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="PATTERN",
    help="With --maintenance: only tables of this name or glob. May be repeated.",
)
@click.option("--print", "print_only", is_flag=True, help="Show the exact command; write and start nothing.")
@click.option("--stage", "stage_only", is_flag=True, help="Write the files and show the command; start nothing.")
@click.option(
    "--restart",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="How often to restart at most, after failures.",
)
@json_option
def submit(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    reviewed: str | None,
    allow: tuple[str, ...],
    until_caught_up: bool,
    deploy_mode: str | None,
    one_each: bool,
    maintenance: bool,
    tables: tuple[str, ...],
    print_only: bool,
    stage_only: bool,
    restart: int,
    as_json: bool,
) -> int:
    """Run pipelines on a cluster: local, standalone, YARN and Kubernetes masters.

    Ships floe, its packages and the rendered plan. Secrets are not shipped; they are read where the driver runs. SIGTERM
    or Ctrl-C drains a driver that runs here, and so does touching the file `stop` in its folder.

    With --maintenance the application does what `floe maintain` does, in its driver, by what the files say.
    """
    if maintenance and until_caught_up:
        raise click.UsageError("--maintenance ends by itself; leave out --until-caught-up")
    if tables and not maintenance:
        raise click.UsageError("--table says which tables --maintenance maintains")
    maintained = (tables or ("*",)) if maintenance else ()
    from framework.deploy.launch import Launcher, check_yarn_is_named, plan_application, stage

    pipelines = load_or_raise(files, target, variables, sets)
    allowed = check_reviewed(pipelines, reviewed, allow)
    groups = [[pipeline] for pipeline in pipelines] if one_each else [pipelines]
    applications = [plan_application(group, deploy_mode, until_caught_up, maintained=maintained) for group in groups]

    def say(text: str) -> None:
        click.echo(f"submit: {log_line(text)}", err=True)

    if not print_only and not stage_only:
        check_yarn_is_named(pipelines[0].target, os.environ)
    if not print_only and not stage_only and not maintenance:
        from framework.deploy.risks import check_breaking_changes

        check_breaking_changes(pipelines, allowed)
    if not print_only:
        for application in applications:
            stage(application, say)
    if print_only or stage_only:
        shown = [{"hash": a.hash, "folder": str(a.folder), "argv": list(a.command)} for a in applications]
        if as_json:
            click.echo(json.dumps({"command": "submit", "ok": True, "applications": shown}, indent=2))
        for application in applications if not as_json else ():
            click.echo(f"# {application.hash}")
            click.echo(f"cd {shlex.quote(str(application.folder))} && \\\n{shell_text(application.command)}")
        return 0
    return Launcher(applications, restart, say).run()


def shell_text(command: tuple[str, ...]) -> str:
    """The command as a shell reads it, one option a line."""
    lines: list[str] = [shlex.quote(command[0])]
    for word in command[1:]:
        if word.startswith("--") or lines[-1].count(" ") > 3:
            lines.append("  " + shlex.quote(word))
        else:
            lines[-1] += " " + shlex.quote(word)
    return " \\\n".join(lines)

"""`floe doctor`: checks this machine and a target, and says line by line what is fine and what needs fixing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from framework.adapters.project.files import load_or_raise
from framework.adapters.secrets import resolve
from framework.cli.shared import complete
from framework.cli.shared.options import json_option
from framework.cli.shared.target_options import load_target_or_raise
from framework.diagnose.counted import counted
from framework.diagnose.suggest import listed
from framework.diagnose.whole_commands import CONTROL_TOPIC
from framework.errors import ConfigError

if TYPE_CHECKING:
    from framework.config.spec import LoadedPipeline, TargetSpec
    from framework.ops.doctor import kafka as doctor_kafka
    from framework.ops.doctor.model import DoctorFinding
    from framework.ops.doctor.together import Question

_MARKS = {"ok": ("ok     ", "green"), "warning": ("warning", "yellow"), "error": ("error  ", "red")}


@click.command()
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option(
    "--target",
    "-t",
    default=None,
    metavar="NAME",
    help="The target; `local` if you name none.",
    shell_complete=complete.targets,
)
@click.option("--spark/--no-spark", "with_spark", default=True, help="Start Spark for the check, or leave it out.")
@click.option(
    "--repair",
    "repaired",
    multiple=True,
    metavar="TABLE",
    help="Check nothing, and rename the columns of this table whose names keep Spark from reading it; repeat it for more.",
    shell_complete=complete.tables,
)
@click.option("--mend", "also_repaired", multiple=True, hidden=True, shell_complete=complete.tables)  # its former name
@json_option
def doctor(
    files: tuple[str, ...],
    target: str | None,
    with_spark: bool,
    repaired: tuple[str, ...],
    also_repaired: tuple[str, ...],
    as_json: bool,
) -> int:
    """Check Java, Python, packages, Kafka, catalog, store, schema registry, clocks and Spark.

    It names tables that Spark cannot read for the name of a column; `--repair` renames the column and changes no file. The
    exit code is 3 when something is wrong. With pipeline FILEs it lists and checks the Kafka permissions that they need,
    times commits, and warns where a catalog cannot commit all their tables within the commit interval. It writes to a scratch
    topic and a scratch namespace, and removes both.
    """
    from framework.ops.doctor.model import exit_code

    findings: list[DoctorFinding] = []
    repaired += also_repaired
    for finding in _repaired(target, repaired) if repaired else _found(files, target, with_spark):
        findings.append(finding)
        if not as_json:
            click.echo(show(finding))
    code = exit_code(findings)
    if as_json:
        lines = [finding.to_json() for finding in findings]
        click.echo(
            json.dumps({"command": "doctor", "ok": code == 0, "target": target or "local", "findings": lines}, indent=2)
        )
    else:
        click.echo(summary(findings))
    return code


def _found(files: tuple[str, ...], target: str | None, with_spark: bool) -> Iterator[DoctorFinding]:
    """What is found of this machine and the files, one after the other, then of all servers beside each other."""
    from framework.ops.doctor.model import ask, ok
    from framework.ops.doctor.together import ask_together

    for check, question in _of_machine():
        yield from ask(check, question)
    found: list[tuple[TargetSpec, list[LoadedPipeline]]] = []

    def load() -> Iterator[DoctorFinding]:
        found.append(_load(files, target))
        yield ok(
            "target",
            f"{found[0][0].name} can be loaded" + (f" with {counted(len(files), 'pipeline')}" if files else ""),
        )

    yield from ask("target", load)
    if found:
        yield from ask_together(_of_target(*found[0], with_spark), _waits)


def _waits(checks: list[str], for_s: int) -> None:
    click.echo(f"waiting for {listed(checks, 'and')} for {for_s} s", err=True)


def _of_machine() -> Iterator[Question]:
    from framework.adapters.host.java import find_java
    from framework.ops.doctor import machine as doctor_machine

    yield "python", doctor_machine.python
    yield "java", partial(doctor_machine.java, find_java)
    yield "packages", doctor_machine.packages
    yield "fetch", doctor_machine.fetch
    yield "json", doctor_machine.parser
    yield "scatter", doctor_machine.scatter


def _of_target(spec: TargetSpec, pipelines: list[LoadedPipeline], with_spark: bool) -> Iterator[Question]:
    """The disk, each Kafka connection, catalog and schema registry, Spark."""
    from framework.ops.doctor import catalog as doctor_catalog
    from framework.ops.doctor import kafka as doctor_kafka
    from framework.ops.doctor import machine as doctor_machine
    from framework.ops.doctor import registry as doctor_registry

    yield "disk", partial(doctor_machine.disk, spec)
    for name in sorted(spec.kafka):
        yield f"kafka {name}", partial(doctor_kafka.examine, partial(_connection, spec, name, pipelines))
    for name in sorted(spec.catalogs):
        yield f"catalog {name}", partial(_catalog, spec, name, pipelines)
    yield "catalogs", partial(doctor_catalog.shared_places, spec.catalogs)
    for name, settings in sorted(spec.registries.items()):
        yield f"registry {name}", partial(doctor_registry.examine, name, partial(resolve, settings))
    if with_spark:
        yield "spark", partial(doctor_machine.spark, spec)


def _catalog(spec: TargetSpec, name: str, pipelines: list[LoadedPipeline]) -> Iterator[DoctorFinding]:
    """The catalog, its tables, and how long its commits take: of one that does not answer they are not asked for."""
    from framework.adapters.file_io_guard import open_catalog as open_one
    from framework.ops.doctor import catalog as doctor_catalog
    from framework.ops.doctor import commit_times
    from framework.plan.compile import compile_plan
    from framework.runtime.job import open_catalog

    yield from doctor_catalog.examine(name, partial(resolve, spec.catalogs[name]))
    tables = open_catalog(spec, [name])
    yield from doctor_catalog.unreadable_tables(tables, name, spec.name)
    if plans := [compile_plan(pipeline) for pipeline in pipelines]:
        opened = open_one(name, resolve(spec.catalogs[name]), spec.allow_locations)
        yield from commit_times.examine(name, opened, tables, plans)


def _repaired(target: str | None, tables: tuple[str, ...]) -> Iterator[DoctorFinding]:
    """What is done to tables instead of all that is asked."""
    from framework.ops.doctor import catalog as doctor_catalog
    from framework.ops.doctor.model import ask
    from framework.runtime.job import open_catalog

    spec = load_target_or_raise(target or "local")
    opened = open_catalog(spec, ())
    for name in tables:
        yield from ask(f"table {name}", partial(doctor_catalog.repair, opened, name))


def _load(files: tuple[str, ...], target: str | None) -> tuple[TargetSpec, list[LoadedPipeline]]:
    try:
        pipelines = load_or_raise(files, target) if files else []
        return (pipelines[0].target if pipelines else load_target_or_raise(target or "local")), pipelines
    except ConfigError as error:
        first = next((finding for finding in error.diagnostics if finding.is_error), None)
        if first is None:
            raise
        where = first.span.start if first.span else first.path
        raise ConfigError(first.message, code=first.code, place=where, remedy=first.remedy or "") from error


def _connection(spec: TargetSpec, name: str, pipelines: list[LoadedPipeline]) -> doctor_kafka.Connection:
    from framework.ops.doctor.kafka import Connection
    from framework.plan.compile import compile_plan

    plans = tuple(plan for plan in map(compile_plan, pipelines) if plan.read.connection == name)
    topics = tuple(sorted({plan.announce.control_topic for plan in plans})) or (CONTROL_TOPIC,)
    return Connection(name, resolve(spec.kafka[name]), spec.prefix, topics, plans)


def show(finding: DoctorFinding) -> str:
    """One line, and the remedy below it."""
    from framework.cli.shared.options import use_colour

    mark, colour = _MARKS[finding.state.value]
    if use_colour(sys.stdout.isatty()):
        mark = click.style(mark, fg=colour)
    remedy = f"\n         remedy: {finding.remedy}" if finding.remedy else ""
    return f"{mark}  {finding.check}: {finding.message}{remedy}"


def summary(findings: list[DoctorFinding]) -> str:
    counts = {state: sum(finding.state.value == state for finding in findings) for state in _MARKS}
    return f"{counts['ok']} ok, {counted(counts['warning'], 'warning')}, {counted(counts['error'], 'error')}"

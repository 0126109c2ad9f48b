"""`floe test`: the tests inside pipeline files, run without Kafka, and without Spark where a file has no SQL."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from framework.adapters.project.files import expand, load_or_raise, no_pipelines, real_world
from framework.adapters.telemetry.safe_output import log_line
from framework.cli.check.test_write import Recording, fix, record, take
from framework.cli.shared.options import FILES, format_option, loading_options, report_option, use_colour, write_reports
from framework.config.check_files import kind_of
from framework.config.load import DEFAULT_TARGET, LoadResult, load_pipelines, load_target
from framework.config.spec import LoadedPipeline
from framework.config.target import TargetResult
from framework.config.templates.uses import load_uses
from framework.config.world import World
from framework.testing.report import FORMATS, render
from framework.testing.rewriting.rewrite import Load, Run
from framework.testing.sql import LocalSpark
from framework.testing.suite import FileReport, run_file

_OTHER_KIND = "FLOE-C211"


@click.command()
@FILES
@loading_options
@format_option(FORMATS, "How results are printed.")
@report_option(FORMATS, "report_files")
@click.option(
    "--fix",
    "with_fix",
    is_flag=True,
    help="Write the actual results into the expectations of failing tests; review the difference.",
)
@click.option(
    "--record", "records", metavar="RECORDS", help="Add a test made of the records of a file, one JSON value per line."
)
@click.option("--record-topic", metavar="TOPIC", help="Add a test made of the newest records of one of its topics.")
@click.option(
    "--records",
    "count",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="How many records, with --record-topic.",
)
@click.option(
    "--mask", multiple=True, metavar="FIELD", help="Record this field (dotted path, header.NAME) without its value."
)
@click.option("--no-spark", is_flag=True, help="Skip the tests of files with `transform.sql`, with a warning.")
def test(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    format_: str,
    report_files: list[tuple[str, Path]],
    with_fix: bool,
    records: str | None,
    record_topic: str | None,
    count: int,
    mask: tuple[str, ...],
    no_spark: bool,
) -> int:
    """Run the tests inside pipeline files, with the same code that decodes, routes and converts in a run.

    A folder means all pipeline and template files in it and below it; --fix rewrites pipeline files only. Starts a local
    Spark only for files with `transform.sql`. Ends with 0 when all pass, 1 when one fails, 2 when a file is wrong.

    \b
    floe test pipelines
    floe test pipelines/orders.yaml --record-topic orders --records 3 --mask customer.email
    """
    recording = Recording(records, record_topic, count, mask)
    if records is not None and record_topic is not None:
        raise click.UsageError("take records from a file (--record) or from a topic (--record-topic), not both")
    if mask and not recording.wanted:
        raise click.UsageError("--mask belongs to --record and --record-topic")

    def load_with(path: Path, text: str) -> LoadResult:
        world = real_world(offline=True)
        read = world.read_file
        changed = replace(world, read_file=lambda p: text if p == path else read(p))
        return load_pipelines([path], target, changed, variables, sets)[0]

    def load_of(result: LoadResult) -> Load:
        return partial(load_with, Path(result.file))

    world = real_world(offline=True)
    paths = expand(files)
    templates = [path for path in paths if kind_of(path, world) == "Template"]
    pipelines = [path for path in paths if path not in templates]
    # A hook or a shell's `*` names targets among the files: they have no tests, and are nothing wrong.
    others = [path for path in pipelines if kind_of(path, world) != "Target"]
    results = load_pipelines(others if others or templates else pipelines, target, world, variables, sets)
    if recording.wanted and len(results) != 1:
        raise click.UsageError("a test is added to one file; name that file alone")

    def open_file() -> LoadedPipeline:
        return load_or_raise((results[0].file,), target, variables, sets)[0]

    with engine_for(no_spark) as run:
        reports = _reports(files, results, run)
        if recording.wanted:
            taken = [] if reports[0].is_wrong else take(recording, open_file)
            reports = [record(results[0], reports[0], taken, recording.name, load_of(results[0]), run)]
        else:
            reports += [
                template_report(path, load_target(target or DEFAULT_TARGET, world, path.parent), world, run)
                for path in templates
            ]
        if not reports:
            raise no_pipelines(files)
        if with_fix:
            by_file = {result.file: result for result in results}
            reports = [
                fix(by_file[report.file], report, load_of(by_file[report.file]), run)
                if not recording.wanted and report.file in by_file
                else report
                for report in reports
            ]
    click.echo(render(reports, format_, use_colour(sys.stdout.isatty())))
    write_reports(report_files, partial(render, reports))
    return exit_code(reports)


def _reports(files: tuple[str, ...], results: tuple[LoadResult, ...], run: Run) -> list[FileReport]:
    """The reports of all pipeline files; targets are passed over unless they are named themselves."""
    named = {str(Path(file)) for file in files}
    return [
        run(result)
        for result in results
        if result.file in named or all(finding.code != _OTHER_KIND for finding in result.diagnostics)
    ]


@contextmanager
def engine_for(no_spark: bool) -> Iterator[Run]:
    """What runs the tests of a file; it starts Spark for the first that needs it, unless that is not wanted."""
    with ExitStack() as stack:
        engine = (
            None if no_spark else stack.enter_context(LocalSpark(lambda text: click.echo(log_line(text), err=True)))
        )
        yield partial(run_file, engine=engine)


def template_report(path: Path, target: TargetResult, world: World, run: Run) -> FileReport:
    """A template's tests that have records, each run as a test of the pipeline that it stands for."""
    uses = load_uses(path, target, world)
    findings = tuple(finding for finding in uses.diagnostics if finding.is_error)
    cases = () if findings else tuple(case for result in uses.results for case in run(result).cases)
    return FileReport(str(path), findings, cases)


def exit_code(reports: list[FileReport]) -> int:
    """0: all pass; 1: a test does not; 2: a file is wrong."""
    if any(report.is_wrong for report in reports):
        return 2
    return 0 if all(case.passed for report in reports for case in report.cases) else 1

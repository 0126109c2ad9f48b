"""`floe test`: the tests inside pipeline files, run without Kafka and without Spark."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from framework.adapters.files import expand, read_text, real_world
from framework.cli.main import use_colour
from framework.cli.options import FILES, loading_options
from framework.config.check_files import kind_of
from framework.config.load import DEFAULT_TARGET, LoadResult, load_pipelines, load_target
from framework.config.template_uses import load_uses
from framework.config.world import World
from framework.errors import ConfigError
from framework.testing.report import FORMATS, render
from framework.testing.rewrite import Load, Rewritten, fixed, recorded
from framework.testing.suite import FileReport, run_file

_OTHER_KIND = "FLOE-C211"


@click.command()
@FILES
@loading_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How results are printed.",
)
@click.option(
    "--fix", is_flag=True, help="Write what came into the expectations of failing tests; review the difference."
)
@click.option(
    "--record", "records", metavar="RECORDS", help="Add a test made of the records of a file, one JSON value a line."
)
def test(
    files: tuple[str, ...],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    format_: str,
    fix: bool,
    records: str | None,
) -> int:
    """Run the tests inside pipeline files, through the code that a run decodes, routes and converts with.

    A folder stands for all pipeline and template files in it and below it; --fix rewrites pipeline files only. Ends with
    0 when all pass, 1 when one fails, 2 when a file is wrong.
    """

    def load_with(text: str | None, path: Path) -> LoadResult:
        world = real_world(offline=True)
        read = world.read_file
        changed = world if text is None else replace(world, read_file=lambda p: text if p == path else read(p))
        return load_pipelines([path], target, changed, variables, sets)[0]

    world = real_world(offline=True)
    paths = expand(files)
    templates = [path for path in paths if kind_of(path, world) == "Template"]
    results = load_pipelines([path for path in paths if path not in templates], target, world, variables, sets)
    reports = _reports(files, results)
    if records is not None:
        if len(results) != 1:
            raise click.UsageError("--record adds a test to one file; name that file alone")
        reports = [_record(results[0], reports[0], records, load_with)]
    elif templates:
        reports += [_of_template(path, target, world) for path in templates]
    if fix:
        by_file = {result.file: result for result in results}
        reports = [
            _fix(by_file[report.file], report, load_with) if records is None and report.file in by_file else report
            for report in reports
        ]
    click.echo(render(reports, format_, use_colour(sys.stdout.isatty())))
    return exit_code(reports)


LoadWith = Callable[[str | None, Path], LoadResult]


def _reports(files: tuple[str, ...], results: tuple[LoadResult, ...]) -> list[FileReport]:
    """The reports of all pipeline files; targets are passed over unless they are named themselves."""
    named = {str(Path(file)) for file in files}
    return [
        run_file(result)
        for result in results
        if result.file in named or all(finding.code != _OTHER_KIND for finding in result.diagnostics)
    ]


def _of_template(path: Path, target: str | None, world: World) -> FileReport:
    """A template's tests that have records, each run as a test of the pipeline that it stands for."""
    uses = load_uses(path, load_target(target or DEFAULT_TARGET, world, path.parent), world)
    findings = tuple(finding for finding in uses.diagnostics if finding.is_error)
    cases = () if findings else tuple(case for result in uses.results for case in run_file(result).cases)
    return FileReport(str(path), findings, cases)


def exit_code(reports: list[FileReport]) -> int:
    """0: all pass; 1: a test does not; 2: a file is wrong."""
    if any(report.is_wrong for report in reports):
        return 2
    return 0 if all(case.passed for report in reports for case in report.cases) else 1


def _fix(result: LoadResult, report: FileReport, load_with: LoadWith) -> FileReport:
    if report.is_wrong or all(case.passed for case in report.cases):
        return report
    return _written(result, fixed(result, report, _loader(result, load_with)), "rewrote the expectation of")


def _record(result: LoadResult, report: FileReport, records: str, load_with: LoadWith) -> FileReport:
    path = Path(records)
    if not path.is_file():
        raise ConfigError(
            f"there is no file {records}; records of a topic are not taken yet",
            code="FLOE-R403",
            place=records,
            remedy="write some records of the topic to a file, one a line, and name that file",
        )
    if report.is_wrong:
        return report
    lines = path.read_bytes().split(b"\n")
    made = recorded(result, lines, f"recorded from {path.name}", _loader(result, load_with))
    return _written(result, made, "added")


def _loader(result: LoadResult, load_with: LoadWith) -> Load:
    return lambda text: load_with(text, Path(result.file))


def _written(result: LoadResult, made: Rewritten, verb: str) -> FileReport:
    path = Path(result.file)
    before = path.read_bytes()
    if read_text(path) != result.files.sources[result.file].text:
        raise ConfigError("the file changed meanwhile", code="FLOE-R402", place=result.file, remedy="try again")
    mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
    windows, lines = before.count(b"\r\n"), before.count(b"\n")
    if 0 < windows < lines:
        raise ConfigError(
            "the file has line ends of two kinds",
            code="FLOE-R402",
            place=result.file,
            remedy="save it with line ends of one kind",
        )
    text = made.text.replace("\n", "\r\n") if windows else made.text
    _replace_file(path, mark + text.encode())
    for name in made.cases:
        click.echo(f"{result.file}: {verb} `{name}`", err=True)
    return made.report


def _replace_file(path: Path, content: bytes) -> None:
    """Writes beside the file and moves over it, so that it is never half written."""
    path = path.resolve()
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    os.chmod(beside, path.stat().st_mode)
    os.replace(beside, path)

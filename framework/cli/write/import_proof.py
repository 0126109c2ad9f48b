"""`floe import-connector --sample`: a test of real records beside the imported pipeline, with the sink's own rows.

In: the imported file's text, the connector's settings, and where records come from. Out: the text with a test that
passes. Values of records are written only after a person agreed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from framework.adapters.project.files import real_world
from framework.adapters.telemetry.safe_output import log_line
from framework.cli.check.test_write import Recording, take
from framework.config.load import LoadResult, load_pipelines
from framework.config.spec import LoadedPipeline
from framework.connector.sink.model import Unknown
from framework.connector.sink.proof import Proof, proof
from framework.diagnose.counted import counted
from framework.errors import ConfigError
from framework.testing.recorded import Taken, checked
from framework.testing.rewriting.emit import block, flow
from framework.testing.sql import LocalSpark
from framework.testing.suite import FileReport, run_file


@dataclass(frozen=True)
class ProofSample:
    """How many records of each topic, or the file that holds them; `agreed` when nobody need be asked."""

    count: int | None
    file: str | None
    masks: tuple[str, ...]
    target: str | None
    agreed: bool


def with_proof(text: str, file: str, settings: Mapping[str, str], sample: ProofSample) -> str:
    """The pipeline file's text with a test of the sampled records, which has passed.

    Raises:
        ConfigError: FLOE-R403, the records make no test; FLOE-R408, the file writes other rows than the sink.
        SetupError: the broker or Spark does not answer.
    """
    loaded = load_text(text, file, sample.target)
    spec = loaded.spec
    if spec is None:
        remedy = "name the target that the pipeline runs on: `--target`"
        raise ConfigError("the file cannot be tested here", loaded.diagnostics, code="FLOE-R403", remedy=remedy)
    records = _records(loaded, sample)
    checked(records, file)
    _agree(records, file, sample)
    try:
        made = proof(settings, records, spec)
    except Unknown as unknown:
        message = f"no test can be made: what the sink does with {unknown} is not known here"
        raise ConfigError(message, code="FLOE-R403", place=file, remedy="leave --sample out") from None
    return proved(text, file, made, sample.target)


def proved(
    text: str, file: str, made: Proof, target: str | None, run: Callable[[LoadResult], FileReport] | None = None
) -> str:
    """The text with the test, if it passes.

    Raises:
        ConfigError: FLOE-R403, there is no test; FLOE-R408, it does not pass.
    """
    for sentence in made.left_out:
        click.echo(log_line(f"not in the test: {sentence}"), err=True)
    if made.test is None:
        remedy = "take other records"
        raise ConfigError("the sink writes none of these records", code="FLOE-R403", place=file, remedy=remedy)
    whole = f"{text}\ntests:\n  {_case(made.test)}"
    if run is None:
        with LocalSpark(lambda line: click.echo(log_line(line), err=True)) as spark:
            report = run_file(load_text(whole, file, target), spark)
    else:
        report = run(load_text(whole, file, target))
    differences = (*report.findings, *(one for case in report.cases for one in case.differences))
    if differences or not report.cases:
        reported = differences[0].message if differences else "no test was run"
        more = f", and {counted(len(differences) - 1, 'more difference')}" if len(differences) > 1 else ""
        raise ConfigError(
            f"the pipeline file writes other rows than the sink, so it was not written: {reported}{more}",
            code="FLOE-R408",
            place=file,
            remedy="check `--fields` against the values of the records, or write the pipeline file by hand",
        )
    return whole


def _case(test: Mapping[str, object]) -> str:
    given = f"\n    given: {flow(test['given'])}" if "given" in test else ""
    items = test["input"]
    assert isinstance(items, list)
    inputs = "".join(f"\n      - {flow(item)}" for item in items)
    return f"- name: {flow(test['name'])}{given}\n    input:{inputs}\n    expect:\n      {block(test['expect'], 6)}\n"


def load_text(text: str, file: str, target: str | None) -> LoadResult:
    """The file as it would load with this text."""
    world = real_world(offline=True)
    path = Path(file)
    changed = replace(world, read_file=lambda p: text if p == path else world.read_file(p))
    return load_pipelines([path], target, changed, {}, {})[0]


def _records(loaded: LoadResult, sample: ProofSample) -> list[Taken]:
    if sample.file is not None:
        return take(Recording(sample.file, None, 0, sample.masks), lambda: _whole(loaded))
    assert loaded.spec is not None
    topics = loaded.spec.source.kafka.topics
    if not topics:
        remedy = "give their records in a file: `--sample-file`"
        raise ConfigError("the connector names no topics to sample", code="FLOE-R403", place=loaded.file, remedy=remedy)
    found = []
    for topic in topics:
        found += take(Recording(None, topic, sample.count or 1, sample.masks), lambda: _whole(loaded))
    return found


def _whole(loaded: LoadResult) -> LoadedPipeline:
    if loaded.pipeline is None:
        remedy = "name the target that the pipeline runs on: `--target`"
        raise ConfigError("the target cannot be used here", loaded.diagnostics, code="FLOE-R403", remedy=remedy)
    return loaded.pipeline


def _agree(records: list[Taken], file: str, sample: ProofSample) -> None:
    """Asks before values of records are written where more people read them."""
    if sample.agreed:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "--sample writes values of records into a file; agree with --yes, and hide fields with --mask"
        )
    click.confirm(
        f"{counted(len(records), 'record')} will be written into {file}, with all values that are not masked. Go on?",
        abort=True,
    )

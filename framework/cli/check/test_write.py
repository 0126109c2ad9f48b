"""`floe test --fix` and `--record`: write tests into a pipeline file, from actual results or from real records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from framework.adapters.project.files import rewrite_text
from framework.config.load import LoadResult
from framework.config.spec import LoadedPipeline
from framework.errors import ConfigError
from framework.testing.recorded import Taken, masked
from framework.testing.rewriting.rewrite import Load, RewrittenTests, Run, fixed, recorded
from framework.testing.suite import FileReport


@dataclass(frozen=True)
class Recording:
    """Where the records of a new test come from: the lines of a file, or the newest ones of a topic."""

    file: str | None
    topic: str | None
    count: int
    masks: Collection[str]

    @property
    def wanted(self) -> bool:
        return self.file is not None or self.topic is not None

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"recorded from {Path(self.file).name if self.file is not None else f'the topic {self.topic}'}"


def fix(result: LoadResult, report: FileReport, load: Load, run: Run) -> FileReport:
    """The failing tests of a file with their expectations as what came."""
    if report.is_wrong or all(case.passed for case in report.cases):
        return report
    return _written(result, fixed(result, report, load, run), "rewrote the expectation of")


def record(
    result: LoadResult, report: FileReport, records: Sequence[Taken], name: str, load: Load, run: Run
) -> FileReport:
    """A file with one more test."""
    if report.is_wrong:
        return report
    return _written(result, recorded(result, records, name, load, run), "added")


def take(recording: Recording, open_file: Callable[[], LoadedPipeline]) -> list[Taken]:
    """The records, masked; what was masked is reported.

    Args:
        open_file: the pipeline file with the values of this environment; asked for a topic's records alone.

    Raises:
        ConfigError: FLOE-R403, there are none, or they make no test.
        SetupError: the broker cannot be asked, or has no such topic.
    """
    found = _of_file(recording.file) if recording.file is not None else _of_topic(recording, open_file())
    records: list[Taken] = []
    hidden: set[str] = set()
    for one in found:
        kept, paths = masked(one, recording.masks, recording.name)
        records.append(kept)
        hidden |= paths
    if hidden:
        click.echo(f"masked: {', '.join(sorted(hidden))}", err=True)
    masked_names = {path.lower() for path in hidden}
    if unknown := sorted({name for name in recording.masks if name.lower() not in masked_names}):
        click.echo(f"no record has {', '.join(unknown)}, which --mask names", err=True)
    if recording.topic is not None:
        click.echo("these are real records: read the test before you commit it", err=True)
    return records


def _of_file(name: str) -> list[Taken]:
    try:
        lines = Path(name).read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be read: {error.strerror}",
            code="FLOE-R403",
            place=name,
            remedy="name a file with one record a line; `--record-topic` takes the records of a topic",
        ) from None
    return [Taken(line.rstrip(b"\r")) for line in lines if line.strip()]


def _of_topic(recording: Recording, loaded: LoadedPipeline) -> list[Taken]:
    from framework.adapters.kafka.sample import newest_records
    from framework.adapters.secrets import resolve

    kafka, topic = loaded.spec.source.kafka, str(recording.topic)
    if not kafka.reads(topic):
        reported = ", ".join(kafka.topics) or f"those that match {kafka.topic_pattern}"
        raise ConfigError(
            f"the pipeline does not read the topic {topic}",
            code="FLOE-R403",
            place=loaded.file,
            remedy=f"name one of its topics: {reported}",
        )
    if loaded.spec.source.format.registry or (loaded.spec.source.key and loaded.spec.source.key.format.registry):
        raise ConfigError(
            "the records name a schema of a registry, and a test has no registry",
            code="FLOE-R403",
            place=loaded.file,
            remedy="write the test by hand, with `value` as fields and the schema under `given`",
        )
    settings = resolve(loaded.target.kafka[kafka.connection])
    blocks = newest_records(settings, topic, recording.count)
    found = [
        Taken(
            block.values[i], topic, block.partition, block.offsets[i], block.timestamps_ms[i], block.key(i),
            tuple(block.headers_of(i)),
        )
        for block in blocks
        for i in range(len(block))
    ]  # fmt: skip
    found.sort(key=lambda one: (one.timestamp_ms, one.partition, one.offset))
    return found[-recording.count :]


def _written(result: LoadResult, made: RewrittenTests, verb: str) -> FileReport:
    rewrite_text(Path(result.file), result.files.sources[result.file].text, made.text)
    for name in made.cases:
        click.echo(f"{result.file}: {verb} `{name}`", err=True)
    return made.report

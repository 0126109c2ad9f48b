"""`floe init`: a new pipeline file, from a few answers or from real records, checked before it is written; or a project."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from framework.adapters.project.files import raise_findings, real_world
from framework.cli.shared import complete
from framework.cli.shared.record_files import read_record_file
from framework.config.load import DEFAULT_TARGET, load_pipelines
from framework.config.project import CI, project_files
from framework.config.units import quoted
from framework.config.writing.scaffold import LOCAL_TARGET, Scaffold, ScaffoldHint, pipeline_text
from framework.diagnose.counted import counted
from framework.diagnose.suggest import listed
from framework.errors import ConfigError
from framework.record.proposal.record_file import CSV

if TYPE_CHECKING:
    from framework.record.proposal.propose import Proposal, UnusableValues


@click.command()
@click.argument("name", required=False)
@click.option("--topic", "topics", multiple=True, help="A topic to read; repeat it for several.")
@click.option("--table", help="The table to fill, as namespace.name.")
@click.option("--interval", default="3m", show_default=True, help="How long a record may take to become visible.")
@click.option(
    "--split-by", metavar="FIELD", help="One table per value of this field; table names then begin with --table."
)
@click.option(
    "--from-topic", is_flag=True, help="Look at the newest records of the topics, and propose types and partitions."
)
@click.option("--from-file", metavar="RECORDS", help="The same, with the records of a file: JSON, or CSV.")
@click.option("--records", default=200, show_default=True, help="How many records to look at.")
@click.option(
    "--target",
    "-t",
    help="The target whose connection reads the topics; by default `local`.",
    shell_complete=complete.targets,
)
@click.option("--connection", default="main", show_default=True, help="The target's Kafka connection.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path("pipelines"), show_default=True)
@click.option(
    "--project",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write a whole project instead: two targets, a template with a test, a pipeline, CI, .gitignore, README.",
)
@click.option(
    "--ci",
    type=click.Choice([*CI, "none"]),
    default="github",
    show_default=True,
    help="Whose CI checks the files, with --project.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def init(
    name: str | None,
    topics: tuple[str, ...],
    table: str | None,
    interval: str,
    split_by: str | None,
    from_topic: bool,
    from_file: str | None,
    records: int,
    target: str | None,
    connection: str,
    folder: Path,
    project: Path | None,
    ci: str,
    force: bool,
) -> int:
    """Write a new pipeline file. Asks for what you do not give. With --project, write a whole project.

    \b
    floe init orders --topic shop.orders --table shop.orders
    floe init orders --topic shop.orders --table shop.orders --from-topic --target dev
    floe init events --topic web --table web.events --from-file events.jsonl --split-by type
    floe init --project shop-pipelines
    """
    if project is not None:
        if name or topics or table:
            raise click.UsageError("--project writes a pipeline of its own; add yours with a second `floe init`")
        return _project(project, ci, force)
    missing = [option for option, value in (("NAME", name), ("--topic", topics), ("--table", table)) if not value]
    if missing and not sys.stdin.isatty():
        verb = "is" if len(missing) == 1 else "are"
        raise click.UsageError(f"{listed(missing, 'and')} {verb} missing, and there is no terminal to ask at")
    name = name or _ask("Name of the pipeline", None)
    topics = topics or tuple(_ask("Topics, with commas between", name).replace(",", " ").split())
    table = table or _ask("Table, as namespace.name", f"{name.replace('-', '_')}.{topics[0].split('.')[-1]}")
    path = folder / f"{name}.yaml"
    if path.exists() and not force:
        raise _in_the_way(path)
    what = Scaffold(name, topics, table, connection, interval, split_by=split_by and (quoted(split_by) or split_by))
    values = _values(topics, target, connection, from_topic, from_file, records)
    if values is not None:
        from framework.record.proposal.propose import (
            propose,  # needs Arrow's neighbours; a file without records does not
        )

        seen = propose(values, split_by)
        _report(seen)
        what = _with_proposal(what, seen)
    text = pipeline_text(what)
    written = [*_surroundings(folder), (path, text)]
    _check(path, text, dict(written), target)
    for each, content in written:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text(content, encoding="utf-8")
        click.echo(f"wrote {each}")
    click.echo("\nTry next:")
    for command in _next(path, topics, target, from_file):
        click.echo(f"  floe {command}")
    return 0


def _next(path: Path, topics: Sequence[str], target: str | None, from_file: str | None) -> Iterator[str]:
    """Commands that work one after the other: on the embedded stack the topics are there before they are read."""
    file, of = shlex.quote(str(path)), f" --target {shlex.quote(target)}" if target else ""
    yield f"validate {file}{of}"
    if (target or DEFAULT_TARGET) == DEFAULT_TARGET:
        yield "local up"
        for topic in topics:
            records = (
                f"send {shlex.quote(topic)} {shlex.quote(from_file)}" if from_file else f"topic {shlex.quote(topic)}"
            )
            yield f"local {records}"
    yield f"run {file}{of} --until-caught-up"


def _project(folder: Path, ci: str, force: bool) -> int:
    texts = {folder / path: text for path, text in project_files(None if ci == "none" else ci).items()}
    there = [path for path in texts if path.exists()]
    if there and not force:
        raise _in_the_way(there[0])
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path}")
    click.echo("\nTry next:")
    if folder != Path():
        click.echo(f"  cd {shlex.quote(str(folder))}")
    for command in ("validate pipelines", "test pipelines", "local up", "run pipelines/orders.yaml"):
        click.echo(f"  floe {command}")
    return 0


def _in_the_way(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} exists already", code="FLOE-E029", place=str(path), remedy="use --force, or another name"
    )


def _ask(question: str, default: str | None) -> str:
    return str(click.prompt(question, default=default))


def _values(
    topics: Sequence[str], target: str | None, connection: str, from_topic: bool, from_file: str | None, count: int
) -> list[bytes] | None:
    """The records to look at; None when none were asked for."""
    if from_file:
        found = read_record_file(from_file)
        if found.form == CSV:
            click.echo(
                f"{from_file} is CSV, which floe reads from no topic: its rows as JSON are what `floe local send` sends"
            )
        return list(found.values[:count])
    if not from_topic:
        return None
    from framework.adapters.kafka.sample import newest_values
    from framework.cli.shared.target_options import open_control
    from framework.diagnose.whole_commands import CONTROL_TOPIC

    settings = open_control(target, connection, CONTROL_TOPIC).kafka
    share = -(-count // len(topics))
    return [value for topic in topics for value in newest_values(settings, topic, share)]


def _report(seen: Proposal) -> None:
    click.echo(f"looked at {counted(seen.records, 'record')}")
    if seen.unreadable:
        what = counted(
            seen.unreadable,
            "of them is not a JSON object and would be a dead letter",
            "of them are not JSON objects and would be dead letters",
        )
        click.echo(f"  {what}")
    if seen.wrapping is not None:
        words = {"explode": seen.wrapping.explode, "envelope": seen.wrapping.envelope}
        said = ", ".join(f"{key}: {word}" for key, word in words.items() if word)
        click.echo(f"  they are {seen.wrapping.what}: `{said}`")
    for hint in seen.hints:
        unit = f", whole {hint.unit} since 1970" if hint.unit else f", written as {hint.format}" if hint.format else ""
        click.echo(f"  {hint.path}: {hint.type}{unit}{', without a zone in its text' if hint.zoneless else ''}")
    for split in seen.splits:
        click.echo(f"  {split.field} has {counted(len(split.values), 'value')}: {_some(split.values)}")
    for question in seen.questions:
        click.echo(f"  {question.path}: {question.question}")
    if seen.unusable:
        click.echo(f"  {_unusable(seen.unusable)}")


def _unusable(found: UnusableValues) -> str:
    """How many records the split makes dead letters, and why."""
    names = [f"have a value that no table's name can hold: {_some(found.values)}"] if found.values else []
    names += [f"have none ({found.absent})" if found.values else "have none"] if found.absent else []
    would = "it would be a dead letter" if found.records == 1 else "they would be dead letters"
    return f"{found.field}: {counted(found.records, 'record')} {', or '.join(names)}; {would} (FLOE-D202)"


def _some(values: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{value} ({count})" for value, count in values[:5])
    return shown + (f" and {len(values) - 5} more" if len(values) > 5 else "")


def _with_proposal(what: Scaffold, seen: Proposal) -> Scaffold:
    hints = tuple(
        ScaffoldHint(
            hint.path,
            (
                ("type", hint.type),
                *((key, said) for key, said in (("unit", hint.unit), ("format", hint.format)) if said),
                *((("on_extra_precision", "truncate"),) if hint.cut else ()),
            ),
            "no zone in the text; if you know it: type: timestamptz, zone: ..."
            if hint.zoneless
            else f"{hint.type}_ns keeps nine digits, in tables of format version 3"
            if hint.cut
            else "",
        )
        for hint in seen.hints
    )
    splits = tuple(
        f'{split.field} has {len(split.values)} values: {_some(split.values)}. A table for each: "{what.table}_{{{split.field}}}"'
        for split in seen.splits
        if split.field != what.split_by
    )
    if seen.wrapping is not None and (field := seen.wrapping.table_field) is not None:
        splits += (f'each event names its table. A table for each: "{what.namespace}.{{{field}}}"',)
    by_kafka_time = ("day(_kafka_timestamp)",) if seen.records else ()
    return replace(
        what,
        hints=hints,
        splits=splits,
        questions=tuple((question.answer, question.question) for question in seen.questions),
        envelope=seen.wrapping.envelope if seen.wrapping is not None else None,
        explode=seen.wrapping.explode if seen.wrapping is not None else None,
        partition_by=(f"day({seen.time_field})",) if seen.time_field else by_kafka_time,
        metadata_columns=() if seen.time_field or not seen.records else ("timestamp",),
    )


def _surroundings(folder: Path) -> list[tuple[Path, str]]:
    """What a new project lacks beside the file: the embedded stack's target, and the schemas for editors."""
    schemas = folder.parent / "schemas"
    wanted = [(folder / "targets" / "local.yaml", LOCAL_TARGET)]
    for kind in ("pipeline", "target"):
        file = f"{kind}.v1.schema.json"
        wanted.append((schemas / file, files("schemas").joinpath(file).read_text(encoding="utf-8")))
    return [(path, text) for path, text in wanted if not path.exists()]


def _check(path: Path, text: str, new: dict[Path, str], target: str | None) -> None:
    """What is about to be written must load.

    Raises:
        ConfigError: an answer was wrong; carries the findings at their lines in the file that was not written.
    """
    world = real_world(offline=True)

    def read(asked: Path) -> str:
        return new[asked] if asked in new else world.read_file(asked)

    result = load_pipelines([path], target, replace(world, read_file=read))[0]
    if not result.ok:
        raise_findings(f"{path} was not written", result.diagnostics)

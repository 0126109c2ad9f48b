"""`floe dlq list | show | stats | replay`: what could not be written, why, and another try."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from framework.adapters.files import load_or_raise
from framework.cli.options import json_option, loading_options
from framework.config.spec import LoadedPipeline
from framework.config.units import duration_ms
from framework.diagnose.codes import CODES
from framework.errors import SetupError

if TYPE_CHECKING:
    from framework.runtime.letters import Selection
    from framework.runtime.replay import ReplayReport

F = TypeVar("F", bound=Callable[..., object])
STAGES = ("decode", "route", "convert")
BRIEF = ("topic", "partition", "offset", "timestamp", "stage", "code", "field_path", "expected", "actual", "message")
WHOLE = (*BRIEF, "key", "value", "headers", "pipeline", "run")
WIDTH = 132
_PLACE = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)@(?P<offset>\d+)")


@click.group()
def dlq() -> None:
    """Look at a pipeline's dead letters, and replay them once their cause is mended."""


# ---- options --------------------------------------------------------------------------------------------------------


def _since(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if (back := duration_ms(value)) is not None:
        return int(time.time() * 1000) - back
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(
            f"`{value}` is neither a duration such as 2h nor a time such as 2026-11-21T10:00:00Z", context, parameter
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _place(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, int, int]:
    match = _PLACE.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"`{value}` is no TOPIC-PARTITION@OFFSET, such as orders-0@51", context, parameter)
    return match["topic"], int(match["partition"]), int(match["offset"])


def filter_options(command: F) -> F:
    """--code, --stage, --topic and --since."""
    for option in (
        click.option(
            "--since",
            callback=_since,
            metavar="WHEN",
            help="Records from then on: `2h` ago, or an ISO 8601 time (UTC).",
        ),
        click.option("--topic", metavar="TOPIC", help="Records of one topic."),
        click.option("--stage", type=click.Choice(STAGES), help="Records that failed at one stage."),
        click.option("--code", metavar="CODE", help="Records that failed with one code, such as FLOE-D304."),
    ):
        command = option(command)
    return command


FILE = click.argument("file", type=click.Path(), metavar="FILE")


def _select(code: str | None, stage: str | None, topic: str | None, since: int | None) -> Selection:
    from framework.runtime.letters import Selection

    return Selection(code.upper() if code else None, stage, topic, since)


def _read(pipeline: LoadedPipeline, selection: Selection, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Letters as rows, newest first; timestamps in milliseconds."""
    import pyarrow as pa

    from framework.plan.compile import compile_plan
    from framework.runtime.job import open_catalog
    from framework.runtime.letters import letter_table, read_with_marks

    plan = compile_plan(pipeline)
    letter_table(plan)
    found = read_with_marks(plan, open_catalog(pipeline.target.catalogs), selection, columns)
    at = found.schema.get_field_index("timestamp")
    found = found.set_column(at, "timestamp", found.column(at).cast(pa.int64()))
    keys = [("timestamp", "descending"), ("topic", "ascending"), ("partition", "ascending"), ("offset", "descending")]
    rows: list[dict[str, Any]] = found.sort_by(keys).to_pylist() if len(found) else []
    for row in rows:
        row["timestamp_ms"] = None if row["timestamp"] is None else row.pop("timestamp") // 1000
        row.pop("timestamp", None)
    return rows


def _load(file: str, target: str | None, variables: Mapping[str, str], sets: Mapping[str, str]) -> LoadedPipeline:
    return load_or_raise((file,), target, variables, sets)[0]


# ---- list -----------------------------------------------------------------------------------------------------------


@dlq.command("list")
@FILE
@loading_options
@filter_options
@click.option("--all", "with_replayed", is_flag=True, help="Those that were replayed too.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many, the newest first.")
@json_option
def list_command(
    file: str,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    code: str | None,
    stage: str | None,
    topic: str | None,
    since: int | None,
    with_replayed: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the dead letters that wait, the newest first.

    Example: floe dlq list pipelines/orders.yaml -t prod --code FLOE-D304 --since 2h
    """
    pipeline = _load(file, target, variables, sets)
    rows = _read(pipeline, _select(code, stage, topic, since), BRIEF)
    chosen = [row for row in rows if with_replayed or not row["replayed"]]
    if as_json:
        document = {"command": "dlq list", "ok": True, "pipeline": pipeline.spec.name, "total": len(chosen)}
        click.echo(json.dumps({**document, "letters": chosen[:limit]}))
        return
    if not chosen:
        click.echo(_none(pipeline, len(rows)))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("record", "time", "stage", "code", "what is wrong"):
        table.add_column(name, overflow="fold")
    for row in chosen[:limit]:
        done = "(replayed) " if row["replayed"] else ""
        table.add_row(
            *(_text(part) for part in (place_of(row), _time(row), row["stage"], row["code"], done + row["message"]))
        )
    _console().print(table)
    shown = min(limit, len(chosen))
    click.echo(
        f"\n{shown:,} of {len(chosen):,} dead letters; `floe dlq show {file} {place_of(chosen[0])}` shows one whole"
    )


# ---- show -----------------------------------------------------------------------------------------------------------


@dlq.command("show")
@FILE
@click.argument("place", callback=_place, metavar="TOPIC-PARTITION@OFFSET")
@loading_options
@click.option("--raw", is_flag=True, help="Write the value's bytes to standard output, and nothing else.")
@json_option
def show_command(
    file: str,
    place: tuple[str, int, int],
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    raw: bool,
    as_json: bool,
) -> None:
    """Show one dead letter whole: its bytes, with a mark at the trouble, and what was expected.

    Example: floe dlq show pipelines/orders.yaml orders-0@51
    """
    from framework.runtime.letters import Selection

    pipeline = _load(file, target, variables, sets)
    topic, partition, offset = place
    rows = _read(pipeline, Selection(topic=topic, partition=partition, offset=offset), WHOLE)
    if not rows:
        raise SetupError(
            f"pipeline {pipeline.spec.name} has no dead letter {topic}-{partition}@{offset}",
            code="FLOE-E602",
            place=str(pipeline.spec.errors.dead_letter_table),
            remedy=f"`floe dlq list {file} --all` lists them",
        )
    row = rows[0]
    if raw:
        sys.stdout.buffer.write(row["value"] or b"")
    elif as_json:
        headers = [{"key": h["key"], "value": _json_bytes(h["value"])} for h in row.pop("headers") or ()]
        letter = {**row, "key": _json_bytes(row["key"]), "value": _json_bytes(row["value"]), "headers": headers}
        click.echo(json.dumps({"command": "dlq show", "ok": True, "letter": letter}))
    else:
        for line in describe(row):
            click.echo(line)


def describe(row: Mapping[str, Any]) -> Iterator[str]:
    """A letter in lines."""
    from framework.record.letter_view import bytes_text, shown, value_lines

    title = CODES[row["code"]].title if row["code"] in CODES else ""
    yield f"{place_of(row)}   {_time(row) or 'without a timestamp'}{'   (replayed)' if row['replayed'] else ''}"
    yield f"{row['code']} at {row['stage']}: {title}"
    yield f"  {shown(row['message'])}"
    yield ""
    facts = [("field", row["field_path"]), ("expected", row["expected"]), ("actual", row["actual"])]
    for name, value in facts:
        if value is not None:
            yield f"  {name:<9} {shown(value)}"
    yield f"  {'key':<9} {bytes_text(row['key'])}"
    for header in row["headers"] or ():
        yield f"  {'header':<9} {shown(header['key'])}: {bytes_text(header['value'])}"
    yield f"  {'pipeline':<9} {row['pipeline']}, run {row['run']}"
    size = f"{len(row['value']):,} bytes" if row["value"] is not None else "none"
    yield f"  {'value':<9} {size}:"
    yield ""
    for line in value_lines(row["value"], row["field_path"]):
        yield f"    {line}"
    yield ""
    yield f"`floe explain {row['code']}` says more about the code."


# ---- stats ----------------------------------------------------------------------------------------------------------


@dlq.command("stats")
@FILE
@loading_options
@filter_options
@json_option
def stats_command(
    file: str,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    code: str | None,
    stage: str | None,
    topic: str | None,
    since: int | None,
    as_json: bool,
) -> None:
    """Count dead letters by what is wrong with them: how many wait, how many were replayed, since when.

    Example: floe dlq stats pipelines/orders.yaml -t prod
    """
    pipeline = _load(file, target, variables, sets)
    rows = _read(pipeline, _select(code, stage, topic, since), BRIEF)
    groups = _groups(rows)
    waiting = sum(group["waiting"] for group in groups)
    if as_json:
        document = {"command": "dlq stats", "ok": True, "pipeline": pipeline.spec.name, "waiting": waiting}
        click.echo(json.dumps({**document, "replayed": len(rows) - waiting, "groups": groups}))
        return
    if not rows:
        click.echo(_none(pipeline, 0))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("code", "stage", "topic", "field", "waiting", "replayed", "first", "last", "newest record"):
        table.add_column(name, justify="right" if name in ("waiting", "replayed") else "left", overflow="fold")
    for group in groups:
        table.add_row(
            *(
                _text(part)
                for part in (
                    group["code"],
                    group["stage"],
                    group["topic"],
                    group["field_path"] or "",
                    f"{group['waiting']:,}",
                    f"{group['replayed']:,}",
                    _moment(group["first_ms"]),
                    _moment(group["last_ms"]),
                    group["example"],
                )
            )
        )
    _console().print(table)
    click.echo(f"\n{waiting:,} wait, {len(rows) - waiting:,} were replayed")


def _groups(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["code"], row["stage"], row["topic"], general_path(row["field_path"]) or "")
        group = groups.setdefault(
            key,
            {
                "code": key[0],
                "stage": key[1],
                "topic": key[2],
                "field_path": key[3] or None,
                "waiting": 0,
                "replayed": 0,
                "first_ms": row["timestamp_ms"],
                "last_ms": row["timestamp_ms"],
                "example": place_of(row),
            },
        )
        group["replayed" if row["replayed"] else "waiting"] += 1
        times = [t for t in (group["first_ms"], group["last_ms"], row["timestamp_ms"]) if t is not None]
        group["first_ms"], group["last_ms"] = min(times, default=None), max(times, default=None)
    return sorted(groups.values(), key=lambda group: (-group["waiting"], -group["replayed"], group["code"]))


def general_path(path: str | None) -> str | None:
    """`items[3].price` as `items[].price`, so that elements of lists and maps count together."""
    return None if path is None else re.sub(r"\[[^\]]*\]", "[]", path)


# ---- replay ---------------------------------------------------------------------------------------------------------


@dlq.command("replay")
@FILE
@loading_options
@filter_options
@json_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def replay_command(
    file: str,
    target: str | None,
    variables: Mapping[str, str],
    sets: Mapping[str, str],
    code: str | None,
    stage: str | None,
    topic: str | None,
    since: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Send dead letters through the pipeline file as it is now, exactly once.

    What can be written now is written and marked as replayed; what fails again stays as it is. The pipeline may be
    running meanwhile. Running this twice, or again after it was killed, repeats nothing.

    Example: floe dlq replay pipelines/orders.yaml -t prod --code FLOE-D304
    """
    from framework.adapters.secrets import resolve
    from framework.runtime.job import open_catalog
    from framework.runtime.replay import replay

    pipeline = _load(file, target, variables, sets)
    started = time.monotonic()

    def say(text: str) -> None:
        if not quiet:
            click.echo(f"{time.monotonic() - started:7.1f} s  {text}", err=True)

    kafka = resolve(pipeline.target.kafka[pipeline.spec.source.kafka.connection])
    catalog = open_catalog(pipeline.target.catalogs)
    report = replay(pipeline, kafka, catalog, _select(code, stage, topic, since), say)
    if as_json:
        click.echo(json.dumps(_replay_json(report)))
    else:
        for line in _replay_lines(report, file):
            click.echo(line)


def _replay_json(report: ReplayReport) -> dict[str, object]:
    a = report.accounting
    return {
        "command": "dlq replay",
        "ok": True,
        "pipeline": report.pipeline,
        "run": report.run,
        "found": report.found,
        "replayed": report.replayed,
        "written": a.written,
        "filtered": a.filtered,
        "dropped": a.dropped,
        "failing": report.failing.total(),
        "rows": report.rows,
        "failing_by_code": dict(report.failing.most_common()),
    }


def _replay_lines(report: ReplayReport, file: str) -> Iterator[str]:
    from framework.record.letter_view import shown

    if not report.found:
        yield f"{report.pipeline}: no dead letter waits that was asked for; nothing is changed"
        return
    a = report.accounting
    parts = [(a.written, "written"), (a.filtered, "filtered"), (a.dropped, "dropped")]
    became = " + ".join(f"{count:,} {word}" for count, word in parts if count) or "none"
    yield f"{report.pipeline}: {report.replayed:,} of {report.found:,} dead letters replayed = {became}"
    for table, rows in sorted(report.rows.items()):
        yield f"  {rows:,} rows for {table}"
    failing: Counter[str] = report.failing
    for failed, count in failing.most_common():
        letter = report.examples[failed]
        place = f"{letter.topic}-{letter.partition}@{letter.offset}"
        yield f"  {count:,} still fail with {failed}, such as {place}: {shown(letter.message)}"
    if failing:
        yield f"`floe dlq show {file} {place}` shows one whole"


# ---- words ----------------------------------------------------------------------------------------------------------


def place_of(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}@{row['offset']}"


def _none(pipeline: LoadedPipeline, replayed: int) -> str:
    more = f"; {replayed:,} were replayed, `--all` lists them" if replayed else ""
    return f"{pipeline.spec.name}: no dead letters wait in {pipeline.spec.errors.dead_letter_table}{more}"


def _time(row: Mapping[str, Any]) -> str:
    return _moment(row["timestamp_ms"])


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _text(value: str) -> Text:
    from framework.record.letter_view import shown

    return Text(shown(value))


def _json_bytes(data: bytes | None) -> dict[str, str] | None:
    if data is None:
        return None
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _console() -> Console:
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, WIDTH)
    return console

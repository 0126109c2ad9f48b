"""`floe log`: the control topic as a readable commit log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from framework.cli.shared.options import whoami
from framework.cli.shared.target_options import Control, open_control, target_options
from framework.commit.events.codec import decode, encode, foreign
from framework.commit.events.event_types import (
    Acted,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    ControlEvent,
    CoordinatorAssigned,
    CoordinatorReleased,
    DataComplete,
    DataWritten,
    Deployed,
    Discarded,
    Heartbeat,
    OffsetsSet,
    PauseChanged,
    Skipped,
    SourceRange,
    StateChanged,
    StopRequested,
    TableChanged,
    TableMeasured,
)
from framework.commit.events.log_rows import value_of, words_of_removed
from framework.commit.machine.pauses import describe as describe_pause
from framework.commit.maintenance.health import gain_words
from framework.config.names.table_names import catalog_of
from framework.diagnose.counted import counted, moment_text
from framework.diagnose.shown import shown
from framework.errors import FloeError

DEFAULT_LAST = 50


@click.command()
@target_options
@click.option(
    "--last",
    type=click.IntRange(1),
    default=DEFAULT_LAST,
    show_default=True,
    help="How many offsets before the end to begin.",
)
@click.option("--from", "begin", type=click.IntRange(0), default=None, help="Control offset to begin at.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new events; Ctrl-C ends it.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line: the offset and the event as it is stored."
)
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=None,
    metavar="OFFSET",
    help="Skip the record at OFFSET, which claims to be an event and cannot be read: every reader goes on after it.",
)
def log(
    target: str | None,
    connection: str | None,
    control_topic: str,
    last: int,
    begin: int | None,
    follow: bool,
    as_json: bool,
    skip: int | None,
) -> None:
    """Print what was announced and committed, in the order of the control topic.

    Where the target has `log.archive`, offsets that the topic no longer holds are read from there.
    """
    control = open_control(target, connection, control_topic)
    if skip is not None:
        _skip(control, skip)
        return

    reader = control.reader()
    try:
        start, end = reader.start_offset(), reader.end_offset()
        first = end - last if begin is None else begin
        if first < start and control.target.log_archive.table:
            for row in _archived(control, max(0, first), start):
                _print(row["offset"], value_of(row), as_json, words_of_removed(row))
        reader.seek(min(end, max(start, first)))
        for record in reader.raw_until(end):
            _print(record.offset, record.value, as_json)
        while follow:
            for record in reader.poll_raw(1.0):
                _print(record.offset, record.value, as_json)
            time.sleep(0.05)
    finally:
        reader.close()


def _archived(control: Control, first: int, below: int) -> Iterator[dict[str, Any]]:
    """What the target's archive holds of this control topic in [first, below), in order."""
    from framework.adapters.kafka.admin import KafkaAdmin
    from framework.adapters.kafka.control.topic import control_topic_there
    from framework.runtime.coordinator.log_archive import read_archive
    from framework.runtime.job import open_catalog

    table = control.target.log_archive.table
    topic_id = control_topic_there(KafkaAdmin(control.kafka), control.topic).topic_id
    yield from read_archive(open_catalog(control.target, (catalog_of(table),)), table, topic_id, first, below)


def _skip(control: Control, offset: int) -> None:
    from framework.recovery.skip import skip_record

    why = skip_record(control.kafka, control.topic, offset, whoami())
    click.echo(f"the record at offset {offset} is skipped from now on ({shown(why)}); restart what it had stopped")


def _print(offset: int, value: bytes, as_json: bool, removed: str | None = None) -> None:
    """A record as one line; nothing for an event of a type that this version does not know. `removed`: it stands for records
    that are gone, in words."""
    try:
        event, why = decode(value), foreign(value)
    except FloeError as error:
        event, why = None, error.message
    if why and as_json:
        click.echo(json.dumps({"offset": offset, "event": None, "unreadable": why, "bytes": len(value)}))
    elif why:
        click.echo(f"{offset:>8}  {'-':<15} no event that can be read, {len(value):,} bytes: {shown(why)}")
    elif removed is not None and as_json:
        click.echo(json.dumps({"offset": offset, "event": json.loads(value)}))
    elif removed is not None:
        click.echo(f"{offset:>8}  {'-':<15} {removed}")
    elif event is not None and as_json:
        click.echo(json.dumps({"offset": offset, "event": json.loads(encode(event))}))
    elif event is not None:
        click.echo(f"{offset:>8}  {type(event).__name__:<15} {shown(describe(event))}")


def describe(event: ControlEvent) -> str:
    """One event in one line."""
    if isinstance(event, DataWritten):
        part = f" (part {event.part + 1} of {event.parts})" if event.parts > 1 else ""
        return (
            f"{event.pipeline} batch {event.batch}: {counted(event.rows, 'row')} in "
            f"{counted(len(event.files), 'file')} for {event.table}{part}"
        )
    if isinstance(event, DataComplete):
        gaps = "".join(f"; gone before they were read: {_gap(gap)}" for gap in event.gaps)
        return f"{event.pipeline} batch {event.batch}: {event.accounting}{gaps}"
    if isinstance(event, Heartbeat):
        return (
            f"{event.pipeline} batch {event.batch}: run {event.run} is alive, {counted(len(event.ranges), 'partition')}"
        )
    if isinstance(event, OffsetsSet):
        ends = ", ".join(f"{r.topic}:{r.partition}={r.end}" for r in event.ranges)
        cost = "".join(f", {n:,} {what}" for n, what in ((event.lost, "lost"), (event.repeated, "read again")) if n)
        return f"{event.pipeline} batch {event.batch}: goes on at {ends} ({event.reason}{cost})"
    if isinstance(event, Discarded):
        return (
            f"{event.table}: {counted(sum(event.rows.values()), 'row')} in {counted(event.files, 'file')} of "
            f"{counted(event.announcements, 'announcement')} below {event.below} given up: {event.reason}"
        )
    if isinstance(event, CommitRequested):
        return f"{event.pipeline or 'all pipelines'} until {moment_text(event.deadline_ms)}"
    if isinstance(event, CommitToTable):
        through = f", valid through {moment_text(event.valid_through_ms)}" if event.valid_through_ms else ""
        return (
            f"{event.table}: snapshot {event.snapshot_id}, {counted(event.rows, 'row')} in "
            f"{counted(event.files, 'file')}, all below {event.control_offset}{through}"
        )
    if isinstance(event, StateChanged):
        failures = f" after {counted(event.failures, 'failure')}" if event.failures else ""
        return f"{event.subject.value} {event.name} is {event.state.value}{failures}{': ' if event.reason else ''}{event.reason}"
    if isinstance(event, PauseChanged):
        return (
            describe_pause(event)
            if event.paused
            else f"{event.holds.value} of `{event.pattern}` goes on, by {event.by}{': ' if event.reason else ''}{event.reason}"
        )
    if isinstance(event, StopRequested):
        why = f": {event.reason}" if event.reason else ""
        return f"{event.pipeline} by {event.by}, until {moment_text(event.deadline_ms)}{why}"
    if isinstance(event, Acted):
        why = f": {event.why}" if event.why else ""
        return f"{event.act} {event.subject} by {event.by} at {moment_text(event.timestamp_ms)}{why} ({event.detail})"
    if isinstance(event, Skipped):
        return f"the record at offset {event.offset} is skipped, by {event.by}: {event.reason}"
    if isinstance(event, CoordinatorAssigned):
        again = ", to read a part of the log again" if event.reads_again else ""
        return f"{event.coordinator} coordinates{again} ({moment_text(event.timestamp_ms)})"
    if isinstance(event, CoordinatorReleased):
        return f"{event.coordinator} coordinates no more: its work is done ({moment_text(event.timestamp_ms)})"
    if isinstance(event, TableMeasured):
        h = event.health
        gain = gain_words(h)
        return (
            f"{event.table}: {h.small_files:,} of {counted(h.data_files, 'file')} small, "
            f"{counted(h.snapshots, 'snapshot')}{f'; maintenance leaves {gain} fewer' if gain else ''}"
        )
    if isinstance(event, TableChanged):
        return f"{event.table}: {', '.join(event.changes)}, asked for by {event.cause or 'records'} of {event.pipeline}"
    if isinstance(event, Deployed):
        return f"{event.pipeline}: {event.hash[:19]} by floe {event.floe} ({moment_text(event.timestamp_ms)})"
    return _complete(event)


def _complete(event: CommitComplete) -> str:
    blocked = "".join(f"; {table} is blocked: {reason}" for table, reason in sorted(event.blocked.items()))
    said = f"everything below {event.low_water} is in every table"
    return f"{event.coordinator}: {said} ({moment_text(event.timestamp_ms)}){blocked}"


def _gap(gap: SourceRange) -> str:
    return f"{gap.topic}-{gap.partition} offsets {gap.start:,} to {gap.end - 1:,}"

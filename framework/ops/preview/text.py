"""Previews as lines for people: a mark, an indent and a sentence each. Pure; the verb adds the colours.

Marks: `+` is created, `~` changes, `-` is removed, `!` is dangerous or refused, a blank is unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from framework.config.names.table_names import template_glob
from framework.diagnose.counted import counted, moment_text
from framework.diagnose.render import refused_table
from framework.ops.preview.model import Action, PipelinePreview, StartPreview, TablePreview
from framework.plan.catalogs import shown_table
from framework.plan.deploy.removed import REMOVED, WHY, RemovedPipeline
from framework.plan.diff.diff import ChangeKind, PlanChange
from framework.plan.explain import explain_plan

_MARKS = {
    Action.START: "+",
    Action.CREATE: "+",
    Action.RESTART: "~",
    Action.ALTER: "~",
    Action.REFUSE: "!",
    Action.UNCHANGED: " ",
    Action.KEEP: " ",
}
_CHANGES = {ChangeKind.ADD: "+", ChangeKind.CHANGE: "~", ChangeKind.REMOVE: "-"}
_HASH_SHOWN = len("sha256:") + 12
_AS_THEY_ARE_SHOWN = 20
_VALUE_SHOWN = 80  # a whole schema or query is one value; `--json` has all of it


@dataclass(frozen=True)
class PreviewLine:
    """`mark` is one of `+ ~ - !` or a blank; a line without one stands at the margin."""

    mark: str
    indent: int
    text: str

    def __str__(self) -> str:
        return f"{'  ' * self.indent}{self.mark} {self.text}".rstrip() if self.mark else self.text


def preview_lines(
    previews: Sequence[PipelinePreview],
    allowed: Collection[str],
    with_steps: bool,
    removed: Sequence[RemovedPipeline] = (),
) -> Iterator[PreviewLine]:
    """Everything, pipeline by pipeline, and one line with the sums."""
    shown: set[str] = set()
    for preview in previews:
        home = preview.plan.write.dead_letter_table
        once = preview if home not in shown else replace(preview, tables=_without(preview.tables, home))
        shown |= {home} if home else set()
        yield from pipeline_lines(once, allowed, with_steps)
        yield PreviewLine("", 0, "")
    if removed:
        yield from removed_lines(removed, allowed)
        yield PreviewLine("", 0, "")
    yield PreviewLine("", 0, summary(previews, len(removed)))


def _without(tables: tuple[TablePreview, ...] | None, name: str | None) -> tuple[TablePreview, ...] | None:
    """The tables but for one: the dead-letter table of several pipelines is shown with the first."""
    return None if tables is None else tuple(table for table in tables if table.table != name)


def removed_lines(removed: Iterable[RemovedPipeline], allowed: Collection[str]) -> Iterator[PreviewLine]:
    """Deployed pipelines that no file holds any longer."""
    is_allowed = REMOVED in allowed
    for each in removed:
        place = f" of deployment {each.deployment}" if each.deployment else ""
        known = f" ({each.hash[:_HASH_SHOWN]})" if each.hash else ""
        yield PreviewLine("-" if is_allowed else "!", 0, f"pipeline {each.pipeline}{place}{known}: removed")
        yield PreviewLine(" ", 2, f"{WHY}  [{'allowed' if is_allowed else f'needs --allow {REMOVED}'}]")


def pipeline_lines(preview: PipelinePreview, allowed: Collection[str], with_steps: bool) -> Iterator[PreviewLine]:
    plan, said = preview.plan, _said(preview)
    mark = "!" if preview.problems else _MARKS[preview.action]
    yield PreviewLine(mark, 0, f"pipeline {plan.pipeline} on target {plan.target} ({plan.source_file}): {said}")
    if preview.template is not None:
        used = preview.template
        yield PreviewLine(" ", 1, f"template {used.name} {used.version} ({used.hash[:_HASH_SHOWN]})")
    for problem in preview.problems:
        yield PreviewLine("!", 2, f"{problem.message}  [{problem.code}]")
        if problem.remedy:
            yield PreviewLine(" ", 3, f"remedy: {problem.remedy}")
    for warning in preview.warnings:
        yield PreviewLine("!", 2, f"warning: {warning.message}")
        yield PreviewLine(" ", 3, f"remedy: {warning.remedy}")
    yield from changes_lines(preview.changes or (), allowed)
    if (team := preview.must_agree) is not None:
        yield PreviewLine(" ", 2, f"columns change: {team} must agree (owner of schema)")
    if preview.start is not None:
        yield from _start_lines(preview.start, plan.read.group_id)
    if preview.tables is not None:
        yield PreviewLine(" ", 1, "tables")
        as_they_are = [table for table in preview.tables if table.action is Action.KEEP and not table.notes]
        for table in as_they_are[:_AS_THEY_ARE_SHOWN]:
            yield from _table_lines(table, False)
        if (more := len(as_they_are) - _AS_THEY_ARE_SHOWN) > 0:
            yield PreviewLine(" ", 2, f"{more:,} more unchanged; --json lists them")
        for table in (each for each in preview.tables if each.action is not Action.KEEP or each.notes):
            yield from _table_lines(table, table.table == plan.write.dead_letter_table)
        for rule in plan.route.rules:
            if "{" in rule.table:
                glob, most = template_glob(shown_table(plan, rule.table)), plan.route.max_new_tables_per_hour
                yield PreviewLine("+", 2, f"{glob}: created as records name them, at most {most} an hour")
    if with_steps:
        yield PreviewLine(" ", 1, "steps")
        for number, (title, lines) in enumerate(explain_plan(plan), start=1):
            yield PreviewLine(" ", 2, f"{number}. {title}")
            yield from (PreviewLine(" ", 4, line) for line in lines)


def _said(preview: PipelinePreview) -> str:
    if preview.action is Action.START:
        return "starts for the first time"
    if preview.deployed is None:
        return "restarts; there is no record of what was deployed, so nothing can be compared"
    since = preview.deployed.hash[:_HASH_SHOWN]
    # A saved plan has no time of a deployment.
    since += f" of {_time(preview.deployed.timestamp_ms)}" if preview.deployed.timestamp_ms else ", a saved plan"
    if preview.action is Action.UNCHANGED:
        return f"unchanged since {since}"
    if preview.changes == ():
        return f"restarts: another version of floe than {since}"
    return f"restarts; compared with {since}"


def changes_lines(changes: Iterable[PlanChange], allowed: Collection[str]) -> Iterator[PreviewLine]:
    """The changes, and below each breaking change its sentence with the option that allows it."""
    changes = list(changes)
    if changes:
        yield PreviewLine(" ", 1, "changes")
    for change in changes:
        dangerous = change.breaking and change.breaking not in allowed
        yield PreviewLine("!" if dangerous else _CHANGES[change.kind], 2, _change_text(change))
        if change.breaking:
            consent = "allowed" if change.breaking in allowed else f"needs --allow {change.breaking}"
            yield PreviewLine(" ", 4, f"{change.why}  [{consent}]")


def _change_text(change: PlanChange) -> str:
    if change.before is None and change.after is None:
        return f"{change.subject}: changed"
    if change.before is None:
        return f"{change.subject}: {_short(change.after)}"
    if change.after is None:
        return f"{change.subject}: {_short(change.before)}, removed"
    return f"{change.subject}: {_short(change.before)} -> {_short(change.after)}"


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= _VALUE_SHOWN else f"{text[: _VALUE_SHOWN - 3]}..."


def _start_lines(start: StartPreview, group: str) -> Iterator[PreviewLine]:
    yield PreviewLine(" ", 1, "first run" if start.first_run else f"goes on after batch {start.batch}")
    topics = sorted({(part.topic, part.by) for part in start.partitions})
    for topic, by in topics:
        parts = [part for part in start.partitions if (part.topic, part.by) == (topic, by)]
        whence = {"group": f"safe offsets of group {group}", "new partition": "new, from the beginning"}.get(by, by)
        first = f" from offset {parts[0].start:,}" if len(parts) == 1 else ""
        waiting = sum(max(0, part.end - part.start) for part in parts)
        many = counted(len(parts), "partition")
        yield PreviewLine(" ", 2, f"{topic}, {many}{first} ({whence}): {counted(waiting, 'offset')} to read")


def _table_lines(table: TablePreview, dead_letters: bool) -> Iterator[PreviewLine]:
    notes = list(table.notes)
    head = {Action.CREATE: "is created", Action.ALTER: "gains", Action.KEEP: "unchanged"}
    text = f"{table.table}: {head.get(table.action, '')}"
    if table.action is Action.REFUSE:
        text = refused_table(table.table, notes.pop(0), table.code)
    if table.upserted_by:
        text += f", upserted by {', '.join(table.upserted_by)}"
    if table.partition_by:
        text += f", partitioned by {', '.join(table.partition_by)}"
    if table.location:
        text += f", at {table.location}"
    yield PreviewLine(_MARKS[table.action], 2, text)
    for column in () if dead_letters else table.columns:  # those are always the same
        yield PreviewLine("~" if " -> " in column else "+", 4, column)
    if table.action is Action.CREATE:
        if notes:
            yield PreviewLine(" ", 4, f"({notes.pop(0)})")
    elif table.action is Action.ALTER:
        yield PreviewLine(" ", 4, f"({notes.pop(0)})")
    if properties := _worth_showing(table):
        yield PreviewLine(" ", 4, "properties " + ", ".join(f"{key}={_short(value)}" for key, value in properties))
    yield from (PreviewLine("!", 4, note) for note in notes)


def _worth_showing(table: TablePreview) -> list[tuple[str, str]]:
    """The properties of a table; of one that stays as it is, those that it was not made with by default."""
    if not table.properties or table.action not in (Action.KEEP, Action.REFUSE):
        return list(table.properties)
    from framework.adapters.iceberg.define import DEFAULT_PROPERTIES  # the catalog was asked: its client is loaded

    usual = {**DEFAULT_PROPERTIES, "format-version": "2"}
    return [(key, value) for key, value in table.properties if usual.get(key) != value]


def summary(previews: Sequence[PipelinePreview], removed: int = 0) -> str:
    """`Plan: 1 to start, 2 to restart, 0 unchanged; tables: 3 to create, 1 to change, 0 refused`."""
    pipelines = Counter(preview.action for preview in previews)
    distinct = {(table.table, table.action) for preview in previews for table in preview.tables or ()}
    tables = Counter(action for _, action in distinct)
    text = (
        f"Plan: {pipelines[Action.START]} to start, {pipelines[Action.RESTART]} to restart, "
        f"{pipelines[Action.UNCHANGED]} unchanged" + (f", {removed} removed" if removed else "")
    )
    if any(preview.tables is not None for preview in previews):
        text += (
            f"; tables: {tables[Action.CREATE]} to create, {tables[Action.ALTER]} to change, "
            f"{tables[Action.REFUSE]} refused"
        )
    breaking_changes = removed + sum(bool(change.breaking) for preview in previews for change in preview.changes or ())
    return text + (f"; {counted(breaking_changes, 'dangerous change')}" if breaking_changes else "")


def _time(milliseconds: int) -> str:
    return moment_text(milliseconds, "%Y-%m-%d %H:%M UTC")

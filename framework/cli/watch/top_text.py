"""The screen of `floe top`, made of an `Overview`: troubles first, then pipelines, tables, and what people did.

In: an overview, the time, and the size of the terminal. Out: what rich prints. Every text of others goes through
`shown`: no name and no reason can write to the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from framework.cli.shared.columns import fitting, left_out
from framework.cli.shared.status_text import age, lag_text
from framework.commit.events.event_types import Health
from framework.commit.maintenance.health import gain_words, maintain_command
from framework.diagnose.counted import counted, share_of, size_text
from framework.diagnose.shown import shown
from framework.overview.values import URGENCY, Overview, PipelineView, ScreenProblem, TableView

COLOURS = {
    Health.BLOCKED: "bold red",
    Health.FAILED: "bold red",
    Health.STALLED: "bold yellow",
    Health.DEGRADED: "yellow",
    Health.PAUSED: "cyan",
    Health.STOPPED: "dim",
}
ACTS_SHOWN = 5
DECAYED_SHOWN = 3
IDLE_PHASES = ("waiting", "starting")
# What a screen has at most of troubles, so that pipelines and tables keep some lines.
TROUBLES_SHARE = 0.5
LINES_OF_A_TROUBLE = 3


def screen(found: Overview, now_ms: int, width: int, rows: int | None, narrow: int | None = None) -> RenderableType:
    """The screen; with `rows`, at most about so many lines: what is left out is counted.

    Args:
        narrow: what tables must fit into, where that is less than `width`.
    """
    fit = width if narrow is None else narrow
    parts: list[RenderableType] = [*_head(found, now_ms)]
    troubles = [*found.troubles, *found.held]
    most = len(troubles) if rows is None else max(1, int(rows * TROUBLES_SHARE) // LINES_OF_A_TROUBLE)
    for trouble in troubles[:most]:
        parts += _trouble(trouble, now_ms)
    if len(troubles) > most:
        parts.append(Text(f"  and {len(troubles) - most:,} more; `floe status` lists all", "dim"))
    if not troubles:
        parts.append(Text("nothing is in trouble", "green"))
    parts += _decayed(found)
    left = None if rows is None else max(4, rows - len(parts) - ACTS_SHOWN - 6)
    half = None if left is None else max(2, left // 2)
    parts += [Text(""), *_cut(_pipelines, _urgent(found.pipelines), half, now_ms, "pipeline", fit)]
    parts += [Text(""), *_cut(_tables, _urgent(found.tables), half, now_ms, "table", fit)]
    if found.acts:
        parts.append(Text(""))
        for act in found.acts[:ACTS_SHOWN]:
            why = f": {act.why}" if act.why else ""
            parts.append(_line(f"{age(now_ms - act.at_ms)} ago  {act.act} {act.subject}, by {act.by}{why}", "dim"))
    if rows is not None:
        for part in parts:
            if isinstance(part, Text):
                part.truncate(width, overflow="ellipsis")
    return Group(*parts)


def _head(found: Overview, now_ms: int) -> Iterable[Text]:
    who = f"coordinated by {found.broker.owner}" if found.broker.owner else "nobody coordinates"
    yield _line(
        f"target {found.target}, control topic {found.control_topic}: committed up to offset {found.broker.low_water} of "
        f"{found.broker.log_end}; {who}",
        "bold",
    )
    if found.broker.trouble:
        since = age(now_ms - (found.broker.trouble_since_ms or now_ms))
        yield _line(
            f"the broker could not be asked for {since}, and this may be old: {found.broker.trouble}", "bold red"
        )


def _trouble(trouble: ScreenProblem, now_ms: int) -> Iterable[Text]:
    condition = trouble.condition
    since = f" for {age(now_ms - condition.since_ms)}" if condition.since_ms is not None else ""
    others = f" (and {counted(trouble.others, f'other {trouble.kind}')} with the same)" if trouble.others else ""
    code = f" [{condition.code}]" if condition.code else ""
    head = f"{condition.state.value}{since}  {trouble.kind} {trouble.name}{others}{code}"
    yield _line(head, COLOURS.get(condition.state, ""))
    if condition.reason:
        yield _line(f"  {condition.reason}")
    if condition.remedy:
        yield _line(f"  remedy: {condition.remedy}")


def _decayed(found: Overview) -> Iterable[Text]:
    """Tables that a person should maintain, the worst first, with the command."""
    tables = sorted((each for each in found.tables if each.needs), key=lambda each: (-_gain(each), each.table))
    for each in tables[:DECAYED_SHOWN]:
        assert each.health is not None, "what needs something was measured"
        command = maintain_command(each.table, found.target)
        yield _line(f"table {each.table} decays: `{command}` leaves {gain_words(each.health)} fewer", "yellow")
    if len(tables) > DECAYED_SHOWN:
        yield Text(f"  and {counted(len(tables) - DECAYED_SHOWN, 'more table')} like it", "dim")


def _gain(table: TableView) -> int:
    return table.health.gain_files if table.health is not None else 0


def _urgent(lines: Sequence[PipelineView] | Sequence[TableView]) -> list[PipelineView | TableView]:
    return sorted(lines, key=lambda each: URGENCY.index(each.condition.state))


def _cut(
    make: object, lines: list[PipelineView | TableView], most: int | None, now_ms: int, kind: str, fit: int
) -> Iterable[RenderableType]:
    chosen = lines if most is None else lines[:most]
    yield from make(chosen, now_ms, fit)  # type: ignore[operator]
    if len(lines) > len(chosen):
        yield Text(f"  and {counted(len(lines) - len(chosen), f'more {kind}')}", "dim")


def _pipelines(lines: Iterable[PipelineView], now_ms: int, fit: int) -> Iterable[RenderableType]:
    names = (
        "pipeline",
        "state",
        "batch",
        "took",
        "lag",
        "records/min",
        "dead letters/h",
        "waiting rows",
        "valid through",
    )
    rows = []
    for each in lines:
        rows.append(
            (
                _line(each.pipeline),
                _state(each.condition.state),
                f"{each.batch:,}",
                _took(each),
                lag_text(each.lag, each.waits_since_ms, each.lag_trend, now_ms),
                f"{each.records_a_minute(now_ms // 60_000):,}",
                share_of(each.hour_dead_letters, each.hour_records),
                f"{each.waiting.rows:,}",
                _ago(each.valid_through_ms, now_ms),
            )
        )
    return _grid(names, rows, ("took", "batch", "waiting rows", "records/min"), fit)


def _took(pipeline: PipelineView) -> str:
    """How long the newest batch took, but for the time in which there was nothing to do, and most of it in what."""
    busy = [each for each in pipeline.phases if each.phase not in IDLE_PHASES and each.newest_ms]
    if not busy:
        return "-"
    most = max(busy, key=lambda each: each.newest_ms)
    return f"{sum(each.newest_ms for each in busy) / 1000:.1f}s, {most.phase} {most.newest_ms / 1000:.1f}s"


def _tables(lines: Iterable[TableView], now_ms: int, fit: int) -> Iterable[RenderableType]:
    names = (
        *("table", "state", "last commit", "snapshots/h", "files/h", "mean file", "small files", "waiting rows"),
        "schema changes",
    )
    rows = []
    for each in lines:
        hour = each.hour
        rows.append(
            (
                _line(each.table),
                _state(each.condition.state),
                _ago(each.last_commit_ms, now_ms),
                f"{hour.commits:,}",
                f"{hour.files:,}",
                size_text(hour.bytes // hour.files) if hour.files else "",
                f"{each.health.small_files:,} of {each.health.data_files:,}" if each.health is not None else "",
                f"{each.waiting.rows:,}",
                f"{len(each.schema_changes):,}",
            )
        )
    return _grid(names, rows, ("schema changes", "mean file", "files/h", "small files", "snapshots/h"), fit)


def _grid(
    names: Sequence[str], rows: Sequence[tuple[str | Text, ...]], spare: Sequence[str], fit: int
) -> Iterable[RenderableType]:
    """The columns that fit, and which do not."""
    kept = fitting(names, [[str(cell) for cell in row] for row in rows], spare, fit, gap=2)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number in kept:
        table.add_column(names[number], justify="left" if number < 2 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[number] for number in kept))
    yield table
    if missing := left_out(names, kept):
        yield Text(missing, "dim")


def _state(state: Health) -> Text:
    return Text(state.value, COLOURS.get(state, ""))


def _line(text: str, style: str = "") -> Text:
    return Text(shown(text), style)


def _ago(at_ms: int | None, now_ms: int) -> str:
    return f"{age(now_ms - at_ms)} ago" if at_ms is not None else "never"

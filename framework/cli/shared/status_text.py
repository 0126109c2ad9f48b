"""A status as people read it: what is wrong first in each line, why, since when and what to do; whose word it is.

In: a `Status` whose texts are harmless to show. Out: lines on standard output, with colours for states on a terminal
alone and never under NO_COLOR.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from framework.cli.shared.columns import GAP, fitting, in_columns, left_out, terminal_width
from framework.cli.shared.options import use_colour
from framework.commit.events.event_types import Health
from framework.commit.maintenance.health import gain_words, maintain_command
from framework.diagnose.counted import counted, stamp_text
from framework.diagnose.render import trouble

if TYPE_CHECKING:
    from framework.commit.maintenance.health import TableHealth
    from framework.observe.status.model import PipelineStatus, Status, TableStatus

# As SGR codes: green, yellow, bold red, cyan.
_STYLES = {
    Health.RUNNING: "32",
    Health.IDLE: "32",
    Health.DEGRADED: "33",
    Health.STALLED: "1;31",
    Health.BLOCKED: "1;31",
    Health.FAILED: "1;31",
    Health.PAUSED: "36",
    Health.STOPPED: "36",
}
# What a narrow terminal can do without, the first first: figures of which others say as much, and ids to copy.
_SPARE_PIPELINES = ("holes\n+", "dropped\n+", "lost", "filtered\n+", "batch", "last\nword", "data\nage", "offsets\n=")
LAGS_MS = 10_000
_SPARE_TABLES = ("data\nage", "waiting\nfiles", "files", "snapshot", "added", "valid\nthrough")
_LEFT = frozenset({"pipeline", "state", "table"})


def print_status(found: Status) -> None:
    """The whole of it, with ages as of `found.read_ms`."""
    print("\n".join(_lines(found, use_colour(sys.stdout.isatty()))))


def _lines(found: Status, colour: bool) -> Iterator[str]:
    # Wide rather than wrapped: a name or a snapshot id that is cut cannot be copied.
    now_ms = found.read_ms
    c = found.control
    yield (
        f"target {found.target}, control topic {c.topic}: committed up to offset {c.low_water} of {c.log_end}; "
        f"{'coordinated by ' + found.coordinator if found.coordinator else 'nobody coordinates now'}"
    )
    yield latest_event_author(found, now_ms)
    if c.reason:
        yield from trouble(f"no coordinator can go on with {c.topic}", c.reason, c.remedy)
    for risk in found.risks:
        since = f" for {age(now_ms - risk.since_ms)}" if risk.since_ms is not None else ""
        yield from trouble(f"{risk.kind} {risk.name}: at risk{since}", risk.reason, risk.remedy)
    for pause in found.pauses:
        yield (
            f"{pause.holds.value} of `{pause.pattern}` is paused by {pause.by} for {age(now_ms - pause.timestamp_ms)}"
            + (f": {pause.reason}" if pause.reason else "")
        )
    if not found.pipelines and not found.tables:
        yield (
            "nothing to show: no pipeline has announced anything yet (`floe run FILE` starts one), or no name and no state "
            "matches"
        )
        return
    if found.pipelines:
        yield ""
        yield from pipelines_table(found.pipelines, now_ms, colour)
        yield from _explain([(p.pipeline, p) for p in found.pipelines], now_ms)
        yield from _lags(found.pipelines, now_ms)
        yield from _gaps(found.pipelines)
        yield from _objectives(found.pipelines, now_ms)
        yield from _owners(found.pipelines)
    if found.tables:
        yield ""
        yield from tables_table(found.tables, now_ms, found.verified, colour)
        yield from _explain([(t.table, t) for t in found.tables], now_ms)
    for table in found.tables:
        if table.differs:
            yield f"  {table.table}: the log says {table.differs}; the table shows what stands above"
        if table.health is not None:
            yield health_line(table.table, table.health, found.target)


def latest_event_author(found: Status, now_ms: int) -> str:
    """From whom the states of the tables are, how old that is, and what counts where nobody said anything."""
    if found.verified:
        return "tables: as they were just now"
    if found.word is None:
        return (
            "tables: as they were announced; no coordinator has said anything in the part of the log that was read, so their "
            "states are not known (`--verify` looks)"
        )
    by = found.word.by or "a coordinator"
    here = " (no longer here)" if found.coordinator != found.word.by else ""
    return f"tables: as {by}{here} said {age(now_ms - found.word.timestamp_ms)} ago; `--verify` looks at them"


def _lags(pipelines: Sequence[PipelineStatus], now_ms: int) -> Iterator[str]:
    """Those that are behind for longer than a batch takes."""
    for line in pipelines:
        if line.lag and line.waits_since_ms is not None and now_ms - line.waits_since_ms >= LAGS_MS:
            yield f"  {line.pipeline}: lag {lag_text(line.lag, line.waits_since_ms, line.lag_trend, now_ms)}"


def _gaps(pipelines: Sequence[PipelineStatus]) -> Iterator[str]:
    for line in pipelines:
        for partition in line.partitions:
            for start, end in partition.gaps:
                yield (
                    f"  {line.pipeline}: records {start:,} to {end - 1:,} of {partition.topic}-{partition.partition} "
                    "were removed by retention before they were read"
                )


def _objectives(pipelines: Sequence[PipelineStatus], now_ms: int) -> Iterator[str]:
    """What is left of each error budget, and how fast it is spent."""
    for line in pipelines:
        for budget in line.budgets:
            measured = f", measured for {age(now_ms - budget.since_ms)}" if budget.since_ms is not None else ""
            yield f"  {line.pipeline}: objective {budget.text}{measured}"


def _owners(pipelines: Sequence[PipelineStatus]) -> Iterator[str]:
    """Who answers for each pipeline, and whom else to ask."""
    for line in pipelines:
        by_team: dict[str, list[str]] = {}
        for duty, team in line.owners.named:
            by_team.setdefault(str(team), []).append(duty.value)
        for owner, duties in by_team.items():
            yield f"  {line.pipeline}: owner of {', '.join(duties)}: {owner}"


def health_line(table: str, health: TableHealth, target: str) -> str:
    """One table's health, with the command that repairs it where that is worth it."""
    said = (
        f"  {table}: {health.small_files:,} of {counted(health.data_files, 'file')} small, "
        f"{counted(health.delete_files, 'delete file')}, {counted(health.manifests, 'manifest')}, "
        f"{counted(health.snapshots, 'snapshot')}, {counted(health.metadata_bytes, 'byte')} of metadata"
    )
    if health.other is not None:
        seen = f"{health.other.name} rewrites its files ({counted(health.other.rounds, 'time')} in the last 7 days)"
        return f"{said}\n    {seen}: floe leaves them to it unless `maintenance: {{mode: always}}`"
    gain = gain_words(health)
    return f"{said}\n    `{maintain_command(table, target)}` leaves {gain} fewer" if gain else said


def _explain(lines: Sequence[tuple[str, PipelineStatus | TableStatus]], now_ms: int) -> Iterator[str]:
    """Why something is not as it should be, since when, and what to do; once for all that share it."""
    shared: dict[tuple[Health, str, str], list[tuple[str, int | None]]] = {}
    for name, line in lines:
        if line.reason:
            shared.setdefault((line.state, line.reason, line.remedy), []).append((name, line.since_ms))
    for (state, reason, remedy), found in shared.items():
        times = [since_ms for _, since_ms in found if since_ms is not None]
        since = f" for {age(now_ms - min(times))}" if times else ""
        more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        yield from trouble(f"{found[0][0]}{more}: {state.value}{since}", reason, remedy)


def pipelines_table(pipelines: Sequence[PipelineStatus], now_ms: int, colour: bool = False) -> list[str]:
    """Every record since the pipeline first ran: offsets = written + filtered + dead letters + dropped + holes + lost."""
    names = ("pipeline", "state", "batch", "lag", "data\nage", "last\nword")
    sums = ("offsets\n=", "written\n+", "filtered\n+", "dead\nletters +", "dropped\n+", "holes\n+", "lost")
    rows: list[tuple[str, ...]] = []
    for p in pipelines:
        t = p.totals
        counts = (t.offsets, t.written, t.filtered, t.dead_lettered, t.dropped, t.holes, t.lost)
        ages = (_age(p.freshness_ms), _age(now_ms - p.word.timestamp_ms if p.word is not None else None))
        rows.append((p.pipeline, p.state.value, str(p.batch), f"{p.lag:,}", *ages, *(f"{n:,}" for n in counts)))
    return _table((*names, *sums), rows, _SPARE_PIPELINES, colour)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], spare: Sequence[str], colour: bool) -> list[str]:
    """`rows`: a name, a state, and figures."""
    kept = fitting(headings, rows, spare, terminal_width()) if rows else list(range(len(headings)))
    missing = left_out(headings, kept)
    headings, rows = tuple(headings[n] for n in kept), [tuple(row[n] for n in kept) for row in rows]
    lines = in_columns(headings, rows, _LEFT, bold=colour)
    more = [missing] if missing else []
    if not colour:
        return [*lines, *more]
    first = len(lines) - len(rows)
    width = max(cell_len(text) for text in (*(row[0] for row in rows), *headings[0].split("\n")))
    coloured = []
    for line, row in zip(lines[first:], rows, strict=True):
        # The state stands behind the name, which is padded to the width of its column.
        begin = len(row[0]) + width - cell_len(row[0]) + len(GAP)
        end = begin + len(row[1])
        coloured.append(f"{line[:begin]}\x1b[{_STYLES[Health(row[1])]}m{line[begin:end]}\x1b[0m{line[end:]}")
    return [*lines[:first], *coloured, *more]


def _age(milliseconds: int | None) -> str:
    return age(milliseconds) if milliseconds is not None else ""


def tables_table(tables: Sequence[TableStatus], now_ms: int, verified: bool = False, colour: bool = False) -> list[str]:
    """One line a table. How many rows it has in all is known only of tables that were looked at."""
    names = ("table", "state", "last\ncommit", "valid\nthrough", "data\nage", "snapshot", "added", "files")
    rows: list[tuple[str, ...]] = []
    for t in tables:
        last = t.last_commit
        total = (f"{last.total_rows:,}" if last is not None and last.total_rows is not None else "",)
        valid = (_moment(t.valid_through_ms), _age(t.freshness_ms))
        done = (
            (
                f"{age(now_ms - last.timestamp_ms)} ago",
                *valid,
                str(last.snapshot_id),
                f"+{last.rows:,}",
                str(last.files),
            )
            if last
            else ("never", *valid, "", "", "")
        )
        waiting = (f"{t.pending.rows:,}", str(t.pending.files))
        rows.append((t.table, t.state.value, *done, *(total if verified else ()), *waiting))
    in_all = ("rows",) if verified else ()
    return _table((*names, *in_all, "waiting\nrows", "waiting\nfiles"), rows, _SPARE_TABLES, colour)


def _moment(timestamp_ms: int | None) -> str:
    """To the second, in UTC."""
    if timestamp_ms is None:
        return ""
    return stamp_text(timestamp_ms)


def lag_text(lag: int, waits_since_ms: int | None, trend: str, now_ms: int) -> str:
    """`1,204 for 2m 3s, growing`: how many records, since when the oldest of them waits, and how that changes."""
    if not lag or waits_since_ms is None:
        return f"{lag:,}"
    return f"{lag:,} for {age(now_ms - waits_since_ms)}" + (f", {trend}" if trend in ("growing", "falling") else "")


def age(milliseconds: float) -> str:
    """`75000` as `1m 15s`: two units, the largest that fit."""
    seconds = max(0, int(milliseconds / 1000))
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    return " ".join(f"{count}{unit}" for count, unit in parts[:2])

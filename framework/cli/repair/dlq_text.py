"""Dead letters as text: a single one in full, groups of them, and the result of a replay.

In: rows of the dead-letter table and reports. Out: lines, tables of text and JSON values; nothing is read here.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from framework.cli.shared.columns import fitting, left_out, terminal_width
from framework.cli.shared.fitted_table import FEWEST_COLUMNS
from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.counted import counted, moment_text

if TYPE_CHECKING:
    from framework.recovery.dead_letter_replay import ReplayReport


def place_of(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}@{row['offset']}"


def nothing_waits(pipeline: str, table: str | None, replayed: int) -> str:
    more = f"; {replayed:,} were replayed, `--all` lists them" if replayed else ""
    return f"{pipeline}: no dead letters wait in {table}{more}"


def time_of(timestamp_ms: int | None) -> str:
    return "" if timestamp_ms is None else moment_text(timestamp_ms)


def _for_terminal(value: str) -> Text:
    from framework.diagnose.shown import shown

    return Text(shown(value))


def json_bytes(data: bytes | None) -> dict[str, str] | None:
    if data is None:
        return None
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def show_table(columns: Mapping[str, str], rows: Iterable[Iterable[str]], spare: Sequence[str] = ()) -> None:
    """A table on the terminal, wide enough for its words.

    Args:
        columns: which side each is set to, by name; `wrap` for texts that may go on in the next line.
        spare: what a narrow terminal can do without, the first first.
    """
    cells = [[_for_terminal(cell) for cell in row] for row in rows]
    sides = columns.values()
    words = [[_longest(c) if side == "wrap" else str(c) for c, side in zip(row, sides, strict=True)] for row in cells]
    names, width = list(columns), terminal_width()
    kept = fitting(names, words, spare, width, gap=2)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (names[number] for number in kept):
        side = columns[name]
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold", no_wrap=side != "wrap")
    for row in cells:
        table.add_row(*(row[number] for number in kept))
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.width = width or max(console.width, FEWEST_COLUMNS)
    console.print(table)
    if missing := left_out(names, kept):
        console.print(missing)


def _longest(cell: object) -> str:
    """The longest word of a text that may be wrapped."""
    return max(str(cell).split(" "), key=len)


# ---- one letter -----------------------------------------------------------------------------------------------------


def describe(row: Mapping[str, Any]) -> Iterator[str]:
    """A dead letter in lines."""
    from framework.diagnose.shown import argument, shown
    from framework.record.dead_letters.view import bytes_text, value_lines

    title = CODES[row["code"]].title if row["code"] in CODES else ""
    yield f"{place_of(row)}   {time_of(row['timestamp_ms']) or 'without a timestamp'}{'   (replayed)' if row['replayed'] else ''}"
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
    yield f"`floe explain {argument(row['code'])}` says more about the code."


# ---- groups ---------------------------------------------------------------------------------------------------------


def groups_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
    return None if path is None else re.sub(r"\[[^\[\]]*\]", "[]", path)


# ---- replay ---------------------------------------------------------------------------------------------------------


def replay_json(report: ReplayReport) -> dict[str, object]:
    """What became of a replay, as JSON."""
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


def replay_lines(report: ReplayReport, file: str) -> Iterator[str]:
    """What became of a replay, in lines."""
    from framework.diagnose.shown import argument, shown

    if not report.found:
        yield f"{report.pipeline}: no such dead letter waits; nothing was changed"
        return
    a = report.accounting
    parts = [(a.written, "written"), (a.filtered, "filtered"), (a.dropped, "dropped")]
    became = " + ".join(f"{count:,} {word}" for count, word in parts if count) or "none"
    yield f"{report.pipeline}: {report.replayed:,} of {counted(report.found, 'dead letter')} replayed = {became}"
    for table, rows in sorted(report.rows.items()):
        yield f"  {counted(rows, 'row')} for {table}"
    failing: Counter[str] = report.failing
    for failed, count in failing.most_common():
        dead_letter = report.examples[failed]
        place = f"{dead_letter.topic}-{dead_letter.partition}@{dead_letter.offset}"
        yield f"  {count:,} still fail with {failed}, such as {place}: {shown(dead_letter.message)}"
    if failing:
        yield f"`floe dlq show {argument(file)} {argument(place)}` shows one in full"

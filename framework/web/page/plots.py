"""Plots as SVG, drawn where the page is made: no script draws, and nothing is loaded for them.

In: minutes, entries of a timeline. Out: markup with numbers and words of floe alone; what comes from others is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from framework.overview.fold import MINUTES
from framework.overview.values import AnnouncementOutcome, Minute, TimelineEntry

WIDTH, HEIGHT = 600, 72
STEP = WIDTH / MINUTES
_BAR = Markup(
    '<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"><title>{reported}</title></rect>'
)
_PLOT = Markup(
    '<svg class="plot" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{label}">'
    '<line class="axis" x1="0" y1="{height}" x2="{width}" y2="{height}"/>{marks}</svg>'
)
_LANES = Markup(
    '<svg class="lanes" viewBox="0 0 {width} 84" role="img" aria-label="{label}">'
    '<line class="axis" x1="0" y1="26" x2="{width}" y2="26"/><line class="axis" x1="0" y1="62" x2="{width}" y2="62"/>'
    "{marks}</svg>"
)
_SPARK = Markup(
    '<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" role="img" aria-label="{label}">'
    '<polyline points="{points}"/><title>{label}</title></svg>'
)
_DOT = Markup('<circle class="{kind}" cx="{x:.1f}" cy="26" r="6"><title>{reported}</title></circle>')
_TICK = Markup('<path class="{kind}" d="M {x:.1f} 54 l 7 8 l -7 8 l -7 -8 z"><title>{reported}</title></path>')


def bars(minutes: Sequence[Minute], minute: int, value: Callable[[Minute], int], kind: str, unit: str) -> Markup:
    """One bar for each of the last sixty minutes; `minute` is the last of them."""
    found = {each.minute: value(each) for each in minutes if minute - MINUTES < each.minute <= minute}
    most = max(found.values(), default=0)
    marks = Markup("")
    for at, count in sorted(found.items()):
        if count:
            height = max(2.0, (HEIGHT - 4) * count / most)
            x = (at - (minute - MINUTES + 1)) * STEP
            ago = minute - at
            reported = f"{count:,} {unit}, {f'{ago} min ago' if ago else 'this minute'}"
            marks += _BAR.format(
                kind=kind, x=x + 1, y=HEIGHT - height, width=STEP - 2, height=height, reported=reported
            )
    label = f"{unit} in each of the last 60 minutes: {sum(found.values()):,} in all, at most {most:,} in one"
    return _PLOT.format(width=WIDTH, height=HEIGHT, label=label, marks=marks)


def spark(minutes: Sequence[Minute], minute: int) -> Markup:
    """Records of the last sixty minutes that are over, as a line small enough for a row of a table."""
    found = {each.minute: each.records for each in minutes}
    counts = [found.get(at, 0) for at in range(minute - MINUTES, minute)]
    most = max(counts)
    points = " ".join(
        f"{x * 120 / (MINUTES - 1):.1f},{22 - 20 * count / max(most, 1):.1f}" for x, count in enumerate(counts)
    )
    label = f"records in each of the last 60 minutes: {sum(counts):,} in all, at most {most:,} in one"
    return _SPARK.format(points=points, label=label)


def lanes(timeline: Sequence[TimelineEntry]) -> Markup:
    """Announcements above, commits below, from left to right as they stand in the control log."""
    ordered = sorted(timeline, key=lambda entry: entry.offset)
    step = WIDTH / (len(ordered) + 1)
    marks = Markup("")
    for number, entry in enumerate(ordered, 1):
        reported = f"{entry.outcome.value}: {entry.rows:,} rows, control offset {entry.offset:,}"
        shape = _TICK if entry.outcome is AnnouncementOutcome.SNAPSHOT else _DOT
        marks += shape.format(kind=kind_of(entry.outcome), x=number * step, reported=reported)
    counts = {outcome: sum(entry.outcome is outcome for entry in ordered) for outcome in AnnouncementOutcome}
    label = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count) or "nothing"
    return _LANES.format(width=WIDTH, label=f"announcements and commits: {label}", marks=marks)


def kind_of(outcome: AnnouncementOutcome) -> str:
    """The class of its mark."""
    return outcome.value.replace(" ", "-")

"""The results of runs as a page for people and a plot of the ratios.

In: figures of each run. Out: Markdown with medians, least and most of each figure and the ratio of floe to the peer; an
SVG with a bar per case. Nothing is measured here.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES

# What is compared between cases that were run in turn.
SHARED = ("safe_offsets_s", "steady_rows_s", "cpu_s_per_million", "peak_memory_mb")
PLACES = ("case", "contender", "round")
# What the plot shows of a case: the first of these that both have, and whether more is better.
SHOWN = (("steady_rows_s", True), ("rows_s", True), ("p95_s", False), ("first_visible_s", False))


def summary(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """case -> figure -> contender -> its values over the rounds."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for result in results:
        for key, value in result.items():
            if key not in PLACES and isinstance(value, (int, float)):
                found.setdefault(result["case"], {}).setdefault(key, {}).setdefault(result["contender"], []).append(
                    value
                )
    return found


def ratio(values: Mapping[str, Sequence[float]]) -> float | None:
    """floe's median over the peer's."""
    if "floe" not in values or "connect" not in values or not statistics.median(values["connect"]):
        return None
    return statistics.median(values["floe"]) / statistics.median(values["connect"])


def markdown(machine: Mapping[str, object], results: Sequence[Mapping[str, Any]]) -> str:
    lines = ["# floe beside the Iceberg Kafka Connect sink", ""]
    lines += [f"- {key}: {value}" for key, value in machine.items()]
    lines += [
        "",
        "A cell is the median of the rounds (least to most). The last column is floe's median over the peer's.",
        "",
    ]
    for case, figures in summary(results).items():
        lines += [f"## {CASES[case].title}", "", "| figure | floe | connect | floe / connect |", "|---|---|---|---|"]
        for figure, values in figures.items():
            share = ratio(values)
            cells = [_cell(values.get(name, ())) for name in ("floe", "connect")]
            lines.append(f"| {figure} | {cells[0]} | {cells[1]} | {'' if share is None else f'{share:.2f}'} |")
        if CASES[case].note:
            lines += ["", f"{CASES[case].note}."]
        lines.append("")
    lines += shares(results) + watched(results)
    failures = [result for result in results if "failed" in result]
    if failures:
        lines += ["## Failed", ""]
        lines += [
            f"- {r['case']}, round {r['round']}, {r['contender']}: {r['failed'].splitlines()[0]}" for r in failures
        ]
        lines.append("")
    return "\n".join(lines)


def shares(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines on cases that were run in turn: floe's median of each beside that of the first, and the shares of the
    rounds."""
    found = summary(results)
    lines: list[str] = []
    first: dict[str, str] = {}
    for case, figures in found.items():
        word = CASES[case].in_turn
        if not word or (one := first.setdefault(word, case)) == case:
            continue
        lines += [f"## {CASES[case].title}, beside {CASES[one].title}", ""]
        lines += ["| figure | share of medians | of each round |", "|---|---|---|"]
        for figure in (figure for figure in SHARED if figure in figures and figure in found[one]):
            many, few = (found[name][figure].get("floe", []) for name in (case, one))
            pairs = zip(many, few, strict=True) if len(many) == len(few) else ()
            rounds = ", ".join(f"{a / b:.2f}" for a, b in pairs)
            lines.append(f"| {figure} | {statistics.median(many) / statistics.median(few):.2f} | {rounds} |")
        lines.append("")
    return lines


def watched(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines on what it costs floe to be watched: the share of the medians, and the shares of the rounds."""
    lines: list[str] = []
    for case, figures in summary(results).items():
        both = {
            key: (each["watched"], each["floe"]) for key, each in figures.items() if {"watched", "floe"} <= each.keys()
        }
        if not both:
            continue
        lines += [f"## {CASES[case].title}: watched, beside floe alone", ""]
        lines += ["| figure | share of medians | of each round |", "|---|---|---|"]
        for figure in (figure for figure in SHARED if figure in both):
            on, off = both[figure]
            rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(on, off, strict=False))
            lines.append(f"| {figure} | {statistics.median(on) / statistics.median(off):.2f} | {rounds} |")
        lines.append("")
    return lines


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle = f"{statistics.median(values):,g}" if max(values) < 1000 else f"{statistics.median(values):,.0f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,g} to {max(values):,g})"


def svg(results: Sequence[Mapping[str, Any]]) -> str:
    """Bars of how many times better floe is than the peer; the line at 1 is the peer."""
    bars = []
    for case, figures in summary(results).items():
        for figure, more_is_better in SHOWN:
            share = ratio(figures.get(figure, {}))
            if share:
                bars.append((f"{CASES[case].title}: {figure}", share if more_is_better else 1 / share))
                break
    scale = 320 / max([value for _, value in bars] + [1.0])
    height = 40 + 26 * len(bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="880" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="18">floe beside the Iceberg Kafka Connect sink: how many times better (line: the peer)</text>',
    ]
    for row, (label, value) in enumerate(bars):
        y = 32 + 26 * row
        parts.append(f'<text x="470" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="480" y="{y}" width="{value * scale:.0f}" height="18" fill="#2b7bba"/>')
        parts.append(f'<text x="{486 + value * scale:.0f}" y="{y + 13}">{value:.1f}</text>')
    parts.append(
        f'<line x1="{480 + scale:.0f}" x2="{480 + scale:.0f}" y1="26" y2="{height - 6}" stroke="black"/></svg>'
    )
    return "\n".join(parts) + "\n"


def write_report(folder: Path, machine: Mapping[str, object], results: Sequence[Mapping[str, Any]]) -> None:
    (folder / "report.md").write_text(markdown(machine, results) + "\n\n![ratios](report.svg)\n")
    (folder / "report.svg").write_text(svg(results))

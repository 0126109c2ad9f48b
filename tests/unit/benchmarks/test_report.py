"""The report of a comparison: medians, spreads and ratios of what was measured, and nothing else."""

from __future__ import annotations

import os
import time
import xml.etree.ElementTree as ElementTree

from benchmarks.cases import _safe_rate, _steady
from benchmarks.compare import neighbours
from benchmarks.processes import Costs
from benchmarks.report import markdown, svg

RESULTS = [
    {"case": "one-table", "contender": "floe", "round": 1, "steady_rows_s": 500},
    {"case": "one-table", "contender": "floe", "round": 2, "steady_rows_s": 700},
    {"case": "one-table", "contender": "floe", "round": 3, "steady_rows_s": 600},
    {"case": "one-table", "contender": "connect", "round": 1, "steady_rows_s": 400},
    {"case": "cold-start", "contender": "floe", "round": 1, "first_visible_s": 10.0},
    {"case": "cold-start", "contender": "connect", "round": 1, "failed": "it broke\nhere"},
]


def test_ratios_are_of_medians() -> None:
    """A figure is shown with its median, its least and its most, beside the peer's, and as their ratio."""
    text = markdown({"machine": "two cores"}, RESULTS)
    assert "| steady_rows_s | 600 (500 to 700) | 400 | 1.50 |" in text
    assert "| first_visible_s | 10 |  |  |" in text
    assert "- cold-start, round 1, connect: it broke" in text


def test_cases_run_in_turn_are_shares_of_the_first() -> None:
    """Cases that are compared with each other have the share of their medians and of each round in the report."""
    rates = {"minute-1-of-100": (100, 200, 300), "minute-100-of-100": (90, 160, 300)}
    results = [
        {"case": case, "contender": "floe", "round": number + 1, "safe_offsets_s": rate}
        for number in range(3)
        for case, rates_of in rates.items()
        for rate in (rates_of[number],)
    ]
    assert "| safe_offsets_s | 0.80 | 0.90, 0.80, 1.00 |" in markdown({}, results)
    assert neighbours(["minute-1-of-100", "wide", "minute-100-of-100", "days"]) == [
        ["minute-1-of-100", "minute-100-of-100"],
        ["wide"],
        ["days"],
    ]


def test_being_watched_has_a_share() -> None:
    """What metrics and page cost is the share of the medians and of each round, beside floe alone."""
    rates = {"floe": (100, 200, 300), "watched": (99, 180, 300)}
    results = [
        {"case": "one-table", "contender": name, "round": number + 1, "cpu_s_per_million": rate}
        for name, each in rates.items()
        for number, rate in enumerate(each)
    ]
    assert "| cpu_s_per_million | 0.90 | 0.99, 0.90, 1.00 |" in markdown({}, results)
    assert "watched" not in markdown({}, RESULTS)


def test_the_plot_is_a_picture_of_the_ratios() -> None:
    """The plot is well-formed and has a bar for each case that both have run."""
    picture = ElementTree.fromstring(svg(RESULTS))
    texts = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[1:] == ["one table: steady_rows_s", "1.5"]


def test_steady_leaves_start_and_tail_out() -> None:
    """The steady rate is that of the commits in the middle, and its CPU is what was spent between the same moments."""
    costs = Costs()
    costs.samples = [(0.0, 0.0), (100.0, 200.0)]
    added = tuple((at * 1000, 1_000_000, 1) for at in (20, 30, 40, 50, 60, 90))
    steady = _steady(added, costs, 10.0)
    assert steady == {"steady_rows_s": round(5e6 / 70), "steady_cpu_s_per_million": 28.0}


def test_one_round_of_commits_has_no_steady_rate() -> None:
    """Commits of many tables within one interval say nothing of the rate at which rows become visible."""
    costs = Costs()
    costs.samples = [(0.0, 0.0), (100.0, 200.0)]
    assert _steady(tuple((at * 1000, 1_000_000, 1) for at in range(20, 40)), costs, 60.0) == {}


def test_safe_offsets_are_counted_where_they_move() -> None:
    """The rate of safe offsets is that between two moves in the middle, however often was asked in between."""
    asked = [(float(at), 0 if at < 10 else (at - 8) // 2 * 100) for at in range(31)]
    assert _safe_rate(asked) == {"safe_offsets_s": 50}
    assert _safe_rate(asked[:12]) == {}


def test_costs_count_the_whole_tree() -> None:
    """CPU of a process and of what it starts is counted, in order of time."""
    costs = Costs(os.getpid()).start()
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    costs.stop()
    spent = [cpu for _, cpu in costs.samples]
    assert spent == sorted(spent)
    assert costs.cpu_s > 0.25
    assert costs.peak_bytes > 10_000_000

"""Objectives: from wherever the file says them, exactly, and nothing that cannot be measured or kept."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction

import pytest

from framework.config.values.objectives import NO_OBJECTIVES, Objective, Objectives, objectives_in
from framework.plan.canonical import canonical, plan_hash
from framework.plan.diff.diff import diff
from tests.unit.config.in_memory import TARGET, load, over

PROD = over(TARGET, 'overrides: [{match: "*", objectives: {freshness: 1h, complete: 99.5%}}]')


def loaded(fragment: str, target: str = TARGET) -> Objectives:
    result = load(fragment, files={"targets/local.yaml": target})
    assert result.pipeline is not None, result.diagnostics
    return result.pipeline.spec.objectives


def test_shares_are_exact_and_a_target_lies_over_the_file() -> None:
    """`99.9%` leaves a thousandth, and not what a binary number makes of it."""
    found = loaded("objectives: {freshness: 10m, dead_letters: 0.1%}", PROD)
    assert found == Objectives(3_600_000, "99.5%", "0.1%")
    assert found.allowed == {
        Objective.FRESHNESS: Fraction(1, 100),
        Objective.COMPLETE: Fraction(1, 200),
        Objective.DEAD_LETTERS: Fraction(1, 1000),
    }
    assert list(found.wanted.values()) == ["1h", "99.5%", "0.1%"]


def test_a_run_publishes_them_and_a_change_restarts_it() -> None:
    """Who measures is the run itself; without objectives its plan is as it was before there were any."""
    texts = ("", "objectives: {freshness: 10m}", "objectives: {freshness: 20m}")
    none, one, other = (each for text in texts if (each := load(text or "x-none: 1").pipeline) is not None)
    published = canonical(one)["plan"]
    assert isinstance(published, dict)
    assert objectives_in(published["announce"]["objectives"]) == one.spec.objectives
    assert "objectives" not in str(canonical(none)["plan"])
    assert len({plan_hash([each]) for each in (none, one, other)}) == 3
    [change] = diff(canonical(one), canonical(other))
    assert (change.subject, change.before, change.after) == ("objectives.freshness", "10m", "20m")


@pytest.mark.parametrize(
    "value",
    [None, 3, {"freshness_ms": "10m"}, {"complete": 99.9}, {"complete": "100%"}, {"freshness_ms": 1, "complete": "1%"}],
)
def test_what_another_version_published_is_left_out(value: object) -> None:
    """A value of another form promises nothing, and breaks nothing that shows budgets."""
    assert objectives_in(value) == NO_OBJECTIVES
    assert objectives_in(asdict(Objectives(1, "99%", "1%"))) == Objectives(1, "99%", "1%")


DEAD = "errors: {dead_letter_table: shop.dead}"
DROPS = "errors: {policy: drop}\nroutes: {unrouted: drop, rules: [{table: shop.orders}]}"


@pytest.mark.parametrize(
    ("fragment", "code"),
    [
        (f"objectives: {{recovery: 15m}}\n{DEAD}", "FLOE-C476"),
        (f"objectives: {{complete: 99.9%}}\n{DROPS}", "FLOE-C476"),
        (
            "objectives: {complete: 99.9%}\nerrors: {dead_letter_table: shop.dead, stages: {convert: drop}}",
            "FLOE-C476",
        ),
        (f"objectives: {{dead_letters: 1%}}\n{DROPS}", "FLOE-C476"),
        (f"objectives: {{complete: 100%}}\n{DEAD}", "FLOE-C477"),
        (f"objectives: {{complete: 94%}}\n{DEAD}", "FLOE-C477"),
        (f"objectives: {{dead_letters: 0%}}\n{DEAD}", "FLOE-C477"),
        (f"objectives: {{dead_letters: 5.1%}}\n{DEAD}", "FLOE-C477"),
        (f"objectives: {{freshness: 3m}}\n{DEAD}", "FLOE-C477"),  # the default interval
        (
            f"objectives: {{freshness: 10m}}\ntables: {{overrides: [{{match: shop.o*, commit: {{interval: 10m}}}}]}}\n{DEAD}",
            "FLOE-C477",
        ),
        (f"objectives: {{freshness: 10m}}\ntrigger: {{every: 15m}}\n{DEAD}", "FLOE-C477"),
        (f"objectives: {{freshness: 181s, complete: 95%, dead_letters: 5%}}\n{DEAD}", ""),
        (f"objectives: {{freshness: 10m}}\n{DROPS}", ""),
        ("objectives: {complete: 99.9%}\nerrors: {policy: fail, dead_letter_table: shop.dead}", ""),
    ],
)
def test_what_cannot_be_measured_or_kept_is_refused(fragment: str, code: str) -> None:
    """With its place, and what to do about it."""
    found = load(fragment).diagnostics
    assert [each.code for each in found] == ([code] if code else [])
    assert all(each.path.startswith("objectives.") and each.remedy for each in found)

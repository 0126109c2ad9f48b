"""Two runs of one pipeline in every order: no record is left out or announced twice, and one of the runs goes on.

The runs are the real ones on a broker in memory (`tests/protocol/runs.py`). What may go wrong: a death at any call to
the broker, an answer that is lost, an announcement that the broker ended, and another run's whole step in between.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.runtime.batches import announcer
from framework.runtime.batches.announcer import Announcer
from tests.protocol.runs import explore, plan

Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("starting_offsets", ["latest", "earliest"])
@pytest.mark.parametrize(("steps", "budget", "least"), [(4, 1, 1_500), (3, 2, 3_000)])
def test_no_history_of_two_runs_has_a_fault(starting_offsets: str, steps: int, budget: int, least: int) -> None:
    """Whatever the order, and whatever goes wrong once or twice: each record from where the first run stood is
    announced once, and of two runs one goes on."""
    count, wrong, reported = explore(plan(starting_offsets), steps, budget)
    assert wrong == [], reported
    assert count > least


@pytest.mark.slow
@pytest.mark.parametrize("starting_offsets", ["latest", "earliest"])
@pytest.mark.parametrize(("steps", "budget", "least"), [(6, 1, 14_000), (4, 2, 12_000)])
def test_no_longer_history_of_two_runs_has_a_fault(starting_offsets: str, steps: int, budget: int, least: int) -> None:
    """The same, further."""
    count, wrong, reported = explore(plan(starting_offsets), steps, budget)
    assert wrong == [], reported
    assert count > least


def where_a_run_stands_is_not_announced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Announcer, "claim", lambda *arguments: None)


def nobody_looks_before_a_recovery(patch: pytest.MonkeyPatch) -> None:
    real = announcer.check_owner

    def blind(self: Announcer, keys: object) -> object:
        self._producer.recover()
        group = self._source.group_offsets()
        real(self._plan.pipeline, self._runs, group)
        return group

    patch.setattr(Announcer, "_take_back", blind)


def a_run_that_was_fenced_by_a_recovery_is_not_adopted(patch: pytest.MonkeyPatch) -> None:
    def looking(self: Announcer, keys: object) -> object:
        announcer.check_owner(self._plan.pipeline, self._runs, self._source.group_offsets(settled=False))
        self._producer.recover()
        group = self._source.group_offsets()
        announcer.check_owner(self._plan.pipeline, self._runs, group)
        return group

    patch.setattr(Announcer, "_take_back", looking)


def an_unknown_outcome_is_not_read_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(announcer, "read_back", lambda *arguments: announcer.AnnounceState.NOT_ANNOUNCED)


@pytest.mark.parametrize(
    ("mutate", "budget"),
    [
        (where_a_run_stands_is_not_announced, 1),
        (nobody_looks_before_a_recovery, 2),
        (a_run_that_was_fenced_by_a_recovery_is_not_adopted, 2),
        (an_unknown_outcome_is_not_read_back, 1),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_rule_is_needed(mutate: Patch, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rule taken out, a history with a fault is found."""
    mutate(monkeypatch)
    _, wrong, _ = explore(plan("latest"), 4, budget)
    assert wrong

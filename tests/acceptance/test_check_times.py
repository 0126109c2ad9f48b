"""How long checks take: `floe validate` beside imports that no check can do without, `floe plan` and `floe diff` offline."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.validate_time import IMPORTS, Checks
from tests.pace import pace

FILES, ROUNDS = 100, 15
TIMES_THE_IMPORTS = 3.0
# Seconds of the processor on a machine of usual pace.
VALIDATE_S, PLAN_S = 0.7, 0.6


# Beside other tests a processor's time says little, so it is measured in the slow form, alone.
@pytest.mark.parametrize("is_timed", [False, pytest.param(True, marks=pytest.mark.slow, id="timed")])
def test_checks_take_little_more_than_their_imports(tmp_path: Path, is_timed: bool) -> None:
    """`floe validate` of 100 right files takes at most three times what a process takes that imports jsonschema and yaml and does
    nothing, and 0.7 s of a processor of usual pace; `floe plan` and `floe diff` of one of them, without broker and catalog,
    take 0.6 s."""
    checks = Checks(tmp_path, FILES if is_timed else 4)
    if not is_timed:
        for command in (checks.validate, checks.plan, checks.diff):
            checks.took(command)
        return
    rounds = [(checks.took(checks.validate)[1], checks.took(IMPORTS)[1], pace()) for _ in range(ROUNDS)]
    ratio = statistics.median(validate / imports for validate, imports, _ in rounds)
    assert ratio <= TIMES_THE_IMPORTS, rounds
    assert statistics.median(validate / slow for validate, _, slow in rounds) < VALIDATE_S, rounds
    for command in (checks.plan, checks.diff):
        took = [checks.took(command)[1] / pace() for _ in range(ROUNDS)]
        assert statistics.median(took) < PLAN_S, (command, took)

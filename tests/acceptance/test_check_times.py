"""How long checks take: `floe validate` of a folder, `floe plan` and `floe diff` of one file without a broker."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from benchmarks.validate_time import Checks
from tests.pace import pace

FILES, ROUNDS = 100, 5
# Seconds of the processor on a machine of usual pace.
VALIDATE_S, PLAN_S = 1.5, 0.6


# Beside other tests a processor's time says little, so it is measured in the slow form, alone.
@pytest.mark.parametrize("is_timed", [False, pytest.param(True, marks=pytest.mark.slow, id="timed")])
def test_checks_are_done_while_somebody_waits(tmp_path: Path, is_timed: bool) -> None:
    """`floe validate` of 100 right files takes at most 1.5 s of a processor of usual pace; `floe plan` and `floe diff` of
    one of them, without broker and catalog, take 0.6 s."""
    checks = Checks(tmp_path, FILES if is_timed else 4)
    for command, most_s in ((checks.validate, VALIDATE_S), (checks.plan, PLAN_S), (checks.diff, PLAN_S)):
        took = [checks.took(command)[1] / pace() for _ in range(ROUNDS if is_timed else 1)]
        assert statistics.median(took) < most_s or not is_timed, (command, took)

"""Time goes on while a machine is suspended."""

from __future__ import annotations

import time

import pytest

from framework.adapters.host.stopwatch import Stopwatch


@pytest.mark.parametrize("going_on", ["monotonic", "time", "clock_gettime"])
def test_the_clock_that_went_on_counts(monkeypatch: pytest.MonkeyPatch, going_on: str) -> None:
    """A suspended machine's monotonic clock stands still, a suspended virtual machine's boot clock, too; one of them
    tells."""
    watch = Stopwatch()
    clocks = {name: getattr(time, name) for name in ("monotonic", "time", "clock_gettime")}
    frozen = {"monotonic": time.monotonic(), "time": time.time(), "clock_gettime": clocks["clock_gettime"](7)}
    for name, value in frozen.items():
        later = value + (60 if name == going_on else 0)
        monkeypatch.setattr(time, name, lambda *_, later=later: later)
    assert 60 <= watch.elapsed_s() < 61


def test_a_clock_that_was_set_back_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock may jump; the longest time that any clock tells is taken."""
    watch, now = Stopwatch(), time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3_600)
    assert 0 <= watch.elapsed_s() < 10

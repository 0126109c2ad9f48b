"""A lag in words: growing, falling or steady, from what batches say of themselves."""

from __future__ import annotations

import pytest

from framework.commit.lag_trend import MOST_BATCHES, LagTrend

NOW_MS = 1_800_000_000_000
SECOND = 1_000


def of(*lags_s: float) -> LagTrend:
    """A batch every ten seconds up to now, with how old its records were."""
    trend = LagTrend()
    for number, lag in enumerate(lags_s):
        at_ms = NOW_MS - (len(lags_s) - number) * 10 * SECOND
        trend.add(at_ms, int(at_ms - lag * SECOND))
    return trend


@pytest.mark.parametrize(
    ("lags_s", "now_s", "word"),
    [
        ([3] * 30, 4, ""),
        ([20] * 30, 24, "steady"),
        ([3 + 9 * n for n in range(30)], 270, "growing"),
        ([600 - 15 * n for n in range(30)], 150, "falling"),
        ([600] * 30, 640, "steady"),
        ([3] * 30, 60, "growing"),
        ([3] * 4, 60, ""),
        ([], 60, ""),
    ],
)
def test_the_lag_of_now_is_compared_with_that_of_minutes_ago(lags_s: list[float], now_s: int, word: str) -> None:
    """Also while no batch comes any more; a second more or less is no trend, nor is a tenth of what it was."""
    assert of(*lags_s).word(NOW_MS, NOW_MS - now_s * SECOND) == word


def test_a_pipeline_that_is_not_behind_has_none_and_memory_is_bounded() -> None:
    """Nothing waits: there is nothing to grow. Batches without a time, and more than are kept, change nothing."""
    trend = of(*([3] * (MOST_BATCHES + 50)))
    trend.add(None, 5)
    trend.add(NOW_MS, None)
    assert trend.word(NOW_MS, None) == ""
    assert len(trend._lags) <= MOST_BATCHES

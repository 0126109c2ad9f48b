"""A feed that always has records and has none: a risk where its file says so, with the time of the last record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.events.event_types import Deployed
from framework.commit.risks import FEED_SILENT, Silence, feed_silent, silent_after_ms

NOW_MS = 1_800_000_000_000
MINUTE = 60_000


@pytest.mark.parametrize(
    ("silence", "is_told"),
    [
        (Silence(15 * MINUTE, NOW_MS - 16 * MINUTE), True),
        (Silence(15 * MINUTE, NOW_MS - 15 * MINUTE), True),
        (Silence(15 * MINUTE, NOW_MS - 14 * MINUTE), False),
        (Silence(None, 0), False),
        (Silence(15 * MINUTE, None), False),
    ],
)
def test_silence_is_told_where_the_file_says_how_long_it_may_last(silence: Silence, is_told: bool) -> None:
    """Never where the file says nothing, nor where no record was ever seen; `since` is the time of the last one."""
    found = feed_silent("orders", silence, NOW_MS)
    assert (found is not None) == is_told
    if found is not None:
        assert (found.code, found.since_ms) == (FEED_SILENT, silence.newest_ms)
        assert "900 seconds" in found.reason


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({"plan": {"announce": {"silent_after_ms": 900_000}}}, 900_000),
        ({"plan": {"announce": {}}}, None),
        ({"plan": {"announce": {"silent_after_ms": "15m"}}}, None),
        ({"plan": {"announce": {"silent_after_ms": 0}}}, None),
        ({"plan": [], "settings": {}}, None),
        ({}, None),
    ],
)
def test_what_a_run_published_is_read_as_it_comes(plan: dict[str, object], expected: int | None) -> None:
    """A plan of another version, or of somebody else, ends nothing that looks at it."""
    run = Deployed("orders", "run-1", "sha256:1", plan, "0.1.0", NOW_MS)
    assert silent_after_ms(run) == expected
    assert silent_after_ms(replace(run, file="a.yaml")) == expected

"""Who else maintains a table is read from its snapshots, and floe then leaves its files alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.maintenance.others import (
    APART_MS,
    REMEMBERED_MS,
    ForeignReplace,
    OtherMaintainer,
    engine_of,
    other_maintainer,
)
from framework.config.values.maintenance import MaintenanceMode, MaintenancePolicy

NOW_MS = 1_800_000_000_000


def at(*before_ms: int, by: str = "spark 4.1.1") -> list[ForeignReplace]:
    return [ForeignReplace(NOW_MS - each, by) for each in before_ms]


def test_two_runs_make_a_maintainer() -> None:
    """Whoever rewrote the table twice in the last week maintains it; the newest gives the name."""
    found = other_maintainer([*at(5 * APART_MS, by="trino 480"), *at(APART_MS)], NOW_MS)

    assert found == OtherMaintainer("spark 4.1.1", 2, NOW_MS - APART_MS)


def test_one_run_in_parts_is_no_maintainer() -> None:
    """A single rewriting that commits in parts, however many, is somebody's work by hand."""
    assert other_maintainer(at(0, 1_000, 60_000, 300_000), NOW_MS) is None


def test_work_of_long_ago_is_forgotten() -> None:
    """Who stopped a week ago is no maintainer any more, so that floe takes over again."""
    assert other_maintainer(at(REMEMBERED_MS, REMEMBERED_MS + 2 * APART_MS), NOW_MS) is None
    assert other_maintainer(at(REMEMBERED_MS - 1, REMEMBERED_MS + 2 * APART_MS), NOW_MS) is None


@given(st.lists(st.integers(0, 2 * REMEMBERED_MS), max_size=20))
def test_rounds_are_apart(before_ms: list[int]) -> None:
    """The rounds that are counted are never more than fit into the time that they took."""
    found = other_maintainer(at(*before_ms), NOW_MS)
    recent = [each for each in before_ms if each < REMEMBERED_MS]
    if found is not None:
        assert 2 <= found.rounds <= (max(recent) - min(recent)) // APART_MS + 1
        assert found.last_ms == NOW_MS - min(recent)
    elif len(recent) > 1:
        assert all(b - a < APART_MS for a, b in zip(sorted(recent), sorted(recent)[1:], strict=False))


def test_engines_name_themselves() -> None:
    """The name is what the summary says, bounded, and there is one where it says nothing."""
    assert engine_of({"engine-name": "spark", "engine-version": "4.1.1"}) == "spark 4.1.1"
    assert engine_of({}) == "another engine"
    assert len(engine_of({"engine-name": "x" * 500})) == 60


def test_only_a_file_that_says_so_goes_on_beside_others() -> None:
    """`auto` leaves files to the other, `always` does not."""
    assert [MaintenancePolicy(mode).rewrites(others_do=True) for mode in MaintenanceMode] == [False, True, False]
    assert all(MaintenancePolicy(mode).rewrites(others_do=False) for mode in MaintenanceMode)

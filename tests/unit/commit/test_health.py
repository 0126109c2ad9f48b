"""When a person is told to maintain a table, in which words, and that several tables add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.maintenance.compaction import LiveFileFacts
from framework.commit.maintenance.health import (
    SIZES,
    MetadataFacts,
    Need,
    TableHealth,
    gain_words,
    health_of,
    maintain_command,
    needs_of,
    united,
)
from framework.commit.maintenance.others import OtherMaintainer
from framework.config.values.maintenance import MIB, CompactionPolicy

SOUND = TableHealth(10, 2, 10**9, 1_000, 0, 0, 3, 9_000, 12, 5, 2, 10**6)
WELL = MetadataFacts(snapshots=1, manifests=1, metadata_bytes=1, delete_files=0, last_maintenance_ms=None)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({}, ()),
        ({"gain_files": 99}, ()),
        ({"gain_files": 100}, (Need.SMALL_FILES,)),
        ({"gain_rows": 99}, ()),
        ({"gain_rows": 100}, (Need.DELETES,)),
        ({"gain_manifests": 100, "gain_snapshots": 500}, (Need.MANIFESTS, Need.SNAPSHOTS)),
        ({"gain_snapshots": 499, "snapshots": 9_000, "metadata_bytes": 1 << 30, "small_files": 9_000}, ()),
    ],
)
def test_what_maintenance_would_repair_is_reported(changes: dict[str, int], needs: tuple[Need, ...]) -> None:
    """What counts is what the command takes away, not what is there: a warning that it cannot end is none. Where another
    engine rewrites the table nobody is told."""
    found = replace(SOUND, **changes)  # type: ignore[arg-type]
    assert needs_of(found) == needs
    assert needs_of(replace(found, other=OtherMaintainer("spark", 2, 0))) == ()


def test_a_policy_without_compaction_gains_nothing() -> None:
    """Small files are counted, and no command is offered that would leave them."""
    files = [LiveFileFacts(str(n), "0 ()", 1_000, 10, 10, n) for n in range(300)]
    assert needs_of(health_of(files, WELL, CompactionPolicy())) == (Need.SMALL_FILES, Need.DELETES)
    off = health_of(files, WELL, CompactionPolicy(enabled=False))
    assert (off.small_files, off.gain_files, off.gain_rows, needs_of(off)) == (300, 0, 0, ())


def test_gain_and_command_are_words_for_a_shell() -> None:
    """Each gain once, and a name that a shell would read otherwise is quoted."""
    assert gain_words(replace(SOUND, gain_files=0)) == ""
    assert gain_words(replace(SOUND, gain_files=1_200)) == "1,200 files"
    assert gain_words(replace(SOUND, gain_rows=1, gain_snapshots=7)) == "2 files, 1 deleted row and 7 snapshots"
    assert maintain_command("a.b c", "prod") == "floe maintain 'a.b c' -t prod"


@given(st.lists(st.integers(0, 2**31), max_size=50))
def test_the_histogram_holds_each_file_once(sizes: list[int]) -> None:
    """A file is in the first step that is larger than it."""
    found = health_of(
        [LiveFileFacts(str(n), "", size, 1, 0, 1) for n, size in enumerate(sizes)], WELL, CompactionPolicy()
    )
    assert tuple(found.histogram) == SIZES
    assert sum(found.histogram.values()) == len(sizes)
    assert found.histogram["1MiB"] == sum(size < MIB for size in sizes)
    assert found.histogram["larger"] == sum(size >= 512 * MIB for size in sizes)


def test_several_tables_add_up() -> None:
    """Sums of numbers and of steps; the oldest maintenance, of those that had any; no other maintainer's name."""
    other = replace(SOUND, last_maintenance_ms=None, histogram={"1MiB": 1}, other=OtherMaintainer("spark", 2, 0))
    both = united([replace(SOUND, histogram={"1MiB": 2, "larger": 3}), other])
    assert both is not None
    assert (both.data_files, both.bytes, both.snapshots, both.histogram) == (
        20,
        2 * 10**9,
        24,
        {"1MiB": 3, "larger": 3},
    )
    assert (both.last_maintenance_ms, both.other) == (5, None)
    assert united([]) is None

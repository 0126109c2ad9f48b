"""Which files are rewritten together: what is worth it, and no byte too often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.maintenance.compaction import GOOD_SHARE, LiveFileFacts, Reason, plan_compaction
from framework.config.maintenance import CompactionPolicy

TARGET = 1_000
POLICY = CompactionPolicy(target_file_bytes=TARGET, min_input_files=3, delete_ratio=0.5)


def file(path: str, size: int = 10, deleted: int = 0, place: str = "p", number: int = 0) -> LiveFileFacts:
    return LiveFileFacts(path, place, size, 100, deleted, number)


@st.composite
def tables(draw: st.DrawFn) -> list[LiveFileFacts]:
    sizes = draw(st.lists(st.integers(1, 1_500), max_size=40))
    return [
        file(
            str(n), size, draw(st.sampled_from([0, 0, 0, 10, 60])), draw(st.sampled_from("pq")), draw(st.integers(0, 9))
        )
        for n, size in enumerate(sizes)
    ]


@given(tables())
def test_groups_are_of_one_partition_and_fit(files: list[LiveFileFacts]) -> None:
    """No file is in two groups; a group stays within the target, unless one file alone is larger and has deletes; and
    each has enough small files or deleted rows."""
    groups = plan_compaction(files, POLICY)
    chosen = [path for group in groups for path in group.paths]
    assert len(chosen) == len(set(chosen))
    for group in groups:
        assert {each.place for each in group.files} == {group.place}
        assert group.bytes <= TARGET or len(group.files) == 1
        if group.reason is Reason.SMALL:
            assert len(group.files) >= POLICY.min_input_files
        else:
            assert any(each.deleted_rows >= 50 for each in group.files)
    good = [each for each in files if each.bytes >= GOOD_SHARE * TARGET and each.deleted_rows < 50]
    assert not {each.path for each in good} & set(chosen)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=200))
def test_each_byte_is_rewritten_a_few_times(sizes: list[int]) -> None:
    """Small files that come one after another, with a compaction after each: the bytes that are read stay below the
    bytes that came, times the steps from small to good."""
    live: list[LiveFileFacts] = []
    read = 0
    for number, size in enumerate(sizes):
        live.append(file(str(number), size, number=number))
        for group in plan_compaction(live, POLICY):
            read += group.bytes
            live = [each for each in live if each.path not in group.paths]
            live.append(file(f"{number}-{group.paths[0]}", group.bytes, number=number))
    assert read <= 8 * sum(sizes)


def test_the_allowance_takes_the_best_first() -> None:
    """Many tiny files come before a few larger ones; at least one group is always taken."""
    tiny = [file(f"t{n}", 1, place="a") for n in range(20)]
    large = [file(f"l{n}", 200, place="b") for n in range(4)]
    assert [group.place for group in plan_compaction([*large, *tiny], POLICY)] == ["a", "b"]
    assert [group.place for group in plan_compaction([*large, *tiny], POLICY, max_bytes=100)] == ["a"]
    assert [group.place for group in plan_compaction(large, POLICY, max_bytes=100)] == ["b"]


def test_nothing_is_planned_where_the_policy_says_so() -> None:
    """`compaction: {enabled: false}`."""
    files = [file(str(n)) for n in range(9)]
    assert plan_compaction(files, CompactionPolicy(enabled=False)) == ()
    assert len(plan_compaction(files, POLICY)) == 1

"""Which files are rewritten together: what is worth it, and no byte too often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.maintenance.compaction import GOOD_SHARE, TINY_SHARE, LiveFileFacts, Reason, plan_compaction
from framework.config.values.maintenance import CompactionPolicy

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


def written_one_by_one(sizes: list[int], at_once: int, policy: CompactionPolicy) -> tuple[int, int, int]:
    """Small files that come so many at a time, with a compaction after each time: the bytes that were read, how many
    groups there were, and how many files are left."""
    live: list[LiveFileFacts] = []
    read = rewritten = 0
    for number, size in enumerate(sizes):
        live.append(file(str(number), size, number=number))
        if number % at_once != at_once - 1:
            continue
        for group in plan_compaction(live, policy):
            read, rewritten = read + group.bytes, rewritten + 1
            live = [each for each in live if each.path not in group.paths]
            live.append(file(f"{number}-{group.paths[0]}", group.bytes, number=number))
    return read, rewritten, len(live)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=200))
def test_each_byte_is_rewritten_a_few_times(sizes: list[int]) -> None:
    """The bytes that are read stay below the bytes that came, times the steps from small to good."""
    read, _, _ = written_one_by_one(sizes, 1, POLICY)
    assert read <= 8 * sum(sizes)


@given(st.lists(st.integers(5_000, 15_000), min_size=100, max_size=800), st.integers(5, 40))
def test_few_files_are_left(sizes: list[int], at_once: int) -> None:
    """Of commits of some kilobytes a round leaves the files that are good or on the way there, one of each size, and
    not a file for each of the last rounds; and it reads a MiB more than its commits were, not more."""
    policy = CompactionPolicy()
    whole = sizes[: len(sizes) // at_once * at_once]
    read, rounds, left = written_one_by_one(whole, at_once, policy)
    assert left <= 3
    assert read <= 8 * sum(whole) + rounds * TINY_SHARE * policy.target_file_bytes


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

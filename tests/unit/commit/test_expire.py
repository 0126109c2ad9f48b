"""Which snapshots expire: whatever the history and the policy, what is needed stays."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.maintenance.expire import Expiry, Reference, SnapshotAge, Stay, decide_expiry, is_end_of_line
from framework.config.values.maintenance import ExpirePolicy

NOW_MS = 1_000_000
NOTHING = ExpirePolicy(max_snapshot_age_ms=0, max_snapshots=1, rollback_window_ms=0, reader_lease_ms=0)


def line(count: int, marked: tuple[int, ...] = ()) -> list[SnapshotAge]:
    """Snapshots 1 to `count`, a second apart; those in `marked` record progress."""
    return [
        SnapshotAge(n, n - 1 or None, NOW_MS - (count - n + 1) * 1_000, "log" if n in marked else None)
        for n in range(1, count + 1)
    ]


def head(snapshot_id: int, **settings: int) -> Reference:
    return Reference("main", snapshot_id, True, **settings)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[SnapshotAge], list[Reference], ExpirePolicy]:
    """A tree of snapshots with branches and tags anywhere."""
    count = draw(st.integers(1, 12))
    snapshots = [
        SnapshotAge(
            n,
            draw(st.sampled_from([n - 1, *range(1, n)])) if n > 1 else None,
            NOW_MS - (count - n + 1) * draw(st.sampled_from([1_000, 5_000])),
            draw(st.sampled_from([None, "log", "other"])),
            operation=draw(st.sampled_from(["append", "replace", "replace", "overwrite", "delete", None])),
        )
        for n in range(1, count + 1)
    ]
    ids = st.integers(1, count)
    references = [
        head(draw(ids)),
        *(Reference(f"r{n}", draw(ids), draw(st.booleans())) for n in range(draw(st.integers(0, 3)))),
    ]
    ages = st.sampled_from([0, 2_000, 20_000])
    return snapshots, references, ExpirePolicy(True, draw(ages), draw(st.integers(1, 9)), draw(ages), draw(ages))


def decided(history: tuple[list[SnapshotAge], list[Reference], ExpirePolicy]) -> Expiry:
    snapshots, references, policy = history
    return decide_expiry(snapshots, references, ("log", "other"), policy, NOW_MS)


@given(histories())
def test_what_is_needed_stays(history: tuple[list[SnapshotAge], list[Reference], ExpirePolicy]) -> None:
    """Heads, tagged snapshots, young ones, and the newest that records progress never expire; every other one is
    decided about once."""
    snapshots, references, policy = history
    found = decided(history)
    assert set(found.expired) | found.kept.keys() == {each.snapshot_id for each in snapshots}
    assert not set(found.expired) & found.kept.keys()
    assert not set(found.expired) & {each.snapshot_id for each in references}
    for each in snapshots:
        if NOW_MS - each.timestamp_ms <= max(policy.rollback_window_ms, policy.reader_lease_ms):
            assert each.snapshot_id in found.kept
    marked = [each for each in snapshots if each.control_topic_id == "log"]
    if marked:
        assert max(marked, key=lambda each: each.timestamp_ms).snapshot_id in found.kept


@given(histories())
def test_behind_a_head_the_newest_progress_is_still_found(
    history: tuple[list[SnapshotAge], list[Reference], ExpirePolicy],
) -> None:
    """Whoever goes from a branch's head to its parents meets the same newest record of progress as before."""
    snapshots, references, _ = history
    found = decided(history)

    def newest_mark(at: int | None, by_id: dict[int, SnapshotAge], topic: str) -> int | None:
        while at is not None and at in by_id:
            if by_id[at].control_topic_id == topic:
                return at
            at = by_id[at].parent_id
        return None

    before = {each.snapshot_id: each for each in snapshots}
    after = {key: each for key, each in before.items() if key in found.kept}
    for reference in references:
        if reference.is_branch:
            for topic in ("log", "other"):
                assert newest_mark(reference.snapshot_id, after, topic) == newest_mark(
                    reference.snapshot_id, before, topic
                )


@given(histories())
def test_a_streaming_reader_that_has_read_all_there_is_finds_what_follows(
    history: tuple[list[SnapshotAge], list[Reference], ExpirePolicy],
) -> None:
    """It stands at the newest append and passes over rewrites: from main's head it is still met, over its parents. Where
    something else followed the append, no snapshot stays for its sake."""
    snapshots, references, _ = history
    kept = decided(history).kept
    by_id = {each.snapshot_id: each for each in snapshots}
    behind = [by_id[references[0].snapshot_id]]
    while behind[-1].operation == "replace" and behind[-1].parent_id is not None:
        behind.append(by_id[behind[-1].parent_id])
    if behind[-1].operation == "append":
        assert {each.snapshot_id for each in behind} <= kept.keys()
    else:
        assert Stay.STREAM not in kept.values()


def test_the_oldest_part_of_one_line_is_known_as_such() -> None:
    """Then the files that go are found without a look at all that stay; where a tag or a second branch keeps something
    in between, or the line has a gap, they are not."""
    five = line(5)
    assert is_end_of_line(five[:3], five[3:])
    assert not is_end_of_line([five[0], five[2]], [five[1], *five[3:]])
    assert not is_end_of_line(five[3:], five[:3])
    assert not is_end_of_line([five[0]], five[2:])
    assert not is_end_of_line(five[:3], [*five[3:], SnapshotAge(6, 4, NOW_MS, None)])


def test_a_reader_and_a_rollback_go_by_when_a_snapshot_ceased_to_be_the_head() -> None:
    """After six quiet days the head of a second ago is still inside the lease and the window; what it followed is
    not."""
    policy = ExpirePolicy(max_snapshot_age_ms=0, max_snapshots=1, rollback_window_ms=5_000, reader_lease_ms=0)
    old = NOW_MS - 500_000
    snapshots = [
        SnapshotAge(1, None, old, None, old + 1_000),
        SnapshotAge(2, 1, old + 1_000, None, NOW_MS - 1_000),
        SnapshotAge(3, 2, NOW_MS - 1_000, None),
    ]
    found = decide_expiry(snapshots, [head(3)], (), policy, NOW_MS)
    assert (found.expired, found.kept[2]) == ((1,), Stay.ROLLBACK)
    lease = replace(policy, rollback_window_ms=0, reader_lease_ms=5_000)
    assert decide_expiry(snapshots, [head(3)], (), lease, NOW_MS).kept[2] is Stay.READER


def test_age_and_number_each_let_snapshots_go() -> None:
    """A snapshot goes when it is too old or one too many."""
    by_number = ExpirePolicy(True, 10**9, 3, 0, 0)
    by_age = ExpirePolicy(True, 2_000, 100, 0, 0)
    assert decide_expiry(line(5), [head(5)], (), by_number, NOW_MS).expired == (1, 2)
    assert decide_expiry(line(5), [head(5)], (), by_age, NOW_MS).expired == (1, 2, 3)


def test_a_branch_keeps_what_its_own_settings_say() -> None:
    """`min-snapshots-to-keep` and `max-snapshot-age-ms` of a branch hold beside the policy."""
    assert decide_expiry(line(5), [head(5, min_snapshots_to_keep=4)], (), NOTHING, NOW_MS).expired == (1,)
    assert decide_expiry(line(5), [head(5, max_snapshot_age_ms=2_000)], (), NOTHING, NOW_MS).expired == (1, 2, 3)


def test_few_at_once_are_the_oldest() -> None:
    """A bound on one commit leaves the newer ones for the next."""
    found = decide_expiry(line(5), [head(5)], (), NOTHING, NOW_MS, most=2)
    assert (found.expired, found.kept[3]) == ((1, 2), Stay.NEXT)


def test_nothing_expires_where_the_policy_says_so() -> None:
    """`expire: {enabled: false}` keeps all."""
    assert decide_expiry(line(3), [head(3)], (), ExpirePolicy(enabled=False), NOW_MS).expired == ()

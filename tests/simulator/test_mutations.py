"""Each mend of recovery and maintenance is needed: without it, the simulator that finds nothing finds a fault.

Every case puts back what the code once did, in one function, and plays histories of fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from framework.commit import file_ages, offsets
from framework.commit.events.event_types import SourceRange
from framework.commit.file_ages import FilePresence
from framework.commit.machine import queues
from framework.commit.machine.effects import TableProgress
from framework.commit.machine.progress import prefix
from framework.commit.maintenance import expire, removed_files
from framework.commit.maintenance.expire import Expiry
from framework.commit.offset_ranges import OffsetRanges
from framework.commit.recovery import missing
from framework.commit.recovery import rebase as rebase_rules
from framework.commit.recovery import rollback as rollback_rules
from framework.commit.recovery import settle_offsets as settle_rules
from framework.commit.recovery import table_replay as replay_rules
from framework.commit.recovery.missing import Gap
from framework.commit.recovery.settle_offsets import PartitionPlaces
from framework.config.spec import TablesSpec
from framework.config.values.maintenance import MaintenancePolicy
from framework.errors import FloeError
from framework.plan import deployed_policies
from framework.recovery import recover_table, rollback, table_replay
from framework.runtime.maintenance import orphans as cleaner
from framework.runtime.maintenance import tables as maintenance
from tests.simulator import care, catalog, coordinators, drivers, lake
from tests.simulator.acts import Act
from tests.simulator.catalog import Metadata
from tests.simulator.run import first_failure, play, simulated

STEPS = 200
Patch = pytest.MonkeyPatch
Mutation = Callable[[Patch], None]

# ---- 1: what a table lacks is a set

_lacking_after = missing.lacking_after


def one_range_around(patch: Patch) -> None:
    """One range of each partition stands for all that is given up."""

    def around(noted: Any, given_up: dict[str, OffsetRanges], read: Any, held: Any, gap_id: str) -> tuple[Gap, ...]:
        hulls = {}
        for name, ranges in given_up.items():
            spans: dict[tuple[str, str, int], list[int]] = {}
            for r in ranges.ranges:
                spans.setdefault((r.topic, r.topic_id, r.partition), []).extend((r.start, r.end))
            hulls[name] = OffsetRanges.of(SourceRange(*key, min(ends), max(ends)) for key, ends in spans.items())
        return _lacking_after(noted, hulls, read, held, gap_id)

    patch.setattr(rollback, "lacking_after", around)


# ---- 2, 3, 7: what expiry removes


def by_what_was_chosen(patch: Patch) -> None:
    """What goes is computed from the look, and the oldest snapshot that was to stay says what is still listed."""

    def went_with(look: Metadata, after: Metadata, expiry: Expiry) -> list[str]:
        gone = set(expiry.expired)
        every = [care.expiring(each) for each in look.snapshots.values()]
        went = [each for each in every if each.snapshot_id in gone]
        oldest = next((each.snapshot_id for each in every if each.snapshot_id not in gone), None)
        stays = [each for each in every if each.snapshot_id in after.snapshots and each.snapshot_id == oldest]
        return removed_files.only_theirs(went, stays, care.Files(look), ())

    patch.setattr(care, "went_with", went_with)


def tags_of_the_look(patch: Patch) -> None:
    """The commit of an expiry asks only for the references that were there at the look, and files go with a tag."""
    asked = care.expiry_conditions
    patch.setattr(care, "expiry_conditions", lambda look, expiry: replace(asked(look, expiry), as_seen=None))
    found = removed_files.gone_and_stays
    patch.setattr(removed_files, "gone_and_stays", lambda before, after, refs, names: found(before, after, {}, names))


def every_line_is_floes(patch: Patch) -> None:
    """What an expired snapshot removed goes, although somebody added it again."""
    patch.setattr(removed_files, "is_own_line", lambda gone, stays: True)


# ---- 4: tables that others need


def without_gc(patch: Patch) -> None:
    """`gc.enabled: false` is not heeded."""
    look = care.Care.look

    def looked(self: care.Care, table: str) -> Any:
        found = look(self, table)
        return None if found is None else replace(found, owns_files=True)

    patch.setattr(care.Care, "look", looked)


def without_twins(patch: Patch) -> None:
    """Tables that are registered with the same files are not looked for."""
    alone = maintenance.why_left_alone
    patch.setattr(
        maintenance, "why_left_alone", lambda table, name, places, branch="main": alone(table, name, {}, branch)
    )


def without_the_tables_word(patch: Patch) -> None:
    """`history.expire.min-snapshots-to-keep` of a table is not heeded."""
    patch.setattr(expire, "with_words_of_table", lambda references, age, fewest: tuple(references))


# ---- 5: since when


def from_their_birth(patch: Patch) -> None:
    """Readers' leases and rollback windows count from a snapshot's birth."""
    patch.setattr(expire, "with_left_ms", lambda snapshots, heads: tuple(snapshots))


# ---- 6: age by the right clock


def age_by_their_clocks(patch: Patch) -> None:
    """How old announced files are is the difference of two machines' clocks."""
    patch.setattr(
        prefix,
        "may_be_gone",
        lambda now, after, reported, begun, most: reported is not None and now - reported >= file_ages.DAY_MS,
    )


def no_one_stands_still(patch: Patch) -> None:
    """A driver or a coordinator that slept goes on as if nothing had happened."""
    for module in (coordinators, drivers, lake):
        patch.setattr(module, "stood_still", lambda begun, now: False)


def a_sleeping_compaction(patch: Patch) -> None:
    """What a compaction wrote before it slept is added."""
    patch.setattr(file_ages, "presence_of_unnamed", lambda begun, now: FilePresence.THERE)
    patch.setattr(lake, "stood_still", lambda begun, now: False)


def age_by_the_cleaners_clock(patch: Patch) -> None:
    """Files are old by the clock of whoever looks for orphans."""
    patch.setattr(cleaner, "now_for_orphans_ms", lambda machine_ms, store_ms: machine_ms)


# ---- 9: whose policy


def first_by_name(patch: Patch) -> None:
    """Of several pipelines the first by name decides, and a pipeline whose plan is unknown is not asked."""

    def policy_of(table: str, pipelines: Iterable[str], reported: dict[str, TablesSpec]) -> MaintenancePolicy | None:
        known = [reported[name] for name in sorted(pipelines) if name in reported]
        return known[0].policy_for(table).maintenance if known else None

    patch.setattr(maintenance, "policy_of", policy_of)


def the_unknown_agree(patch: Patch) -> None:
    """Where the plan of one pipeline is unknown, the others decide alone."""
    strict = deployed_policies.policy_of
    patch.setattr(
        maintenance,
        "policy_of",
        lambda table, names, reported: strict(table, [n for n in names if n in reported], reported),
    )


# ---- 10: one table, and the others


def all_or_none(patch: Patch) -> None:
    """A table that cannot be looked at ends the whole round."""

    def at_once(tables: Any, do: Callable[[Any], Any], skip: Callable[[Any, FloeError], Any]) -> Any:
        return [do(table) for table in tables]

    for module in (maintenance, cleaner):
        patch.setattr(module, "one_by_one", at_once)


# ---- what the simulator itself has found


def by_the_maintainers_clock(patch: Patch) -> None:
    """Snapshots expire by the clock of whoever maintains the table."""
    patch.setattr(maintenance, "now_for_orphans_ms", lambda machine_ms, store_ms: machine_ms)


def a_replay_of_what_is_coming(patch: Patch) -> None:
    """A person may name records that are announced, or that the pipeline has not read yet."""
    patch.setattr(table_replay, "comes_by_itself", lambda events, recorded, safe, facts: OffsetRanges())


def a_replay_hides_a_rollback(patch: Patch) -> None:
    """`floe replay` commits to a table that somebody else moved back."""
    patch.setattr(recover_table, "check_not_rolled_back", lambda view: None)


def two_topics_in_one_gap(patch: Patch) -> None:
    """Records of a topic and of the one that had its name before stand in one gap."""

    def layers(self: OffsetRanges) -> Sequence[tuple[SourceRange, ...]]:
        return [self.ranges] if len({(r.topic, r.topic_id, r.partition) for r in self.ranges}) == len(self.ranges) else (
            [(each,) for each in self.ranges]
        )  # fmt: skip

    patch.setattr(OffsetRanges, "layers", layers)


def one_gap_for_all(patch: Patch) -> None:
    """A gap that can never be filled keeps a replay from the others."""

    def readable(table: str, gaps: Sequence[Gap], facts: Any) -> tuple[Gap, ...]:
        for gap in gaps:
            for r in gap.ranges:
                replay_rules._check_source(table, r, facts.get((r.topic, r.partition)))
        return tuple(gaps)

    patch.setattr(replay_rules, "_readable", readable)


def a_rebase_over_what_waits(patch: Patch) -> None:
    """`floe rebase` goes on in a topic that was recreated while announcements of the former one wait."""
    patch.setattr(rebase_rules, "_check_announced", lambda facts: None)


def a_recreated_topic_by_itself(patch: Patch) -> None:
    """A topic that was taken out, recreated and put back is read from its start without a word."""
    same = offsets.first_position

    def first(pipeline: str, key: Any, fact: Any, given_up: Iterable[SourceRange] = (), policy: str = "fail") -> int:
        return same(pipeline, key, fact, [r for r in given_up if r.topic_id == fact.topic_id], policy)

    for module in (offsets, drivers):
        patch.setattr(module, "first_position", first)


def a_clock_set_back(patch: Patch) -> None:
    """When the log's end was seen is compared with a clock that was set back since."""
    patch.setattr(coordinators, "earliest_ms", lambda past, now: past.wall_ms)


def a_clock_set_back_while_files_wait(patch: Patch) -> None:
    """What waits when the clock is set back was seen when the clock says that it was."""
    patch.setattr(queues, "seen_earlier", lambda turn, by_ms: None)


def no_number_for_what_comes_back(patch: Patch) -> None:
    """A run that reads a partition again which was given up begins under the number of the batch before."""
    patch.setattr(offsets.StartPoint, "claimed_batch", property(lambda start: start.batch))


def more_expires_after_a_lost_tag(patch: Patch) -> None:
    """After a server took a tag away with its snapshot, the same round lets further snapshots go."""
    patch.setattr(care, "took_references", lambda look, after: False)


def a_replay_leaves_no_trace(patch: Patch) -> None:
    """A named replay into a table of which its pipeline has no record leaves nothing that names the pipeline."""

    def without(progress: TableProgress, gap: Gap) -> TableProgress:
        left = {name: each for name, each in progress.pipelines.items() if name != gap.replay_pipeline}
        return replace(progress, pipelines=left)

    patch.setattr(table_replay, "without_replay", without)


def a_list_out_of_line(patch: Patch) -> None:
    """A list that names what the table holds stays as it is where the log no longer shows that."""
    patch.setattr(rollback, "without_unclear", lambda plan, rows: plan)


def one_name_for_two_rollbacks(patch: Patch) -> None:
    """Two rollbacks from one head have one commit id, in a table whose record does not say in which snapshot it was made."""
    a_branch_off_its_line(patch)
    patch.setattr(rollback, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex="0" * 32)))


def twins_of_an_hour_ago(patch: Patch) -> None:
    """A copy that was registered since the tables were looked at is not seen before snapshots expire."""
    patch.setattr(maintenance, "_is_registered_since", lambda name, tables, places: False)


def a_branch_off_its_line(patch: Patch) -> None:
    """Where a branch is moved to shows by the offsets of the snapshots that are left alone, as for a record of a version that
    did not note in which snapshot it was made."""
    for module in (catalog, lake):
        patch.setattr(module, "is_moved", lambda metadata, topic_id: False)


def a_partition_that_nobody_named(patch: Patch) -> None:
    """`floe offsets set` moves a partition that is not named to where tables are, where the log does not say, and counts
    nothing of what the group has read beyond them as repeated."""
    patch.setattr(PartitionPlaces, "furthest", PartitionPlaces.reached)
    patch.setattr(settle_rules, "_check_stays", lambda pipeline, partition: None)


def held_by_the_announcement(patch: Patch) -> None:
    """What others deleted again counts as held, when a table with a list goes back, by its announcement alone."""
    patch.setattr(rollback_rules.Announcements, "pieces_of", lambda announced, paths, of: ())


def back_under_a_waiting_replay(patch: Patch) -> None:
    """A table goes back to a snapshot that holds what a replay has announced since others deleted it."""
    patch.setattr(rollback, "_refuse_doubled", lambda at, plan, announced: None)


# Too rare for some hundred histories: mutation -> a seed that finds it.
RARE: dict[Mutation, int] = {
    a_rebase_over_what_waits: 5_000_063,
    a_recreated_topic_by_itself: 5_004_414,
    a_clock_set_back: 5_004_549,
    a_clock_set_back_while_files_wait: 41_007_790,
    no_number_for_what_comes_back: 5_008_531,
    more_expires_after_a_lost_tag: 6_002_395,
    a_replay_leaves_no_trace: 5_016_362,
    twins_of_an_hour_ago: 5_003_436,
    a_list_out_of_line: 5_008_534,
    a_branch_off_its_line: 9_600_284,
    held_by_the_announcement: 20_008_930,
    back_under_a_waiting_replay: 63_002_137,
    a_replay_hides_a_rollback: 2_477,
}


# Of some the seed fails no more since others of the acts have changed: what was left of it, shortened, with the seed of
# its world.
SHORT: dict[Mutation, tuple[int, tuple[Act, ...]]] = {
    one_name_for_two_rollbacks: (
        9_505_944,
        (
            Act("batch", 74675483492253564962986475592),
            Act("coordinate", 35595599017282079927208238308),
            Act("other_commit", 73368269795503602358680512134),
            Act("roll_back", 1998653601040019734118149378),
            Act("move_branch", 13362777225173692500776255464),
            Act(
                "roll_back",
                33772272666986551114014580486,
                (("files looked for", Act("delete_rows", 51326561513434983680679753872)),),
            ),
        ),
    ),
    a_partition_that_nobody_named: (
        9_601_117,
        (
            Act("batch", 38623984551008878593563348835),
            Act("batch", 78774216561125190009463149255),
            Act("coordinate_all", 49147931204145385719438993240),
            Act("batch", 52548292208000525662727819340),
            Act(
                "clean",
                63011399226348235047853979538,
                (("announcements read", Act("sleep", 27498054343327597170738532397)),),
            ),
            Act("discard", 36654089068037873505143883562),
            Act("coordinate", 51137336149435868362329559754),
            Act("retention", 23042290371332122599281751670),
            Act("topic_anew", 31185283465872362831030070540),
        ),
    ),
}


# Mutation -> within how many histories it is found.
MUTATIONS: dict[Mutation, int] = {
    one_range_around: 400,
    by_what_was_chosen: 50,
    tags_of_the_look: 200,
    every_line_is_floes: 50,
    without_gc: 50,
    without_twins: 50,
    without_the_tables_word: 50,
    from_their_birth: 50,
    age_by_their_clocks: 400,
    no_one_stands_still: 100,
    a_sleeping_compaction: 400,
    age_by_the_cleaners_clock: 400,
    first_by_name: 50,
    the_unknown_agree: 100,
    all_or_none: 400,
    by_the_maintainers_clock: 400,
    a_replay_of_what_is_coming: 400,
    two_topics_in_one_gap: 400,
    one_gap_for_all: 400,
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_without_a_mend_the_simulator_finds_a_fault(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these was, or would be, lost or repeated records, files that readers lack, or tables that wait for others."""
    with simulated():
        mutation(monkeypatch)
        found = first_failure(range(1, 1 + MUTATIONS[mutation]), STEPS, shorten=False)
        monkeypatch.undo()
    assert found is not None


@pytest.mark.parametrize("mutation", RARE, ids=lambda mutation: mutation.__name__)
def test_without_a_rare_mend_its_seed_finds_a_fault(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of the acts: take the mend out, play some ten thousand new seeds, and name one that fails."""
    with simulated():
        assert first_failure([RARE[mutation]], STEPS, shorten=False) is None
        mutation(monkeypatch)
        found = first_failure([RARE[mutation]], STEPS, shorten=False)
        monkeypatch.undo()
    assert found is not None


@pytest.mark.parametrize("mutation", SHORT, ids=lambda mutation: mutation.__name__)
def test_without_a_mend_its_short_history_finds_a_fault(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shortened history carries its own choices, so it stays what it is when the acts of other histories change."""
    seed, played = SHORT[mutation]
    with simulated():
        assert play(seed, played) == ""
        mutation(monkeypatch)
        found = play(seed, played)
        monkeypatch.undo()
    assert found

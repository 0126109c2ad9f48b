"""Each rule of the protocol is needed: without it, the same search that finds nothing finds a fault.

Every case changes one function of `framework.commit` (or one promise of the world around it) and explores a small world
that is sound with the real code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pytest

from framework.commit import watch
from framework.commit.events import split
from framework.commit.events.event_types import DataComplete, DataWritten, Discarded, Heartbeat
from framework.commit.machine import cycle, fold, queues, schedule
from framework.commit.machine import step as state
from framework.commit.machine.effects import (
    Assigned,
    Effect,
    ExaminedTable,
    Input,
    PipelineProgress,
    StoreLowWater,
    TableProgress,
)
from framework.commit.machine.fifo import Fifo
from framework.commit.machine.model import Announcement, CoordinatorState, PipelineState, TablePhase, TableState
from framework.commit.machine.progress import chain, examine, prefix
from framework.commit.machine.progress.chain import LinkCheck
from framework.commit.machine.step import step
from framework.commit.machine.step_draft import StepDraft
from tests.protocol import edges
from tests.protocol import world as w
from tests.protocol.build import STEP, TOPIC_ID, pause
from tests.protocol.explore import Outcome, Scope, explore, start

T, U = "db.t", "db.u"
Patch = Callable[[pytest.MonkeyPatch], w.Step]


# ---- small worlds, each with its log already written
# -------------------------------------------------------------------


def announce(world: w.World, *order: str) -> w.World:
    """Workers append in the order of their names until the log is written."""
    for name in order:
        worker = next(x for x in world.workers if x.pipeline == name)
        world = w.worker_append(world, worker)
    return world


def two_interleaved() -> w.World:
    """a:DataWritten@0, b:DataWritten@1, b:DataComplete@2, a:DataComplete@4."""
    return announce(start(Scope((((T,),), ((T,),))))[0], "a", "b", "b", "a")


def one_after_the_other() -> w.World:
    """Three batches of one pipeline, the second to another table."""
    return announce(start(Scope((((T,), (U,), (T,)),)))[0], *"aaaaaa")


def changed_by_key() -> w.World:
    """Three batches for an upsert table; the second only deletes."""
    return announce(start(Scope((((w.KEYED,),) * 3,)))[0], *"aaaaaa")


def in_parts() -> w.World:
    """One announcement in two parts."""
    return announce(start(Scope(((("db.t*2",), (T,)),)))[0], *"aaaaa")


def gap() -> w.World:
    """The second batch starts where the first did not end."""
    world = announce(start(Scope((((T,),),)))[0], "a", "a")
    return w.announce_wrongly(world, "a", 2, T, STEP + 5, 2 * STEP, "wrong")


def gap_that_was_settled() -> w.World:
    """As before, and then a person settles the pipeline where its good chain ended; it reads on from there."""
    world = gap()
    (worker,) = world.workers
    world = w.settle_offsets(world, replace(worker, script=((T,),)))
    return announce(world, "a", "a")


def paused_and_read_on() -> w.World:
    """A table for which nothing comes is paused; what stands behind it in the log is committed."""
    world = w.append_plainly(start(Scope((((T,),),)))[0], pause(U))
    return announce(world, "a", "a")


def paused_for_a_while() -> w.World:
    """Two batches for a table whose commits are paused and then go on; only one fits into memory."""
    world = w.append_plainly(start(Scope((((T,), (T,)),)))[0], pause(T))
    return w.append_plainly(announce(world, *"aaaa"), pause(T, False))


def recreated_source() -> w.World:
    """The second batch comes from a topic of the same name and another id, offsets fitting by chance."""
    world = announce(start(Scope((((U,),), ((T,),))))[0], "a", "a")
    return w.announce_wrongly(world, "a", 2, T, STEP, 2 * STEP, "wrong", "another-id")


def repeat_unknown_to_the_chain() -> w.World:
    """Batch 1 is in the table; its announcement comes again where a new coordinator begins to read."""
    world = announce(start(Scope((((T,),),)))[0], "a", "a")
    path = next(e.event.files[0].path for e in world.log if isinstance(e.event, DataWritten))
    progress = TableProgress(TOPIC_ID, 3, {"a": PipelineProgress(1, {"src": {"0": STEP}}, {"src": "src-id"})})
    snapshots = ((1, w.Snapshot(None, (path,), 3)),)
    world = world.with_table(w.Table(T, f"uuid-{T}", head=1, snapshots=snapshots, progress=progress))
    world = w.announce_wrongly(world, "a", 1, T, 0, STEP, "copy")
    return replace(world, low_water=3, chain_from=3)


def gap_above_the_low_water_mark() -> w.World:
    """Batch 1 is in its table and below the low-water mark; batch 2 leaves a gap and goes to another table."""
    world = repeat_unknown_to_the_chain()
    world = replace(world, log=world.log[:3], tables=(*world.tables, w.Table(U, f"uuid-{U}")), chain_from=1)
    return w.announce_wrongly(world, "a", 2, U, STEP + 5, 2 * STEP, "wrong")


def beginning_lost() -> w.World:
    """Retention removed the first announcement before it was committed; no position was ever stored."""
    return replace(one_after_the_other(), log_start=3)


def beginning_lost_above_low_water() -> w.World:
    """As before, with a stored low-water mark that shows it."""
    return replace(one_after_the_other(), log_start=3, low_water=0, chain_from=0)


def position_of_another_topic() -> w.World:
    """The stored low-water mark was made in a control topic that is gone."""
    return replace(one_after_the_other(), low_water=9, chain_from=9, low_water_topic_id="gone")


def filled_by_another_cluster() -> w.World:
    """The table holds the pipeline's first batch by another control topic, and here it is announced once more."""
    return w.filled_from_elsewhere(one_after_the_other(), T, "a")


def given_up_before_a_newer_announcement() -> w.World:
    """The table is replaced and a newer batch is announced for it; then comes the word that the older one is given
    up."""
    world = announce(start(Scope((((T,), (T,)),)))[0], "a", "a")
    world = announce(w.recreate(world, T), "a", "a")
    return w.append_plainly(world, Discarded(T, 0, 1, 1, 1, {"a": STEP}, "replaced", 0))


def table_missing() -> w.World:
    """A table is not there for a while."""
    world = one_after_the_other()
    return world.with_table(replace(world.table(T), exists=False))


# ---- mutations -------------------------------------------------------------------------------------------------------


def chain_is_not_checked(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 2."""
    follows = chain.LinkCheck(chain.Fit.FOLLOWS)
    patch.setattr(fold, "check_link", lambda link, event: follows)
    patch.setattr(prefix, "check_recorded", lambda progress, event: follows)
    return step


def topic_ids_are_not_compared(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 11, in the chain."""
    real = chain.check_link

    def blind(link: Heartbeat | None, event: DataComplete | Heartbeat) -> chain.LinkCheck:
        if link is not None:
            link = replace(link, ranges=tuple(replace(r, topic_id="x") for r in link.ranges))
        return real(link, replace(event, ranges=tuple(replace(r, topic_id="x") for r in event.ranges)))

    patch.setattr(fold, "check_link", blind)
    return step


def progress_reaches_the_position(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: P' is the end of the fold, whatever waits below it."""
    real = prefix.take_prefix

    def greedy(
        table: TableState,
        view: ExaminedTable,
        pipelines: dict[str, PipelineState],
        control_topic_id: str,
        position: int,
        max_files: int,
        *further: int | None,
    ) -> prefix.Prefix:
        found = real(table, view, pipelines, control_topic_id, position, max_files, *further)
        return replace(found, through=position, progress=replace(found.progress, control_offset=position))

    patch.setattr(schedule, "take_prefix", greedy)
    return step


def complete_batches_overtake(patch: pytest.MonkeyPatch) -> w.Step:
    """The prefix rule: whatever is complete is committed, and what is not is left behind below P'."""
    real = prefix.take_prefix

    def overtaking(
        table: TableState,
        view: ExaminedTable,
        pipelines: dict[str, PipelineState],
        control_topic_id: str,
        position: int,
        max_files: int,
        *further: int | None,
    ) -> prefix.Prefix:
        ready = [a for a in table.pending if a.offset < pipelines[a.event.pipeline].confirmed_below]
        found = real(
            replace(table, pending=Fifo(ready)), view, pipelines, control_topic_id, position, max_files, *further
        )
        return replace(found, taken=len(table.pending) if found.taken else 0)

    patch.setattr(schedule, "take_prefix", overtaking)

    def due_at_ms(state: CoordinatorState, table: TableState) -> int | None:
        ready = any(a.offset < state.pipelines[a.event.pipeline].confirmed_below for a in table.pending)
        return 0 if ready and table.phase is TablePhase.READY else None

    patch.setattr(schedule, "due_at_ms", due_at_ms)
    return step


def parts_are_divided(patch: pytest.MonkeyPatch) -> w.Step:
    """A commit may end between two parts of one announcement."""
    real = prefix.take_prefix

    def dividing(
        table: TableState,
        view: ExaminedTable,
        pipelines: dict[str, PipelineState],
        control_topic_id: str,
        position: int,
        max_files: int,
        *further: int | None,
    ) -> prefix.Prefix:
        whole = Fifo(Announcement(a.offset, replace(a.event, part=0, parts=1)) for a in table.pending)
        return real(replace(table, pending=whole), view, pipelines, control_topic_id, position, max_files, *further)

    patch.setattr(schedule, "take_prefix", dividing)
    return step


def recorded_progress_is_ignored(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariants 3 and 5: what a loaded table says it holds is committed again."""
    real = schedule.loaded

    def careless(turn: StepDraft, view: ExaminedTable) -> None:
        real(turn, replace(view, progress=None))

    patch.setattr(schedule, "loaded", careless)
    return step


def commits_are_not_conditional(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 4: the catalog does not compare the head with what was examined."""
    real = w.apply_commit

    def unconditional(world: w.World, effect: w.CommitTable) -> w.World | None:
        head = world.table(effect.table).head
        return real(world, replace(effect, view=replace(effect.view, snapshot_id=head)))

    patch.setattr(w, "apply_commit", unconditional)
    return step


def the_tables_record_is_not_asked(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 5: only the chain looks for repeats."""
    follows = chain.LinkCheck(chain.Fit.FOLLOWS)
    patch.setattr(prefix, "check_recorded", lambda progress, event: follows)
    return step


def reading_begins_at_the_end(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 6: as with `auto.offset.reset=latest`."""
    patch.setattr(state, "start_offset", lambda assigned: 3 if assigned.low_water is None else assigned.low_water)
    return step


def low_water_is_the_position(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 6: what is folded counts as committed."""
    patch.setattr(cycle, "low_water", lambda state: state.position)
    return step


def no_proof_is_asked_for(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 6: a log that lost its beginning is taken for whole when nothing is stored."""

    def trusting(before: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        after, effects = step(before, message, now_ms)
        return (replace(after, needs_proof=None), effects) if isinstance(message, Assigned) else (after, effects)

    return trusting


def a_late_log_start_is_ignored(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 6: a log that starts above the low-water mark is read as if nothing were missing."""

    def trusting(before: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        if isinstance(message, Assigned):
            message = replace(message, log_start=0)
        return step(before, message, now_ms)

    return trusting


def a_successor_reads_from_the_low_water_mark(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 2: `chain_from` is not asked, so the link before the first batch is not seen."""

    def hasty(before: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        if isinstance(message, Assigned):
            message = replace(message, chain_from=None)
        return step(before, message, now_ms)

    return hasty


def the_stored_topic_id_is_ignored(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 11, at the door."""

    def trusting(before: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        if isinstance(message, Assigned):
            message = replace(message, low_water_topic_id=message.control_topic_id)
        return step(before, message, now_ms)

    return trusting


def progress_elsewhere_is_ignored(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 11, at the table: what it holds of the pipeline by another control topic is not asked."""
    real = prefix.obstacle

    def blind(
        offset: int, event: DataWritten, view: ExaminedTable, pipelines: dict[str, PipelineState], control_topic_id: str
    ) -> tuple[bool, str | None]:
        return real(offset, event, replace(view, elsewhere={}), pipelines, control_topic_id)

    patch.setattr(prefix, "obstacle", blind)
    patch.setattr(examine, "obstacle", blind)
    return step


def an_unknown_outcome_counts_as_success(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 7: the table is not asked."""

    def hopeful(turn: StepDraft, name: str, commit_id: str, reason: str) -> None:
        table = turn.state.tables[name]
        attempt, view = table.attempt, table.view
        if attempt is not None and view is not None and attempt.commit_id == commit_id:
            progress = TableProgress(TOPIC_ID, attempt.through)
            schedule.committed(turn, name, commit_id, replace(view, progress=progress), 0, 0)

    patch.setattr(schedule, "commit_failed", hopeful)
    return step


def a_blocked_table_gives_up(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 10: as peers do, a missing table is skipped with a warning."""
    real = schedule.missing

    def giving_up(turn: StepDraft, name: str, reason: str) -> None:
        table = turn.state.tables[name]
        turn.put_table(queues.drop_announcements(table, len(table.pending), turn.now_ms))
        real(turn, name, reason)

    patch.setattr(schedule, "missing", giving_up)
    return step


def everything_that_waits_is_given_up(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 10: a person's word is taken for more than it says."""
    real = queues.discard
    patch.setattr(fold, "discard", lambda turn, offset, event: real(turn, offset, replace(event, below=1 << 60)))
    return step


def what_was_given_up_below_the_mark_is_missed(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 10: a table is held for what a person gave up where the coordinator queued nothing."""
    real = queues.discard

    def forgetful(turn: StepDraft, offset: int, event: Discarded) -> None:
        real(turn, offset, event)
        if (table := turn.state.table_named(event.table)) is not None:
            turn.put_table(replace(table, given_up=frozenset(), discarded=frozenset(), settled=()))

    patch.setattr(fold, "discard", forgetful)
    return step


def what_is_read_again_below_the_mark_is_missed(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 2: a table is held for what is read again, where the coordinator queued nothing."""
    patch.setattr(fold, "settle", lambda turn, pipeline, offset, read_from: None)
    return step


def what_is_read_again_frees_whatever_came_before(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: where a person moved a pipeline back, no table is asked any more for what was announced before
    that."""
    real = queues.settle
    patch.setattr(fold, "settle", lambda turn, pipeline, offset, read_from: real(turn, pipeline, offset, None))
    return step


def the_rest_of_a_batch_is_not_asked(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: what stands behind a part that was given up comes in whatever the table holds."""
    real = prefix.check_before

    def trusting(
        table: TableState, recorded: PipelineProgress | None, newest: int | None, part: int, announcement: Announcement
    ) -> LinkCheck:
        event = announcement.event
        if table.was_given_up(event.pipeline, event.batch):
            return chain.check_recorded(recorded, event)
        return real(table, recorded, newest, part, announcement)

    patch.setattr(prefix, "check_before", trusting)
    return step


def a_repeat_is_taken_for_the_newest(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: a driver says that a table must hold a batch that came once more and was dropped."""
    patch.setattr(watch.Watch, "_is_complete", lambda self, link: None)
    patch.setattr(w, "_newest", w._newest.__wrapped__)
    return step


def what_was_given_up_goes_by_its_name_alone(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 10: a table is held for what a person gave up under another of its names."""
    real = queues.discard
    patch.setattr(fold, "discard", lambda turn, offset, event: real(turn, offset, replace(event, table_uuids=())))
    return step


def what_waits_of_a_broken_chain_is_kept(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 2: the offsets are settled and their records read again, and what was announced of them is committed
    too."""
    patch.setattr(fold, "forget", lambda turn, pipeline, begin, end, read_from=None, repeated=False: {})
    return step


def settled_offsets_are_not_heeded(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 2: a chain that was settled by a person stays broken."""
    patch.setattr(fold, "_offsets_set", lambda turn, offset, event: None)
    return step


def a_pause_ends_with_its_coordinator(patch: pytest.MonkeyPatch) -> w.Step:
    """The stored `chain_from` does not lead a successor to the pauses that hold."""
    patch.setattr(cycle, "active", lambda pauses: ())
    return step


def progress_passes_what_was_not_kept(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: announcements that were not kept in memory are taken for none."""
    real = prefix.take_prefix

    def greedy(
        table: TableState,
        view: ExaminedTable,
        pipelines: dict[str, PipelineState],
        control_topic_id: str,
        position: int,
        max_files: int,
        *further: int | None,
    ) -> prefix.Prefix:
        end = max([position, *(offset + 1 for offset in table.newest.values())])
        return real(table, view, pipelines, control_topic_id, end, max_files, *further)

    patch.setattr(schedule, "take_prefix", greedy)
    return step


def what_was_not_kept_is_forgotten(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariants 6 and 10: a blocked table's announcements beyond the limit of memory hold no low-water mark."""
    patch.setattr(queues, "_without_keeping", lambda table, offset, event: table)
    return step


# ---- the edges
# ----------------------------------------------------------------------------------------------------------


def queues_go_by_name(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: progress is the table's, whatever it is called, and another name's announcements are taken for
    recorded."""

    def by_name(turn: StepDraft, event: DataWritten) -> str:
        turn.put_queue(event.table_uuid, event.table)
        return event.table

    patch.setattr(queues, "queue_of", by_name)
    return step


def batches_are_divided_between_names(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 5: what a batch has under a table's other name is taken for a repeat."""

    def by_name(pieces: Iterable[DataWritten]) -> list[DataWritten]:
        pieces = list(pieces)
        names = Counter(piece.table for piece in pieces)
        seen: Counter[str] = Counter()
        numbered = []
        for piece in pieces:
            numbered.append(replace(piece, part=seen[piece.table], parts=names[piece.table]))
            seen[piece.table] += 1
        return numbered

    patch.setattr(split, "number_parts", by_name)
    return step


def what_was_given_up_is_forgotten(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 2: a partition that was given up begins anywhere when it comes back."""
    patch.setattr(chain, "_given_up", lambda named, before, event: ())
    return step


def ends_of_another_topic_stay(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 11: partitions of a topic that had this name before count for the one that has it now."""
    real = chain.record

    def careless(
        progress: Mapping[str, PipelineProgress], events: Iterable[DataWritten]
    ) -> dict[str, PipelineProgress]:
        found = real(progress, events)
        for name, before in progress.items():
            offsets = {t: {**ends, **found[name].offsets.get(t, {})} for t, ends in before.offsets.items()}
            found[name] = replace(found[name], offsets={**found[name].offsets, **offsets})
        return found

    patch.setattr(prefix, "record", careless)
    return step


def a_log_that_was_cut_off_is_read_on(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 6: a position in a log that lost its end is taken for one in the log that is there now."""
    for module in (queues, examine, state):
        patch.setattr(module, "is_later", lambda epoch, recorded: False)

    def trusting(before: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        if isinstance(message, Assigned):
            message = replace(message, log_end=None, truncated=False)
        return step(before, message, now_ms)

    return trusting


def what_a_table_must_hold_is_not_asked(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: a table that was put back is written on."""
    follows = chain.LinkCheck(chain.Fit.FOLLOWS)
    patch.setattr(prefix, "check_after", lambda newest, event: follows)
    return step


def parts_in_front_are_not_asked(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: of a batch that a table lost with its state, what a new coordinator reads of it is added alone."""
    real = prefix.check_before

    def hasty(
        table: TableState, recorded: PipelineProgress | None, newest: int | None, part: int, announcement: Announcement
    ) -> chain.LinkCheck:
        return real(table, recorded, newest, max(part, announcement.event.part), announcement)

    patch.setattr(prefix, "check_before", hasty)
    patch.setattr(examine, "check_before", hasty)
    return step


def what_the_log_tells_of_commits_is_not_heeded(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: a table whose record and snapshots are gone is taken for a new one, although the log tells of a
    commit."""
    real = schedule.loaded

    def deaf(turn: StepDraft, view: ExaminedTable) -> None:
        reported = turn.state.committed
        turn.set(committed={})
        real(turn, view)
        turn.set(committed=reported)

    patch.setattr(schedule, "loaded", deaf)
    return step


def a_record_that_is_gone_is_none(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 3: a table without a record is taken for a new one, whatever its snapshots say."""
    real = schedule.loaded
    patch.setattr(schedule, "loaded", lambda turn, view: real(turn, replace(view, unrecorded=None)))
    return step


def before_the_first_commit_nothing_is_known(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 10: where no snapshot of floe's is left, a rollback is not seen."""
    real = schedule.loaded

    def blind(turn: StepDraft, view: ExaminedTable) -> None:
        marker = view.snapshot_control_offset
        real(turn, replace(view, snapshot_control_offset=marker or None))

    patch.setattr(schedule, "loaded", blind)
    return step


def markers_are_taken_for_records(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 6: the newest epoch of any record vouches for markers behind it, which a later leader wrote."""

    def careless(before: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        after, effects = step(before, message, now_ms)
        return after, tuple(
            replace(each, records_end=each.offset) if isinstance(each, StoreLowWater) else each for each in effects
        )

    return careless


def changes_by_key_are_left_out(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 13: rows are added, and those that they replace stay."""
    real = prefix.take_prefix
    patch.setattr(schedule, "take_prefix", lambda *given: replace(real(*given), keyed=()))
    return step


def changes_by_key_share_a_commit(patch: pytest.MonkeyPatch) -> w.Step:
    """Invariant 13: two batches that may change the same key go into one snapshot."""
    patch.setattr(prefix, "batch_of", lambda event: ("", "", 0))
    return step


@dataclass(frozen=True)
class Case:
    mutate: Patch
    world: Callable[[], w.World]
    scope: Scope


QUIET = Scope((), takeovers=1, coordinator_crashes=0, worker_crashes=0, unknown_outcomes=0)
TWO = replace(QUIET, takeovers=2)
UNKNOWN = replace(QUIET, unknown_outcomes=1)
CASES = [
    Case(chain_is_not_checked, gap, QUIET),
    Case(a_successor_reads_from_the_low_water_mark, gap_above_the_low_water_mark, QUIET),
    Case(what_waits_of_a_broken_chain_is_kept, gap_that_was_settled, TWO),
    Case(settled_offsets_are_not_heeded, gap_that_was_settled, QUIET),
    Case(a_pause_ends_with_its_coordinator, paused_and_read_on, TWO),
    Case(progress_passes_what_was_not_kept, paused_for_a_while, replace(QUIET, undrained_files=1)),
    Case(what_was_not_kept_is_forgotten, paused_for_a_while, replace(QUIET, undrained_files=1)),
    Case(topic_ids_are_not_compared, recreated_source, QUIET),
    Case(progress_reaches_the_position, two_interleaved, replace(QUIET, commit_files=1)),
    Case(complete_batches_overtake, two_interleaved, replace(QUIET, every_record=True)),
    Case(parts_are_divided, in_parts, replace(QUIET, commit_files=1)),
    Case(recorded_progress_is_ignored, one_after_the_other, TWO),
    Case(commits_are_not_conditional, one_after_the_other, TWO),
    Case(changes_by_key_are_left_out, changed_by_key, QUIET),
    Case(changes_by_key_share_a_commit, changed_by_key, replace(QUIET, commit_files=3)),
    Case(the_tables_record_is_not_asked, repeat_unknown_to_the_chain, QUIET),
    Case(reading_begins_at_the_end, one_after_the_other, QUIET),
    Case(low_water_is_the_position, one_after_the_other, QUIET),
    Case(no_proof_is_asked_for, beginning_lost, QUIET),
    Case(a_late_log_start_is_ignored, beginning_lost_above_low_water, QUIET),
    Case(the_stored_topic_id_is_ignored, position_of_another_topic, QUIET),
    Case(progress_elsewhere_is_ignored, filled_by_another_cluster, QUIET),
    Case(an_unknown_outcome_counts_as_success, one_after_the_other, UNKNOWN),
    Case(a_blocked_table_gives_up, table_missing, QUIET),
    Case(everything_that_waits_is_given_up, given_up_before_a_newer_announcement, QUIET),
    Case(what_was_given_up_below_the_mark_is_missed, edges.first_part_given_up, QUIET),
    Case(what_was_given_up_goes_by_its_name_alone, edges.first_part_given_up_under_another_name, QUIET),
    Case(what_is_read_again_below_the_mark_is_missed, edges.read_again_below_the_mark, QUIET),
    Case(what_is_read_again_frees_whatever_came_before, edges.read_again_behind_what_was_lost, QUIET),
    Case(the_rest_of_a_batch_is_not_asked, edges.first_part_given_up_and_put_back, QUIET),
    Case(a_repeat_is_taken_for_the_newest, edges.repeated_for_another_table, QUIET),
    Case(queues_go_by_name, edges.two_names_of_one_table, QUIET),
    Case(batches_are_divided_between_names, edges.two_names_in_one_batch, replace(QUIET, commit_files=1)),
    Case(what_was_given_up_is_forgotten, edges.given_up_and_read_from_its_start, QUIET),
    Case(ends_of_another_topic_stay, edges.made_anew_and_grown, QUIET),
    Case(markers_are_taken_for_records, edges.another_leader_inside_a_transaction, TWO),
    Case(a_log_that_was_cut_off_is_read_on, edges.cut_off_and_written_anew, QUIET),
    Case(what_a_table_must_hold_is_not_asked, edges.put_back_to_an_older_state, QUIET),
    Case(parts_in_front_are_not_asked, edges.put_back_inside_a_batch, QUIET),
    Case(what_the_log_tells_of_commits_is_not_heeded, edges.record_and_snapshots_taken_away, QUIET),
    Case(a_record_that_is_gone_is_none, edges.record_taken_away, QUIET),
    Case(before_the_first_commit_nothing_is_known, edges.rolled_back_to_before_the_first_commit, QUIET),
]


def search(case: Case, step: w.Step) -> Outcome:
    return explore(case.scope, step, most_states=20_000, world=case.world())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mutate.__name__)
def test_the_rule_is_needed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real code has no fault in this world; with the rule taken out a fault is found."""
    sound = search(case, step)
    assert (sound.fault, sound.path) == (None, [])
    assert sound.complete
    with monkeypatch.context() as patch:
        broken = search(case, case.mutate(patch))
    assert broken.fault is not None

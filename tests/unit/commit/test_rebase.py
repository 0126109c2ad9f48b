"""Taking a pipeline over: what is refused, what is decided, and that no record comes twice or is lost by it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.commit.events.event_types import Accounting, DataWritten, SourceRange, TableCommitPolicy
from framework.commit.machine.effects import PipelineProgress, TableProgress
from framework.commit.machine.progress.chain import Fit, check_recorded, record
from framework.commit.machine.progress.recorded import elsewhere, merge, parse
from framework.commit.offsets import PartitionFacts, SafeOffset, plan_ends
from framework.commit.recovery.held import ends_of, held_by, held_ends, next_cut, taken_over, without_elsewhere
from framework.commit.recovery.rebase import RebaseChoice, RebaseFacts, plan_rebase, read_next
from framework.errors import DataLossError, StateDisagreement

OLD, NEW, SRC = "old-control", "new-control", "src-id"
KEYS = (("orders", 0), ("orders", 1))


def progress(batch: int, zero: int, one: int, topic_id: str = SRC) -> PipelineProgress:
    return PipelineProgress(batch, {"orders": {"0": zero, "1": one}}, {"orders": topic_id})


def held(table: str, found: PipelineProgress | None, topic_id: str = OLD):  # type: ignore[no-untyped-def]
    return held_by(table, None if found is None else merge(None, TableProgress(topic_id, 9, {"p": found})), "p")


def facts(*tables: object, start: int = 0, end: int = 100, topic_id: str = SRC, group: int | None = 60) -> RebaseFacts:
    return RebaseFacts(
        pipeline="p",
        cluster_id="cluster",
        control_topic="control",
        control_topic_id=NEW,
        partitions=dict.fromkeys(KEYS, PartitionFacts(topic_id, start, end)),
        group={} if group is None else dict.fromkeys(KEYS, SafeOffset(group, SRC, 6, Accounting(offsets=120), "r")),
        announced={},
        broken="",
        tables=tables,  # type: ignore[arg-type]
        waiting=(),
        batch=6,
        totals=Accounting(offsets=120),
    )


def test_a_pipeline_goes_on_behind_the_table_that_holds_least() -> None:
    """Everything that some table lacks is read again; each table keeps its record, under the new control topic's id."""
    plan = plan_rebase(facts(held("db.t", progress(5, 50, 40)), held("db.u", progress(3, 30, 40))), RebaseChoice())
    assert {(p.partition, p.after) for p in plan.partitions} == {(0, 30), (1, 40)}
    assert [(t.table, t.after.batch, ends_of(t.after)) for t in plan.tables] == [
        ("db.t", 7, {KEYS[0]: 50, KEYS[1]: 40}),
        ("db.u", 7, {KEYS[0]: 30, KEYS[1]: 40}),
    ]
    assert (plan.read_again, plan.lost, plan.settled) == (20, 0, False)
    assert plan.former_control_topic_ids == (OLD,)
    assert [(p.tables_least, p.tables_most) for p in plan.partitions] == [(30, 50), (40, 40)]
    assert [t.former_batch for t in plan.tables] == [5, 3]
    event = plan.event("r", 1)
    assert [(r.partition, r.start, r.end, r.topic_id) for r in event.ranges] == [(0, 30, 30, SRC), (1, 40, 40, SRC)]
    assert event.batch == 7


def test_of_records_under_several_control_topics_the_newest_batch_counts() -> None:
    """A table that went through two control topics holds what the later batch says."""
    older = merge(None, TableProgress("z-older", 9, {"p": progress(2, 20, 20)}))
    both = merge(older, TableProgress(OLD, 9, {"p": progress(5, 50, 40)}))
    found = held_by("db.t", both, "p")
    assert found.newest is not None
    assert (found.newest.batch, found.ends) == (5, {KEYS[0]: 50, KEYS[1]: 40})


def test_the_document_keeps_to_its_schema() -> None:
    """What `floe rebase --json` prints of a plan is what the published schema promises."""
    plan = plan_rebase(facts(held("db.t", progress(5, 50, 40))), RebaseChoice())
    schema = json.loads((Path(__file__).parents[3] / "schemas" / "recovery.v1.schema.json").read_text())
    document = {"command": "rebase", "ok": True, "dry_run": True, "done": False, "plan": asdict(plan)}
    jsonschema.validate(json.loads(json.dumps(document)), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "plan": {}}, schema)


def test_a_quiet_table_holds_nothing_back_once_a_person_says_so() -> None:
    """`--complete`: reading goes on behind the others, and the quiet table records that it lacks nothing until
    there."""
    quiet, busy = held("db.quiet", progress(1, 1, 1)), held("db.t", progress(5, 50, 40))
    plan = plan_rebase(facts(quiet, busy), RebaseChoice(complete=("db.quiet",)))
    assert {(p.partition, p.after) for p in plan.partitions} == {(0, 50), (1, 40)}
    assert ends_of(plan.tables[0].after) == {KEYS[0]: 50, KEYS[1]: 40}


def test_a_batch_that_waits_is_read_again_whole() -> None:
    """A table that holds a part of what waits for it, by a request that came late, reads it again from its beginning, in
    all its partitions; what waits elsewhere moves nothing."""
    waits = tuple(
        SourceRange(key[0], SRC, key[1], start, end) for key, start, end in zip(KEYS, (45, 30), (60, 40), strict=True)
    )
    beyond = tuple(SourceRange(key[0], SRC, key[1], 70, 80) for key in KEYS)
    former = tuple(SourceRange(key[0], "former", key[1], 45, 60) for key in KEYS)
    known = facts(held("db.t", progress(5, 50, 40)))
    assert {p.after for p in plan_rebase(replace(known, pending=(beyond, former)), RebaseChoice()).partitions} == {
        50,
        40,
    }
    plan = plan_rebase(replace(known, pending=(beyond, waits)), RebaseChoice())
    assert [p.after for p in plan.partitions] == [45, 30]
    assert ends_of(plan.tables[0].after) == {KEYS[0]: 50, KEYS[1]: 40}


def test_nothing_is_settled_twice() -> None:
    """Where tables, group and log agree there is nothing to do."""
    announced = {key: SourceRange(key[0], SRC, key[1], 60, 60) for key in KEYS}
    sound = replace(facts(held("db.t", progress(5, 50, 40), NEW)), announced=announced)
    assert plan_rebase(sound, RebaseChoice()).settled
    assert not plan_rebase(replace(sound, broken="a gap"), RebaseChoice()).settled
    assert not plan_rebase(replace(sound, group={}), RebaseChoice()).settled
    assert not plan_rebase(facts(held("db.t", progress(5, 50, 40))), RebaseChoice()).settled
    assert plan_rebase(replace(sound, chain_batch=5), RebaseChoice()).settled
    # A run began in the middle of a rebase: one table is under its batch already, and the chain is not.
    assert not plan_rebase(replace(sound, chain_batch=4), RebaseChoice()).settled


def test_what_tables_record_of_replayed_dead_letters_is_filed_anew_as_it_is() -> None:
    """A replay counts letters and no topic's offsets: its record moves under the present id, and only then all is
    settled."""
    letters = PipelineProgress(4, {"dead-letters:db.dead": {"0": 12}}, {"dead-letters:db.dead": "replay"})
    text = merge(None, TableProgress(OLD, 9, {"p.replay": letters}))
    sound = replace(facts(group=None), batch=0)
    assert plan_rebase(sound, RebaseChoice()).settled

    plan = plan_rebase(replace(sound, replays=(held_by("db.marks", text, "p.replay"),)), RebaseChoice())

    assert (plan.settled, plan.former_control_topic_ids) == (False, (OLD,))
    assert [(t.table, t.former_control_topic_ids, t.after) for t in plan.replays] == [("db.marks", (OLD,), letters)]
    after = without_elsewhere(text, "p.replay", taken_over(text, "p.replay", NEW, plan.replays[0].after))
    assert elsewhere(after, NEW) == {}
    again = plan_rebase(replace(sound, replays=(held_by("db.marks", after, "p.replay"),)), RebaseChoice())
    assert (again.settled, again.replays) == (True, ())


@pytest.mark.parametrize(
    ("known", "choice", "code", "said"),
    [
        (facts(held("db.t", progress(5, 50, 40)), held("db.u", None)), RebaseChoice(), "FLOE-R351", "db.u"),
        (facts(held("db.t", progress(5, 50, 40)), start=45), RebaseChoice(), "FLOE-R352", "40 to 44"),
        (facts(held("db.t", progress(5, 50, 40)), end=45), RebaseChoice(), "FLOE-R317", "ends at 45"),
        (facts(held("db.t", progress(5, 50, 40)), topic_id="x"), RebaseChoice(), "FLOE-R316", "src-id, now it is x"),
        (
            facts(held("db.t", progress(5, 50, 40))),
            RebaseChoice(begin=dict.fromkeys(KEYS, 0)),
            "FLOE-R350",
            "twice",
        ),
        (
            facts(held("db.t", progress(5, 50, 40)), held("db.u", progress(5, 40, 50))),
            RebaseChoice(),
            "FLOE-R353",
            "one history",
        ),
        (
            facts(held("db.t", PipelineProgress(5, {"gone": {"0": 9}}, {"gone": "g"}))),
            RebaseChoice(),
            "FLOE-R315",
            "gone-0",
        ),
    ],
)
def test_what_cannot_be_known_is_refused(known: RebaseFacts, choice: RebaseChoice, code: str, said: str) -> None:
    """Each refusal names both values and has a remedy."""
    with pytest.raises(StateDisagreement, match=said) as caught:
        plan_rebase(known, choice)
    assert caught.value.code == code
    assert caught.value.remedy


def test_records_that_retention_removed_are_counted_when_a_person_goes_on() -> None:
    """`--allow-loss` goes on where the topic begins and says how many records are gone."""
    known = facts(held("db.t", progress(5, 50, 40)), start=45)
    plan = plan_rebase(known, RebaseChoice(allow_loss=True))
    assert {(p.partition, p.after) for p in plan.partitions} == {(0, 50), (1, 45)}
    assert plan.lost == 5
    assert plan.event("r", 1).lost == 5
    with pytest.raises(DataLossError):
        plan_rebase(known, RebaseChoice())


def test_another_cluster_with_other_records_begins_where_it_is_asked_to() -> None:
    """`--begin-at`: what the tables record is filed under the new ids, at the new beginning."""
    known = facts(held("db.t", progress(5, 50, 40)), topic_id="x", group=None)
    plan = plan_rebase(known, RebaseChoice(begin={KEYS[0]: 3, KEYS[1]: 0}))
    assert ends_of(plan.tables[0].after) == {KEYS[0]: 3, KEYS[1]: 0}
    assert plan.tables[0].after.topic_ids == {"orders": "x"}
    assert plan.base_batch == plan.batch == 7
    same = plan_rebase(known, RebaseChoice(same_offsets=True))
    assert ends_of(same.tables[0].after) == {KEYS[0]: 50, KEYS[1]: 40}
    assert same.tables[0].after.topic_ids == {"orders": "x"}


def test_the_property_is_moved_and_others_keep_theirs() -> None:
    """Only this pipeline leaves the other control topics' entries; the entry of the present one keeps its offset."""
    before = merge(None, TableProgress(OLD, 9, {"p": progress(5, 50, 40), "q": progress(1, 1, 1)}))
    before = merge(before, TableProgress(NEW, 4, {"r": progress(2, 2, 2)}))
    after = without_elsewhere(before, "p", taken_over(before, "p", NEW, progress(7, 50, 40)))
    here, there = parse(after, NEW), parse(after, OLD)
    assert here is not None
    assert there is not None
    assert (here.control_offset, sorted(here.pipelines)) == (4, ["p", "r"])
    assert (there.control_offset, sorted(there.pipelines)) == (9, ["q"])
    assert elsewhere(after, NEW) == {"q": OLD}
    assert held_ends(after, NEW, "p", 0) == {KEYS[0]: 50, KEYS[1]: 40}
    assert held_ends(after, NEW, "p", 8) == {}
    again = without_elsewhere(after, "p", taken_over(after, "p", NEW, progress(7, 50, 40)))
    assert again == after


def test_a_batch_that_lies_half_in_what_a_table_holds_fits_nowhere() -> None:
    """Why batches are cut: uncut it is refused by the table that holds its first half; cut there, each half fits."""
    start, end = {KEYS[0]: 10}, {KEYS[0]: 40}
    holds = PipelineProgress(7, {"orders": {"0": 30}}, {"orders": SRC})
    assert check_recorded(holds, _written(8, start, end)).fit is Fit.BROKEN
    cut = next_cut(start, [ends_of(holds), {KEYS[0]: 10}])
    assert cut == {KEYS[0]: 30}
    assert check_recorded(holds, _written(8, start, cut)).fit is Fit.REPEAT
    assert check_recorded(holds, _written(9, cut, end)).fit is Fit.FOLLOWS
    assert next_cut(cut, [ends_of(holds)]) is None


@settings(max_examples=300)
@given(st.data())
def test_every_record_is_in_each_table_once_after_a_loss_of_the_control_topic(data: st.DataObject) -> None:
    """Whatever batches were made, whatever each table had of them, however the batches are cut again: exactly once."""
    keys = [("orders", p) for p in range(data.draw(st.integers(1, 3)))]
    ends = dict.fromkeys(keys, 0)
    batches: list[DataWritten] = []
    for batch in range(1, data.draw(st.integers(1, 6)) + 1):
        after = {key: end + data.draw(st.integers(0, 4)) for key, end in ends.items()}
        batches.append(_written(batch, ends, after))
        ends = after
    tables: dict[str, dict[str, PipelineProgress]] = {}
    rows: dict[str, Counter[tuple[str, int, int]]] = {}
    for table in ("db.t", "db.u", "db.v"):
        taken = batches[: data.draw(st.integers(1, len(batches)))]
        tables[table] = record({}, taken)
        rows[table] = Counter(offset for event in taken for offset in _offsets(event))
    known = RebaseFacts(
        "p",
        "cluster",
        "control",
        NEW,
        {key: PartitionFacts(SRC, 0, end) for key, end in ends.items()},
        {},
        {},
        "",
        tuple(held_by(t, merge(None, TableProgress(OLD, 9, p)), "p") for t, p in tables.items()),
        (),
        len(batches),
        Accounting(),
    )
    plan = plan_rebase(known, RebaseChoice())
    tables = {t.table: {"p": t.after} for t in plan.tables}
    positions = {(p.topic, p.partition): p.after for p in plan.partitions}
    recorded = [ends_of(t.after) for t in plan.tables]
    batch, most = plan.batch, data.draw(st.integers(1, 5))
    while positions != ends:
        cut = next_cut(positions, recorded)
        wanted = ends if cut is None else {key: min(ends[key], cut[key]) for key in ends}
        after = plan_ends(positions, wanted, most)
        assert after != positions
        batch += 1
        event = _written(batch, positions, after)
        for table, found in tables.items():
            verdict = check_recorded(found["p"], event)
            assert verdict.fit is not Fit.BROKEN, verdict.reason
            if verdict.fit is Fit.FOLLOWS:
                tables[table] = record(found, [event])
                rows[table].update(_offsets(event))
        positions = after
    everything = {(topic, p, offset) for (topic, p), end in ends.items() for offset in range(end)}
    assert all(found == Counter(everything) for found in rows.values())


def _written(batch: int, start: dict[tuple[str, int], int], end: dict[tuple[str, int], int]) -> DataWritten:
    ranges = tuple(SourceRange(key[0], SRC, key[1], start[key], end[key]) for key in sorted(end))
    return DataWritten("p", "r", batch, "db.t", "uuid", 0, (), ranges, TableCommitPolicy(1, 1, 1))


def _offsets(event: DataWritten) -> list[tuple[str, int, int]]:
    return [(r.topic, r.partition, offset) for r in event.ranges for offset in range(r.start, r.end)]


def _set_by_hand(offset: int, batch: int = 6) -> dict[tuple[str, int], SafeOffset]:
    return dict.fromkeys(KEYS, SafeOffset(offset, SRC, batch, Accounting(offsets=120), "r", 6))


def test_what_a_person_let_be_read_again_is_read_again() -> None:
    """`floe offsets set` moved back behind what tables record, and nothing was read since: the pipeline goes on there, and
    each table takes it. Moved forward, what some table lacks is read."""
    known = facts(held("db.t", progress(5, 50, 40)), held("db.u", progress(3, 30, 40)))
    back = plan_rebase(replace(known, group=_set_by_hand(10)), RebaseChoice())
    assert {(p.partition, p.after) for p in back.partitions} == {(0, 10), (1, 10)}
    assert [ends_of(t.after) for t in back.tables] == [dict.fromkeys(KEYS, 10)] * 2
    assert back.read_again == 70
    assert {t: {(r.partition, r.start) for r in ranges} for t, ranges in read_next(known, back).items()} == {
        "db.t": {(0, 10), (1, 10)},
        "db.u": {(0, 10), (1, 10)},
    }
    forward = plan_rebase(replace(known, group=_set_by_hand(60)), RebaseChoice())
    assert {(p.partition, p.after) for p in forward.partitions} == {(0, 30), (1, 40)}


def test_a_table_without_a_batch_since_offsets_were_set_asks_a_person() -> None:
    """Once the pipeline has read on, no place says from where it was let read again. A table that shows nothing of it lacks
    nothing (`--complete`), or all is read (`--from-log-start`); one with a batch since then counts by its record."""
    quiet, busy = held("db.quiet", progress(5, 50, 40)), held("db.t", progress(7, 20, 20))
    known = replace(facts(quiet, busy), group=_set_by_hand(20, batch=7))
    with pytest.raises(StateDisagreement) as refused:
        plan_rebase(known, RebaseChoice())
    assert refused.value.code == "FLOE-R351"
    assert "--complete db.quiet" in refused.value.remedy
    plan = plan_rebase(known, RebaseChoice(complete=("db.quiet",)))
    assert {(p.partition, p.after) for p in plan.partitions} == {(0, 20), (1, 20)}
    plan = plan_rebase(known, RebaseChoice(from_log_start=True))
    assert {(p.partition, p.after) for p in plan.partitions} == {(0, 0), (1, 0)}

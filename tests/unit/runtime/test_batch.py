"""A batch's reports become its announcement, or an error that stops it before anything is announced."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from framework.commit.events.event_types import Accounting, DataComplete, DataFile, DataWritten, SourceRange
from framework.config.spec import (
    CommitPolicy,
    ErrorPolicy,
    KafkaSourceSpec,
    LoadedPipeline,
    PipelineSpec,
    RouteRule,
    RoutesSpec,
    SourceSpec,
    TablePolicy,
    TablesSpec,
    TargetSpec,
)
from framework.errors import AccountingError, RecordError, TooManyDeadLetters
from framework.plan.compile import compile_plan
from framework.plan.explain import plan_to_json
from framework.plan.model import Plan
from framework.record.model import DeadLetter, TaskRange, TaskRangeReport, TaskReport
from framework.runtime.batches.batch import BatchScope, summarise, summarise_gaps

IDS = {"t": "id-t"}


def plan(**write: object) -> Plan:
    spec = PipelineSpec("p", SourceSpec(KafkaSourceSpec("main", ("t",))), RoutesSpec((RouteRule("a.b"),)))
    made = compile_plan(LoadedPipeline("p.yaml", spec, TargetSpec("local", {"main": {}}, {"default": {}})))
    return replace(made, write=replace(made.write, **write))  # type: ignore[arg-type]


def scope(end: int = 100) -> BatchScope:
    return BatchScope("run", 3, {("t", 0): 10, ("t", 1): 5}, {("t", 0): end, ("t", 1): 5}, IDS)


def report(start: int, end: int, files: int = 1, schema_id: int = 0, **counts: int) -> TaskReport:
    counts = {"written": end - start, "filtered": 0, "dead_lettered": 0, "dropped": 0, "holes": 0} | counts
    piece = TaskRangeReport(TaskRange("t", "id-t", 0, start, end), max_timestamp_ms=end, **counts)
    made = [DataFile(f"f{start}-{i}", counts["written"] // max(1, files), 10, 0) for i in range(files)]
    return TaskReport((piece,), {"a.b": made}, {"a.b": ("uuid", schema_id)}, {"a.b": counts["written"]}, {})


def test_reports_become_one_announcement() -> None:
    """All files of a table are announced in one event, and the batch's end carries every partition and the sum."""
    result = summarise(plan(), scope(), [report(10, 60), report(60, 100)], Accounting(5, 5, rows=5))

    written, complete = result.events
    assert isinstance(written, DataWritten)
    assert isinstance(complete, DataComplete)
    assert [f.path for f in written.files] == ["f10-0", "f60-0"]
    assert [(r.partition, r.start, r.end, r.max_timestamp_ms) for r in complete.ranges] == [
        (0, 10, 100, 100),
        (1, 5, 5, None),
    ]
    assert complete.accounting == Accounting(90, 90, rows=90)
    assert complete.totals == Accounting(95, 95, rows=95)
    assert complete.tables == ("a.b",)


def test_no_record_is_newer_than_the_moment_at_which_it_was_read() -> None:
    """A record dated ahead of the clock promises nothing about the time until then: freshness, data age and silence would be
    those of its date for as long."""
    made = replace(scope(), planned_ms=70)
    complete = summarise(plan(), made, [report(10, 60), report(60, 100)], Accounting()).events[-1]
    assert isinstance(complete, DataComplete)
    assert [r.max_timestamp_ms for r in complete.ranges] == [70, None]


def test_files_of_two_schemas_are_parts_of_one_set() -> None:
    """Tasks that wrote before and after a change of the schema are announced as numbered parts of one announcement."""
    result = summarise(plan(), scope(), [report(10, 60), report(60, 100, schema_id=1)], Accounting())

    parts = [e for e in result.events if isinstance(e, DataWritten)]
    assert [(e.schema_id, e.part, e.parts) for e in parts] == [(0, 0, 2), (1, 1, 2)]


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_rows_that_no_file_holds_stop_the_batch(lost: int) -> None:
    """Rows written by another task than the one that counted them are announced if the files hold all of them."""
    reader = replace(report(10, 100), files={}, targets={})
    file = DataFile("f", 90 - lost, 10, 0)
    writer = TaskReport((), {"a.b": [file]}, {"a.b": ("uuid", 0)}, {}, {})

    if lost:
        words = "hold 1 row fewer" if lost > 0 else "hold 1 row more"
        with pytest.raises(AccountingError, match=words):
            summarise(plan(), scope(), [reader, writer], Accounting())
    else:
        result = summarise(plan(), scope(), [reader, writer], Accounting())
        assert result.accounting == Accounting(90, 90, rows=90)
        assert result.rows == {"a.b": 90}


@pytest.mark.parametrize(
    "reports",
    [
        [report(10, 60)],
        [report(10, 60), report(61, 100)],
        [report(10, 60), report(50, 100)],
        [report(10, 100), report(100, 110)],
        [],
    ],
    ids=["short", "gap", "overlap", "beyond", "nothing"],
)
def test_slices_must_cover_the_ranges(reports: list[TaskReport]) -> None:
    """Slices that do not cover the batch's ranges exactly stop the batch."""
    with pytest.raises(AccountingError):
        summarise(plan(), scope(), reports, Accounting())


def test_a_sum_that_is_off_stops_the_batch() -> None:
    """Invariant 8: a record that is in no category stops the batch."""
    with pytest.raises(AccountingError, match="accounts for"):
        summarise(plan(), scope(), [report(10, 100, written=89)], Accounting())


@pytest.mark.parametrize("less", ["filtered", "holes", "dropped", "dead_lettered"])
def test_a_negative_count_stops_the_batch(less: str) -> None:
    """Invariant 8: a sum that holds because one of its parts is below zero is two errors that cancel out."""
    with pytest.raises(AccountingError, match="accounts for"):
        summarise(plan(), scope(), [report(10, 100, written=120, **{less: -30})], Accounting())


def test_dead_letters_past_the_limit_stop_the_batch() -> None:
    """`errors.max_ratio` and `max_count` stop a pipeline before the batch is announced, with an exit code of their
    own."""
    bad = report(10, 2010, written=1900, dead_lettered=100)

    with pytest.raises(TooManyDeadLetters, match=r"100 of 2,000 records.*max_ratio") as caught:
        summarise(plan(max_error_ratio=0.01), scope(2010), [bad], Accounting())
    assert caught.value.exit_code == 8
    with pytest.raises(TooManyDeadLetters, match="max_count"):
        summarise(plan(max_error_count=99), scope(2010), [bad], Accounting())
    assert summarise(plan(max_error_ratio=0.06, max_error_count=100), scope(2010), [bad], Accounting()).rows


def test_policy_fail_names_the_record() -> None:
    """The first record that the policy `fail` stops at is named with topic, partition, offset and reason."""
    letter = DeadLetter("t", 0, 42, 0, None, b"x", [], "decode", "FLOE-D101", "not JSON")
    failed = replace(report(10, 100), failure=letter)

    with pytest.raises(RecordError, match="not JSON") as caught:
        summarise(plan(errors=ErrorPolicy.FAIL), scope(), [failed], Accounting())
    assert caught.value.place == "t-0 offset 42"
    assert "not JSON" not in caught.value.reported
    assert "t-0 offset 42" in caught.value.reported


def test_a_gap_is_a_batch_of_its_own_and_the_sum_names_it() -> None:
    """What retention removed is announced without files, every offset of it lost, and the sum of invariant 8 holds."""
    gap = SourceRange("t", "id-t", 0, 10, 100)

    result = summarise_gaps(plan(), scope(), (gap,), Accounting(10, 10, rows=10))

    (complete,) = result.events
    assert isinstance(complete, DataComplete)
    assert complete.gaps == (gap,)
    assert complete.tables == ()
    assert complete.accounting == Accounting(offsets=90, lost=90)
    assert complete.accounting.difference == 0
    assert complete.totals == Accounting(100, 10, rows=10, lost=90)
    assert [(r.partition, r.start, r.end, r.max_timestamp_ms) for r in complete.ranges] == [
        (0, 10, 100, None),
        (1, 5, 5, None),
    ]
    assert "90 lost" in str(complete.accounting)
    assert "lost" not in str(Accounting(5, 5))


HOURLY = replace(TablePolicy(), commit=CommitPolicy(3_600_000, max_bytes=77, max_rows=5, branch="audit"))
DAILY = replace(TablePolicy(), commit=CommitPolicy(86_400_000))


@pytest.mark.parametrize(
    "tables",
    [
        TablesSpec(),
        TablesSpec(defaults=HOURLY),
        TablesSpec(defaults=DAILY, overrides=(("a.*", HOURLY),)),
        TablesSpec(defaults=HOURLY, overrides=(("other.*", DAILY),)),
    ],
    ids=["nothing said", "defaults", "an override", "an override of others"],
)
def test_a_table_is_committed_as_the_plan_prints(tables: TablesSpec) -> None:
    """What `floe plan` prints of a table's commits is what its files are announced with, however the plan came
    about."""
    changed = plan(tables=tables)
    printed = json.loads(json.dumps(plan_to_json(changed)))["steps"]
    wrote, commits = (next(step for step in printed if step["step"] == name) for name in ("WriteFiles", "CommitTables"))
    assert commits["tables"] == wrote["tables"]
    assert commits["catalog"] == wrote["tables"]["defaults"]["catalog"]
    shown = dict(commits["tables"]["overrides"]).get("a.*", commits["tables"]["defaults"])["commit"]

    written = summarise(changed, scope(), [report(10, 100)], Accounting()).events[0]

    assert isinstance(written, DataWritten)
    assert asdict(written.commit) == {name: shown[name] for name in ("interval_ms", "max_bytes", "max_rows", "branch")}

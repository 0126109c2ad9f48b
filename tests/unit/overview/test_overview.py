"""The control log folded for people: what is in trouble comes first, and what waits is counted to the record."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from framework.cli.watch.top_text import screen
from framework.commit.events.event_types import (
    Accounting,
    Acted,
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    Discarded,
    Health,
    Holds,
    PauseChanged,
    SourceRange,
    StateChanged,
    Subject,
    TableCommitPolicy,
    TableMeasured,
)
from framework.commit.maintenance.health import Need, TableHealth
from framework.diagnose.whole_commands import ReaderPlace
from framework.overview.build import Built, overview
from framework.overview.fold import ENTRIES, LogFold
from framework.overview.values import AnnouncementOutcome, BrokerSeen, Overview, PartitionView, PipelineFactsSeen

NOW_MS = 1_800_000_000_000
POLICY = TableCommitPolicy(60_000, 1 << 30, 1_000_000)


def written(table: str, batch: int, rows: int = 10, schema_id: int = 0, uuid: str = "") -> DataWritten:
    file = DataFile(f"s3://x/{table}-{batch}.parquet", rows, 2_048, 0)
    ranges = (SourceRange("orders", "id", 0, batch * 10, batch * 10 + 10),)
    return DataWritten("p", "run-1", batch, table, uuid or f"uuid-{table}", schema_id, (file,), ranges, POLICY)


def complete(batch: int) -> DataComplete:
    ranges = (SourceRange("orders", "id", 0, batch * 10, batch * 10 + 10),)
    return DataComplete("p", "run-1", batch, ranges, Accounting(10, 9, dead_lettered=1, rows=9), Accounting(10 * batch))


def committed(table: str, below: int, snapshot_id: int = 7) -> CommitToTable:
    return CommitToTable(table, f"uuid-{table}", snapshot_id, "c", below, 10, 1, NOW_MS)


def reported(table: str, state: Health, reason: str, at_ms: int = NOW_MS) -> StateChanged:
    return StateChanged(Subject.TABLE, table, state, reason, "do this", "FLOE-R136", 1, at_ms - 60_000, at_ms, "c")


def measured(table: str, gain_files: int, at_ms: int = NOW_MS) -> TableMeasured:
    health = TableHealth(400, 390, 10**8, 10**6, 0, 0, 3, 9_000, 12, None, gain_files, 10**7, {"1MiB": 390, "8MiB": 10})
    return TableMeasured(table, health, at_ms, "c")


def folded(*events: ControlEvent) -> LogFold:
    fold = LogFold()
    for offset, event in enumerate(events):
        fold.observe(offset, event, NOW_MS)
    return fold


def seen(fold: LogFold, owner: str | None = "coordinator-1", runs: tuple[str, ...] = ("run-1",)) -> Overview:
    facts = PipelineFactsSeen(runs, (PartitionView("orders", 0, 20, 25, 5),))
    broker = BrokerSeen(NOW_MS, owner, fold.position, fold.low_water, {"p": facts})
    return overview(fold, broker, Built(), NOW_MS, 1, ReaderPlace("prod", "control-iceberg"))


def text(found: Overview, rows: int | None = None, width: int = 140) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(screen(found, NOW_MS, width, rows))
    return out.getvalue()


def test_what_is_announced_waits_until_a_commit_says_that_it_is_in() -> None:
    """Rows of announcements at or behind a commit's control offset wait, those below it are in; to the record."""
    fold = folded(written("a.t", 1), complete(1), written("a.t", 2, rows=3), complete(2), committed("a.t", 2))
    [table] = seen(fold).tables
    assert (table.waiting.announcements, table.waiting.rows, table.snapshot_id) == (1, 3, 7)
    assert [each.outcome for each in table.timeline] == [
        AnnouncementOutcome.SNAPSHOT,
        AnnouncementOutcome.WAITING,
        AnnouncementOutcome.COMMITTED,
    ]
    assert (table.hour.commits, table.hour.files, table.hour.bytes) == (1, 2, 4_096)


def test_a_low_water_mark_settles_what_no_commit_was_reported_of() -> None:
    """A coordinator that died before it told of a commit left the mark: what stands below it does not wait."""
    fold = folded(written("a.t", 1), complete(1), CommitComplete("c", 2, NOW_MS, position=2))
    [table] = seen(fold).tables
    assert table.waiting.announcements == 0


def test_a_commit_under_another_name_of_the_table_counts_for_both() -> None:
    """One physical table under two names: the uuid says that they are one."""
    fold = folded(written("a.T", 1, uuid="uuid-a.t"), written("a.t", 1), committed("a.t", 2))
    assert [table.waiting.announcements for table in seen(fold).tables] == [0, 0]


def test_what_a_person_gave_up_waits_no_more() -> None:
    """A `Discarded` takes its announcements, and no other, out of what waits; the timeline says so."""
    given_up = Discarded("a.t", 0, 1, 1, 1, {"p": 10}, "gone", NOW_MS, ("uuid-a.t",))
    [table] = seen(folded(written("a.t", 1), written("a.t", 2, rows=3), given_up)).tables
    assert table.waiting.rows == 3
    assert [each.outcome for each in table.timeline] == [AnnouncementOutcome.WAITING, AnnouncementOutcome.GIVEN_UP]


def test_a_table_of_which_everything_was_given_up_is_gone() -> None:
    """One that never had a commit is listed nowhere once a person gave up all that waited for it, as in `floe status`; one
    that had a commit, or for which more was announced since, is there."""
    given_up = Discarded("a.t", 0, 2, 2, 2, {"p": 20}, "gone", NOW_MS, ("uuid-a.t",))
    gone = (written("a.t", 1), written("a.t", 2), given_up)
    assert seen(folded(*gone)).tables == ()
    assert [each.table for each in seen(folded(*gone, written("a.t", 3))).tables] == ["a.t"]
    assert [each.table for each in seen(folded(*gone, committed("a.t", 0))).tables] == ["a.t"]
    late = LogFold()  # whoever looks later begins below the low-water mark
    late.low_water = 3
    for offset, event in enumerate(gone):
        late.observe(offset, event, NOW_MS)
    assert [each.outcome for each in late.tables["a.t"].timeline] == [AnnouncementOutcome.GIVEN_UP] * 2
    assert seen(late).tables == ()


def test_a_commit_without_an_answer_is_unknown_not_waiting() -> None:
    """A commit that was sent and cannot be read back may be in the table: the timeline does not say that it waits."""
    fold = folded(written("a.t", 1), reported("a.t", Health.DEGRADED, "outcome unknown (timed out) and the table ..."))
    [table] = seen(fold).tables
    assert table.timeline[0].outcome is AnnouncementOutcome.UNKNOWN
    refused = folded(written("a.t", 1), reported("a.t", Health.DEGRADED, "the catalog does not answer"))
    assert seen(refused).tables[0].timeline[0].outcome is AnnouncementOutcome.WAITING


def test_a_table_shows_how_healthy_it_was_when_last_measured() -> None:
    """The newest word counts, and says why a person should maintain the table; without one nothing is said."""
    sound, sick, unknown = seen(
        folded(written("a.t", 1), measured("a.t", 150), measured("a.t", 0), written("b.t", 1), measured("b.t", 350, 9),
               written("c.t", 1))
    ).tables  # fmt: skip
    assert sound.health is not None
    assert (sound.health.gain_files, sound.needs) == (0, ())
    assert (sick.needs, sick.measured_ms) == ((Need.SMALL_FILES,), 9)
    assert (unknown.health, unknown.measured_ms, unknown.needs) == (None, None, ())


def test_a_table_that_decays_is_no_trouble_and_has_its_command_on_the_screen() -> None:
    """The states stay what they are; the screen names the tables that gain most, each with the command."""
    found = seen(folded(*(measured(f"a.t{n}", 100 * n) for n in range(6))))
    assert found.troubles == ()
    shown = text(found)
    assert "nothing is in trouble" in shown
    lines = [line.strip() for line in shown.splitlines() if "decays" in line]
    assert lines[0] == "table a.t5 decays: `floe maintain a.t5 -t prod` leaves 500 files fewer"
    assert [line.split()[1] for line in lines] == ["a.t5", "a.t4", "a.t3"]
    assert "and 2 more tables like it" in shown
    assert "390 of 400" in shown


def test_a_schema_change_names_the_batch_that_brought_it() -> None:
    """Who looks for the cause of a new column finds pipeline, batch and run."""
    [table] = seen(folded(written("a.t", 1), written("a.t", 2, schema_id=1), written("a.t", 3, schema_id=1))).tables
    [change] = table.schema_changes
    assert (change.before, change.after, change.pipeline, change.batch, change.run) == (0, 1, "p", 2, "run-1")


def test_the_most_urgent_comes_first_and_a_commit_ends_what_was_reported_before_it() -> None:
    """BLOCKED before DEGRADED, whatever the names; what a table told before its newest commit is over."""
    events = [
        written("a.degraded", 1),
        reported("a.degraded", Health.DEGRADED, "slow"),
        written("z.blocked", 1),
        CommitComplete("c", 0, NOW_MS, blocked={"z.blocked": "it was dropped"}, position=3),
    ]
    found = seen(folded(*events))
    assert [(line.name, line.condition.state) for line in found.troubles] == [
        ("z.blocked", Health.BLOCKED),
        ("a.degraded", Health.DEGRADED),
    ]
    well = replace(committed("a.degraded", 9), timestamp_ms=NOW_MS + 1)
    assert [line.name for line in seen(folded(*events, well)).troubles] == ["z.blocked"]


def test_where_the_time_of_batches_goes() -> None:
    """Phases that a run told of its batches are shown by the newest batch and by the mean of the last hour, the longest
    first; the time in which there was nothing to do is no part of what a batch took."""
    reported = [
        replace(complete(1), phase_ms={"waiting": 9_000, "writing": 3_000, "tables": 100}),
        replace(complete(2), phase_ms={"writing": 1_000, "announcing": 500}),
        complete(3),
    ]
    found = seen(folded(*reported))
    [pipeline] = found.pipelines
    assert [(each.phase, each.newest_ms, each.mean_ms) for each in pipeline.phases] == [
        ("waiting", 0, 4_500),
        ("writing", 1_000, 2_000),
        ("announcing", 500, 250),
        ("tables", 0, 50),
    ]
    assert "1.5s, writing 1.0s" in text(found)


def test_many_tables_with_one_cause_are_few_lines() -> None:
    """1,000 blocked tables are three lines, the last of which says how many more there are."""
    names = [f"a.t{number}" for number in range(1_000)]
    blocked = CommitComplete("c", 0, NOW_MS, blocked={name: f"table {name} was dropped" for name in names}, position=0)
    found = seen(folded(*(written(name, 1) for name in names), blocked))
    assert [line.others for line in found.troubles] == [0, 0, 997]
    assert len(text(found, rows=40).splitlines()) <= 40


def test_a_vanished_run_and_a_pause_are_reported_with_their_remedy() -> None:
    """A run that is gone without a word is FAILED with the command; a pause names who holds it, and why."""
    running = StateChanged(Subject.PIPELINE, "p", Health.RUNNING, "", "", "", 0, NOW_MS, NOW_MS, "run-1")
    pause = PauseChanged(Holds.COMMITS, "a.*", True, "compaction", "ann@host", NOW_MS - 5_000)
    found = seen(folded(written("a.t", 1), complete(1), running, pause), runs=())
    shown = text(found)
    assert "FAILED for 0s  pipeline p [FLOE-R138]" in shown
    assert "`floe run FILE -t prod` goes on from the safe offsets" in shown
    assert "by ann@host" in shown
    assert "floe resume --commits 'a.*'" in shown


def test_what_people_did_is_shown_with_who_and_why() -> None:
    """An act stands on the screen as the log has it, the newest first."""
    acts = [Acted(act, "a.t", "ann@host", "the disk was lost", NOW_MS) for act in ("rollback", "discard")]
    found = seen(folded(*acts))
    assert [act.act for act in found.acts] == ["discard", "rollback"]
    assert "discard a.t, by ann@host: the disk was lost" in text(found)


def test_no_name_and_no_reason_can_write_to_the_terminal() -> None:
    """Control characters of names, reasons and authors are escaped."""
    evil = "a.\x1b]0;owned\x07t"
    acted = Acted("discard", evil, "\x1b[2J", "\x1b[1A", NOW_MS)
    shown = text(seen(folded(written(evil, 1), reported(evil, Health.DEGRADED, "\x1b[31mred\nline"), acted)))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\\x1b[31mred\\nline" in shown


def test_memory_is_bounded_by_the_newest_and_by_what_waits() -> None:
    """Ten thousand batches that are committed leave a timeline of bounded length and nothing that waits."""
    fold = LogFold()
    for number in range(10_000):
        fold.observe(2 * number, written("a.t", number), NOW_MS + number * 1_000)
        fold.observe(2 * number + 1, committed("a.t", 2 * number + 1, number), NOW_MS)
    table = fold.tables["a.t"]
    assert table.waiting == {}
    assert len(table.timeline) == ENTRIES
    assert len(table.minutes.found) <= 60

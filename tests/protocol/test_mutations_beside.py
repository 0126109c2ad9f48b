"""The rules that no coordinator keeps are needed as well: without one, the tests that show its invariant fail.

Drivers keep invariants 1 and 8 and, for tables that they cannot load, 10; converters 9 and the cleaner 12. Every case
changes one function and runs tests of the suite as they are: they pass with the real code. Invariant 1's rule is taken
out on a real broker, in `tests/kafka/test_worker.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from framework.commit import file_ages
from framework.commit.events.event_types import Accounting
from framework.commit.recovery import orphans
from framework.config.spec import ErrorPolicy, EvolveMode
from framework.record import gaps
from framework.record.arrays import Ints
from framework.record.convert import numbers as convert_numbers
from framework.record.convert import times as convert_times
from framework.record.convert.iso_time import IsoTime
from framework.record.model import RecordBlock
from framework.record.state.block_state import BlockState
from framework.runtime.batches import batch as runtime_batch
from framework.table import trouble
from tests.type_cases import CASES
from tests.unit.commit import test_control_codec, test_orphans
from tests.unit.record import test_gaps, test_positions, test_process, test_values
from tests.unit.runtime import test_batch
from tests.unit.table import test_trouble

Patch = Callable[[pytest.MonkeyPatch], None]


# ---- invariant 8
# -------------------------------------------------------------------------------------------------------


def a_sum_that_is_off_is_announced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Accounting, "difference", 0)


def counts_may_be_negative(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime_batch, "_adds_up", lambda line: line.difference == 0)


def coverage_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runtime_batch, "_check_coverage", lambda scope, reports: None)


def a_record_that_fails_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """As peers do with a record that they cannot read: neither written nor counted."""
    patch.setattr(BlockState, "fail", lambda self, position, failure: None)


def offsets_need_not_ascend(patch: pytest.MonkeyPatch) -> None:
    """Holes are what is left of the slice, as a counting reader has it."""

    def count(self: gaps.Tally, block: RecordBlock) -> None:
        self.records += len(block)

    def difference(self: gaps.Tally) -> None:
        self.holes = self._task_range.end - self._task_range.start - self.records

    patch.setattr(gaps.Tally, "add", count)
    patch.setattr(gaps.Tally, "end", difference)


def gaps_are_taken_for_holes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gaps.Tally, "to_look_at", lambda self, known, looks, chance: [])


def what_the_reader_got_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(test_gaps, "check_seen", lambda piece, seen, handed_on: None)


def filtered_is_a_difference(patch: pytest.MonkeyPatch) -> None:
    def difference(place: str, decoded: Iterable[Ints], arrived: Iterable[Ints], may_remove: bool) -> int:
        return sum(map(len, decoded)) - sum(map(len, arrived))

    patch.setattr(test_positions, "removed", difference)


def records_may_come_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BlockState, "_check_once", lambda self, positions, where: None)


# ---- invariant 9
# -------------------------------------------------------------------------------------------------------


def fractions_are_cut_off(patch: pytest.MonkeyPatch) -> None:
    real = convert_numbers.exact_number
    patch.setattr(
        convert_numbers,
        "exact_number",
        lambda value: number.to_integral_value() if (number := real(value)) is not None else None,
    )


def digits_beyond_microseconds_are_cut_off(patch: pytest.MonkeyPatch) -> None:
    real = convert_times.parse_moment

    def cut(text: str, pattern: str | None) -> IsoTime | None:
        moment = real(text, pattern)
        return None if moment is None else replace(moment, nanoseconds=moment.nanoseconds // 1_000 * 1_000)

    patch.setattr(convert_times, "parse_moment", cut)


# ---- invariant 10, at the driver
# ---------------------------------------------------------------------------------------


def an_outage_of_the_store_is_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    real = trouble.judge
    patch.setattr(test_trouble, "judge", lambda failed, answers, others: real(failed, answers, True))


def an_outage_of_the_catalog_is_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    real = trouble.judge
    patch.setattr(test_trouble, "judge", lambda failed, answers, others: real(failed, True, others))


def a_table_that_fails_once_is_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trouble, "OWN_AFTER_S", 0.0)


def one_bad_table_is_an_outage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trouble, "_judge_one", lambda failed, sound: trouble.FailureVerdict.OUTAGE)


def information_is_not_bounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(test_control_codec, "split_information", lambda event, limit=0: (event,))


# ---- invariant 12
# ------------------------------------------------------------------------------------------------------


def announcements_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    real = orphans.judge
    patch.setattr(orphans, "judge", lambda file, referenced, announced, *other: real(file, referenced, (), *other))


def references_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    real = orphans.judge
    patch.setattr(orphans, "judge", lambda file, referenced, announced, *other: real(file, (), announced, *other))


def young_files_are_taken(patch: pytest.MonkeyPatch) -> None:
    real = orphans.judge
    patch.setattr(
        orphans,
        "judge",
        lambda file, referenced, announced, now, age, *other: real(file, referenced, announced, now, 0, *other),
    )


def a_file_is_as_old_as_its_announcement(patch: pytest.MonkeyPatch) -> None:
    real = file_ages.may_be_gone
    patch.setattr(
        test_orphans,
        "may_be_gone",
        lambda now, after, reported, begun, most: real(now, after, reported, reported, most),
    )


def the_writers_clock_is_believed(patch: pytest.MonkeyPatch) -> None:
    real = file_ages.may_be_gone
    patch.setattr(
        test_orphans,
        "may_be_gone",
        lambda now, after, reported, begun, most: real(now, reported, reported, begun, most),
    )


def the_machines_clock_says_what_is_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(test_orphans, "now_for_orphans_ms", lambda machine, store: machine)


def a_clock_that_was_set_hides_sleep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_ages.ClockReading, "elapsed_ms", lambda then, now: now.wall_ms - then.wall_ms)


@dataclass(frozen=True)
class Case:
    invariant: int
    mutate: Patch
    suite: Callable[[], None]


def every_value() -> None:
    for case in CASES:
        test_values.test_value(case)


def every_lack_of_coverage() -> None:
    test_batch.test_slices_must_cover_the_ranges([test_batch.report(10, 60)])


def the_sum_of_bad_records() -> None:
    check = test_process.test_the_sum_holds.hypothesis.inner_test
    letter = ErrorPolicy.DEAD_LETTER
    check([{"kind": "a", "v": "no number"}, {"kind": "?"}, {"kind": "a", "v": 1}], letter, letter, EvolveMode.FREEZE)


def every_wrong_order() -> None:
    for blocks in ([[10, 12, 11]], [[10, 10]], [[10, 10, 12]]):
        test_gaps.test_offsets_that_do_not_ascend_inside_the_slice_are_refused(blocks)


def every_wrong_way_through_the_sql() -> None:
    for case in test_positions.WRONG.values():
        test_positions.test_what_cannot_be_is_refused(case)


def a_record_twice() -> None:
    test_process.test_a_record_that_is_in_a_table_twice_is_refused([0, 0, 1])


LONG = "x" * 700_000

CASES_BESIDE = [
    Case(8, counts_may_be_negative, lambda: test_batch.test_a_negative_count_stops_the_batch("filtered")),
    Case(8, offsets_need_not_ascend, every_wrong_order),
    Case(8, gaps_are_taken_for_holes, test_gaps.test_every_gap_of_a_log_that_should_have_none_is_looked_at),
    Case(8, what_the_reader_got_is_not_counted, test_gaps.test_a_value_without_an_offset_is_refused),
    Case(8, filtered_is_a_difference, every_wrong_way_through_the_sql),
    Case(8, records_may_come_twice, a_record_twice),
    Case(8, a_sum_that_is_off_is_announced, test_batch.test_a_sum_that_is_off_stops_the_batch),
    Case(8, coverage_is_not_checked, every_lack_of_coverage),
    Case(8, a_record_that_fails_is_left_out, the_sum_of_bad_records),
    Case(9, fractions_are_cut_off, every_value),
    Case(9, digits_beyond_microseconds_are_cut_off, every_value),
    Case(
        10, an_outage_of_the_store_is_not_asked_for, lambda: test_trouble.test_an_outage_gives_no_record_up(True, False)
    ),
    Case(
        10,
        an_outage_of_the_catalog_is_not_asked_for,
        lambda: test_trouble.test_an_outage_gives_no_record_up(False, True),
    ),
    Case(10, a_table_that_fails_once_is_given_up, test_trouble.test_a_table_that_fails_alone_is_refused_after_a_while),
    Case(10, one_bad_table_is_an_outage, test_trouble.test_a_table_that_fails_alone_is_refused_after_a_while),
    Case(10, information_is_not_bounded, lambda: test_control_codec.test_no_words_of_an_error_end_a_coordinator(LONG)),
    Case(12, announcements_are_not_asked, test_orphans.test_what_is_named_or_young_is_spared),
    Case(12, references_are_not_asked, test_orphans.test_what_is_named_or_young_is_spared),
    Case(12, young_files_are_taken, test_orphans.test_what_is_named_or_young_is_spared),
    Case(
        12,
        a_file_is_as_old_as_its_announcement,
        test_orphans.test_no_clock_and_no_sleep_lets_a_missing_file_be_committed,
    ),
    Case(12, the_writers_clock_is_believed, test_orphans.test_no_clock_and_no_sleep_lets_a_missing_file_be_committed),
    Case(
        12,
        the_machines_clock_says_what_is_old,
        test_orphans.test_no_clock_and_no_sleep_lets_a_missing_file_be_committed,
    ),
    Case(12, a_clock_that_was_set_hides_sleep, test_orphans.test_a_moment_is_as_long_ago_as_any_clock_says),
]


@pytest.mark.parametrize("case", CASES_BESIDE, ids=lambda case: f"{case.invariant}-{case.mutate.__name__}")
def test_the_rule_is_needed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named tests pass with the real code; with the rule taken out they fail."""
    case.suite()
    with monkeypatch.context() as patch:
        case.mutate(patch)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            case.suite()

"""A table's recorded progress as a property, and the entries of a snapshot's summary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.commit.machine.effects import PipelineProgress, TableProgress
from framework.commit.machine.progress.recorded import (
    check_recorded_here,
    elsewhere,
    merge,
    parse,
    summary,
    summary_control_offset,
)
from framework.errors import StateDisagreement

offsets = st.integers(0, 2**62)
names = st.text(min_size=1, max_size=8)
pipelines = st.dictionaries(
    names,
    st.builds(
        PipelineProgress,
        offsets,
        st.dictionaries(names, st.dictionaries(st.integers(0, 99).map(str), offsets, max_size=3), max_size=2),
        st.dictionaries(names, names, max_size=2),
    ),
    max_size=3,
)


@given(names, offsets, pipelines)
def test_progress_survives_its_property(topic_id: str, offset: int, content: dict[str, PipelineProgress]) -> None:
    """parse(merge(p)) == p."""
    progress = TableProgress(topic_id, offset, content)
    assert parse(merge(None, progress), topic_id) == progress


@given(offsets, offsets, pipelines)
def test_control_topics_are_kept_side_by_side(one: int, two: int, content: dict[str, PipelineProgress]) -> None:
    """Invariant 11: a commit under one control topic leaves the entry of another as it is."""
    text = merge(merge(None, TableProgress("x", one, content)), TableProgress("y", two, {}))
    assert parse(text, "x") == TableProgress("x", one, content)
    assert parse(text, "y") == TableProgress("y", two, {})
    assert parse(text, "z") is None


@given(offsets, offsets)
def test_progress_never_moves_back(before: int, after: int) -> None:
    """Invariant 3: a lower value is refused."""
    text = merge(None, TableProgress("x", before))
    if after >= before:
        assert parse(merge(text, TableProgress("x", after)), "x") == TableProgress("x", after)
    else:
        with pytest.raises(StateDisagreement):
            merge(text, TableProgress("x", after))


@pytest.mark.parametrize("text", ["", "7", "[]", '{"x":7}', '{"x":{}}', '{"x":{"control_offset":-1,"pipelines":{}}}'])
def test_a_property_that_is_not_ours_is_refused(text: str) -> None:
    """Progress that cannot be read is never taken for no progress."""
    with pytest.raises(StateDisagreement):
        parse(text, "x")


def test_the_summary_names_offset_topic_and_commit() -> None:
    """The snapshot summary shows what was committed, so that a rollback is seen."""
    entries = summary(TableProgress("x", 9), "c", 1_700_000_000_000)
    assert entries == {
        "floe.control-offset": "9",
        "floe.control-topic-id": "x",
        "floe.commit-id": "c",
        "floe.valid-through-ts": "1700000000000",
    }
    assert summary_control_offset(entries, "x") == 9
    assert summary_control_offset(entries, "y") is None
    assert summary_control_offset({}, "x") is None
    assert "floe.valid-through-ts" not in summary(TableProgress("x", 9), "c", None)


HELD = PipelineProgress(3, {"orders": {"0": 30}}, {"orders": "src"})


def test_records_that_came_by_another_control_topic_are_named() -> None:
    """Invariant 11: pipelines recorded under another control topic are told with its id, one's own are not."""
    text = merge(merge(None, TableProgress("x", 9, {"a": HELD})), TableProgress("y", 4, {"b": HELD}))
    assert elsewhere(text, "y") == {"a": "x"}
    assert elsewhere(text, "x") == {"b": "y"}
    assert elsewhere(text, "z") == {"a": "x", "b": "y"}
    assert elsewhere(None, "x") == {}
    with pytest.raises(StateDisagreement):
        elsewhere('{"x":{}}', "y")


def test_a_pipeline_whose_records_came_by_another_control_topic_does_not_start() -> None:
    """Both ids, the table and the remedy are named; other pipelines and tables do not matter."""
    properties = {"db.t": merge(None, TableProgress("x", 9, {"a": HELD})), "db.u": None}
    with pytest.raises(StateDisagreement, match=r"control topic x, and .* announced in y now") as caught:
        check_recorded_here("a", "control", "y", properties, first_run=True)
    assert (caught.value.code, caught.value.place, caught.value.exit_code) == ("FLOE-R320", "db.t", 5)
    assert "floe rebase" in caught.value.remedy
    check_recorded_here("b", "control", "y", properties, first_run=True)
    check_recorded_here("a", "control", "x", properties, first_run=False)


def test_a_pipeline_without_a_past_does_not_add_to_its_own_records() -> None:
    """Group and log know nothing of it, a table does: beginning anew would add records again."""
    properties = {"db.t": merge(None, TableProgress("x", 9, {"a": HELD}))}
    with pytest.raises(StateDisagreement, match=r"orders-0 up to 30") as caught:
        check_recorded_here("a", "control", "x", properties, first_run=True)
    assert caught.value.code == "FLOE-R321"
    check_recorded_here("a", "control", "x", properties, first_run=False)
    check_recorded_here("b", "control", "x", properties, first_run=True)

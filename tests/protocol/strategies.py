"""Hypothesis strategies for control events: every class, every field, awkward text and numbers included."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from framework.commit.events.event_types import (
    Accounting,
    Acted,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    ControlEvent,
    CoordinatorAssigned,
    CoordinatorReleased,
    DataComplete,
    DataFile,
    DataWritten,
    DeletedKeysChange,
    DeletedKeysFile,
    Deployed,
    Discarded,
    Health,
    Heartbeat,
    Holds,
    KeysFile,
    OffsetsSet,
    PauseChanged,
    Skipped,
    SourceRange,
    StateChanged,
    StopRequested,
    Subject,
    TableChanged,
    TableCommitPolicy,
    TableMeasured,
    UpsertChanges,
)
from framework.commit.maintenance.health import TableHealth
from framework.commit.maintenance.others import OtherMaintainer

names = st.text(min_size=1, max_size=12)
text = st.text(max_size=12)
numbers = st.integers(0, 2**63 - 1)
times = st.integers(-(2**40), 2**43)
field_ids = st.integers(1, 10_000).map(str)
counts = st.dictionaries(field_ids, numbers, max_size=3)
bounds = st.dictionaries(field_ids, st.text(string.ascii_letters + "+/", max_size=8), max_size=3)
single_values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), text
)


@st.composite
def source_ranges(draw: st.DrawFn) -> SourceRange:
    start = draw(st.integers(0, 2**62))
    length = draw(st.integers(0, 10**6))
    timestamp = draw(st.none() | times)
    topic = draw(st.sampled_from(["a", "b", "ü"]))
    return SourceRange(
        topic, draw(st.sampled_from(["x", "y"])), draw(st.integers(0, 5000)), start, start + length, timestamp
    )


range_tuples = st.lists(source_ranges(), max_size=5).map(tuple)
accountings = st.builds(Accounting, *[numbers] * 8)
data_files = st.builds(
    DataFile,
    path=names,
    record_count=numbers,
    file_size_bytes=numbers,
    spec_id=st.integers(0, 99),
    partition=st.lists(single_values, max_size=3).map(tuple),
    column_sizes=counts,
    value_counts=counts,
    null_value_counts=counts,
    nan_value_counts=counts,
    lower_bounds=bounds,
    upper_bounds=bounds,
    split_offsets=st.lists(numbers, max_size=3).map(tuple),
    sort_order_id=st.none() | st.integers(0, 9),
)
policies = st.builds(TableCommitPolicy, numbers, numbers, numbers, names)
tombstone_files = st.builds(DeletedKeysFile, names, numbers, numbers, times)
tombstones = st.builds(
    DeletedKeysChange,
    order_id=st.integers(1, 10_000),
    known=st.lists(names, max_size=3).map(tuple),
    added=st.lists(tombstone_files, max_size=2).map(tuple),
    removed=st.lists(names, max_size=2).map(tuple),
)
upsert_changes = st.builds(
    UpsertChanges,
    base_snapshot_id=st.none() | numbers,
    key_ids=st.lists(st.integers(1, 10_000), min_size=1, max_size=3).map(tuple),
    keys=st.lists(st.builds(KeysFile, names, numbers, numbers), max_size=2).map(tuple),
    inserted=numbers,
    updated=numbers,
    deleted=numbers,
    tombstones=st.none() | tombstones,
)
data_written = st.builds(
    DataWritten,
    keyed=st.none() | upsert_changes,
    pipeline=names,
    run=text,
    batch=numbers,
    table=names,
    table_uuid=text,
    schema_id=st.integers(0, 99),
    files=st.lists(data_files, max_size=4).map(tuple),
    ranges=range_tuples,
    commit=policies,
    base_batch=numbers,
    after_batch=st.none() | numbers,
    begun_ms=st.none() | numbers,
)
heartbeats = st.builds(Heartbeat, names, text, numbers, range_tuples, accountings, range_tuples)
reasons = st.dictionaries(names, text, max_size=3)
pauses = st.builds(PauseChanged, st.sampled_from(Holds), names, st.booleans(), text, text, times)
commit_completes = st.builds(
    CommitComplete,
    coordinator=text,
    low_water=numbers,
    timestamp_ms=times,
    request_id=text,
    blocked=reasons,
    chain=st.dictionaries(names, heartbeats, max_size=4),
    valid_through_ms=st.dictionaries(names, times, max_size=3),
    position=st.integers(-1, 2**62),
    blocked_pipelines=reasons,
    paused=st.lists(pauses, max_size=2).map(tuple),
    more_blocked=st.integers(0, 10),
)
healths = st.builds(
    TableHealth,
    *[numbers] * 9,
    st.none() | times,
    numbers,
    numbers,
    st.dictionaries(names, numbers, max_size=3),
    st.none() | st.builds(OtherMaintainer, names, numbers, times),
    *[numbers] * 3,
)
of_each_type: tuple[st.SearchStrategy[ControlEvent], ...] = (
    data_written,
    st.builds(
        DataComplete,
        names,
        text,
        numbers,
        range_tuples,
        accountings,
        accountings,
        st.lists(names, max_size=3).map(tuple),
        range_tuples,
        range_tuples,
        st.dictionaries(names, numbers, max_size=2),
    ),
    heartbeats,
    st.builds(
        OffsetsSet,
        names,
        text,
        numbers,
        range_tuples,
        accountings,
        numbers,
        numbers,
        numbers,
        text,
        times,
        range_tuples,
    ),
    st.builds(
        Discarded,
        names,
        numbers,
        numbers,
        numbers,
        numbers,
        st.dictionaries(names, numbers, max_size=3),
        text,
        times,
        st.lists(text, max_size=2).map(tuple),
        st.dictionaries(names, st.tuples(numbers, numbers), max_size=3),
    ),
    st.builds(Skipped, numbers, text, text, times),
    st.builds(CommitRequested, names, text, times),
    st.builds(CommitToTable, names, text, numbers, text, numbers, numbers, numbers, times, st.none() | times),
    commit_completes,
    st.builds(
        StateChanged,
        st.sampled_from(Subject),
        names,
        st.sampled_from([each for each in Health if each is not Health.STALLED]),
        text,
        text,
        text,
        numbers,
        times,
        times,
        text,
    ),
    pauses,
    st.builds(StopRequested, names, text.filter(bool), times, text, text),
    st.builds(Acted, names, text, text, text, times, text),
    st.builds(TableMeasured, names, healths, times, text),
    st.builds(TableChanged, names, names, text, st.lists(text, max_size=3).map(tuple), text, times),
    st.builds(CoordinatorAssigned, names, times, st.booleans()),
    st.builds(CoordinatorReleased, names, times),
    st.builds(Deployed, names, text, text, st.dictionaries(names, single_values, max_size=3), text, times, text),
)
events: st.SearchStrategy[ControlEvent] = st.one_of(*of_each_type)

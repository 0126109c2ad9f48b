"""Tables whose newest row a column decides: after each commit the table is the fold of all records by that column."""

from __future__ import annotations

import uuid
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.adapters.table_care import TableCare
from framework.commit.machine.effects import Committed
from framework.config.maintenance import CompactionPolicy
from framework.runtime.keyed_tables import KeyedTables
from tests.iceberg import keyed_pipeline
from tests.iceberg.conftest import Lake
from tests.iceberg.keyed_pipeline import SCHEMA, SPECS, UPSERT, Key, Pipeline

pytestmark = pytest.mark.iceberg
DAY = 86_400_000
# A change: the source's partition, the key, the value that orders it, and whether it deletes.
Change = tuple[int, Key, int, bool]


class Ordered:
    """A pipeline whose column `day` orders records, and a plain fold of them."""

    def __init__(self, lake: Lake, version: str) -> None:
        name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", SCHEMA, SPECS["unpartitioned"], format_version=version)
        self.lake, self.name, self.now_ms = lake, name, 100 * DAY
        self.pipeline = Pipeline(lake, name)
        self.pipeline.policy = replace(UPSERT, write=replace(UPSERT.write, order_field="day"))
        self.restart()
        self.newest: dict[Key, tuple[int, str | None]] = {}
        self.count = 0

    def restart(self) -> None:
        self.pipeline.tables = KeyedTables(self.pipeline.plan, self.lake.tables, now_ms=lambda: self.now_ms)

    def do(self, changes: list[Change]) -> None:
        named = [(at, key, (day, f"r{self.count + n}"), gone) for n, (at, key, day, gone) in enumerate(changes)]
        self.count += len(named)
        deletes = {(at, key, row) for at, key, row, gone in named if gone}
        kept = keyed_pipeline.keyed_rows

        def rows(own, first, schema):  # type: ignore[no-untyped-def]
            made = kept([(key, row) for key, row in own], first, schema)
            keys = made.upserts
            gone = [any((at, k, r) in deletes for at in (0, 1)) for k, r in own]
            ups = [n for n, g in enumerate(gone) if not g]
            dels = [n for n, g in enumerate(gone) if g]
            return replace(
                made,
                upserts=keys.take(pa.array(ups, pa.int64())),
                upsert_offsets=made.upsert_offsets[np.array(ups, np.int64)],
                deletes=keys.take(pa.array(dels, pa.int64())).select(["code", "shop", "day"]),
                delete_offsets=made.upsert_offsets[np.array(dels, np.int64)],
            )

        keyed_pipeline.keyed_rows = rows
        try:
            written = self.pipeline.announce([(at, key, row) for at, key, row, _ in named])
        finally:
            keyed_pipeline.keyed_rows = kept
        assert written.keyed is not None
        effect = replace(self.lake.effect(self.name, written.files, self.pipeline.batch), keyed=(written.keyed,))
        assert isinstance(self.lake.tables.commit(effect), Committed)
        for _, key, (day, name), gone in sorted(named, key=lambda change: change[0]):
            if key not in self.newest or self.newest[key][0] <= day:
                self.newest[key] = day, None if gone else name

    def check(self) -> None:
        found = self.lake.plain(self.name).scan().to_arrow().to_pylist()
        held = sorted(((row["shop"], row["code"]), row["day"], row["name"]) for row in found)
        assert held == sorted((key, day, name) for key, (day, name) in self.newest.items() if name is not None)


keys = st.tuples(st.integers(1, 2), st.sampled_from(["a", "b"]))
changes = st.lists(st.tuples(st.integers(0, 1), keys, st.integers(1, 6), st.booleans()), min_size=1, max_size=5)
steps = st.lists(st.tuples(changes, st.sampled_from(["", "restart", "compact"])), min_size=1, max_size=6)


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.timeout(600)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_a_table_is_the_fold_by_the_column(lake: Lake, version: str, steps: list[tuple[list[Change], str]]) -> None:
    """Disorder, deletes before and after older records, keys that come back, restarts and compaction: the newest record
    of each key by the column is in the table, and of equal ones the later."""
    table = Ordered(lake, version)
    for own, act in steps:
        table.do(own)
        table.check()
        if act == "restart":
            table.restart()
        if act == "compact":
            policy = CompactionPolicy(min_input_files=2, delete_ratio=0.01)
            TableCare(lake.tables).compact(table.name, policy, dry_run=False)


def test_a_table_that_forgets_its_deletes_is_found_out(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutation for deleted keys: without what the table remembers, an older record brings a deleted key back."""
    from framework.adapters import tombstone_files

    table = Ordered(lake, "2")
    table.do([(0, (1, "a"), 5, True)])
    table.do([(0, (1, "a"), 4, False)])
    table.check()
    monkeypatch.setattr(
        tombstone_files, "older_than_deletes", lambda io, files, hashes, *_: np.zeros(len(hashes), bool)
    )
    table.do([(0, (1, "a"), 3, False)])
    with pytest.raises(AssertionError):
        table.check()

"""A month at the rates of a window: from what tables, topics and processes have counted.

In: a table's growth, its commit interval, and the time. Out: what a month would have. Pure. Nothing is guessed: what the
counts do not say stays unknown, and requests of a table are the least that its writers make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework.adapters.iceberg.growth import SnapshotGrowth, TableGrowth
from framework.metrics.store_requests import Requests, StoreRequest, total, writing
from framework.ops.cost.model import FILES_OF_A_COMMIT, MONTH_MS, CountedRequests, StoredBytes, TableMonth

# A rate of less than a minute says nothing.
LEAST_MS = 60_000


def table_month(growth: TableGrowth, interval_ms: int, now_ms: int, most_ms: int) -> TableMonth:
    """One table.

    Args:
        most_ms: how far back to look; a table whose history is shorter is looked at from its first kept snapshot on.
    """
    begin_ms = max(now_ms - most_ms, min((each.at_ms for each in growth.snapshots), default=now_ms))
    window_ms = now_ms - begin_ms
    stored = StoredBytes(growth.live_bytes, sum(each.removed_bytes for each in growth.snapshots if each.has_parent))
    # What the first kept snapshot did, it did before the window began.
    seen = [each for each in growth.snapshots if each.at_ms > begin_ms]
    if window_ms < LEAST_MS:
        return TableMonth(growth.table, stored, 0, interval_ms, 0, 0, 0, 0, 0, {}, len(seen))
    scale = MONTH_MS / window_ms
    requests = total(map(_requests, seen))
    rewrites = [each for each in seen if each.rewrites]
    return TableMonth(
        growth.table,
        stored,
        window_ms,
        interval_ms,
        len(seen) * scale,
        sum(each.added_bytes for each in seen if not each.rewrites) * scale,
        sum(each.added_bytes for each in rewrites) * scale,
        sum(each.added_data_files + each.added_delete_files for each in rewrites) * scale,
        sum(each.removed_bytes for each in seen) * scale,
        {kind: count * scale for kind, count in requests.items()},
        len(seen),
    )


def listed(month: TableMonth, all_bytes: int, orphans: int | None) -> TableMonth:
    """With the size of all files in the table's places, and of those that nothing names; None where that is not known."""
    stored = month.stored
    other = None if stored.live is None else max(0, all_bytes - stored.live - stored.kept - (orphans or 0))
    return replace(month, stored=replace(stored, other=other, orphans=orphans))


def counted(processes: Sequence[tuple[Requests, int]]) -> CountedRequests | None:
    """A month of what processes have counted, each over its own time; None where there is none."""
    if not processes:
        return None
    window_ms = min(ran_ms for _, ran_ms in processes)
    seen = total(requests for requests, _ in processes)
    if window_ms < LEAST_MS:
        return CountedRequests(window_ms, seen, None)
    month = {kind: sum(made.get(kind, 0) * MONTH_MS / ran_ms for made, ran_ms in processes) for kind in StoreRequest}
    return CountedRequests(window_ms, seen, month)


def _requests(snapshot: SnapshotGrowth) -> Requests:
    """Files of one snapshot are taken to be alike."""
    files = snapshot.added_data_files + snapshot.added_delete_files
    each = writing(snapshot.added_bytes // files) if files else {}
    of_files = {kind: number * files for kind, number in each.items()}
    return total([of_files, {StoreRequest.PUT: FILES_OF_A_COMMIT}])

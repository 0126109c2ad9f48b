"""FLOE-C470 and C471: the words of maintenance, which keeps tables healthy."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

_MAINTENANCE = "tables: {defaults: {maintenance: {%s}}}"

ENTRIES = (
    Code(
        "FLOE-C470",
        "Snapshots that expire while they are needed",
        "`max_snapshot_age` is at least as long as `rollback_window`, for which `floe rollback` can go back to a snapshot, and as `reader_lease`, for which a query may read one. An expired snapshot takes its files along.",
        _MAINTENANCE % "expire: {max_snapshot_age: 1h, rollback_window: 6h}",
        _MAINTENANCE % "expire: {max_snapshot_age: 1d, rollback_window: 6h}",
    ),
    Code(
        "FLOE-C471",
        "Orphans that are too young",
        "A file that nothing refers to may belong to a batch in progress, or to a transaction whose announcement cannot be read yet. After a day it belongs to neither.",
        _MAINTENANCE % "orphans: {older_than: 1h}",
        _MAINTENANCE % "orphans: {older_than: 3d}",
    ),
)

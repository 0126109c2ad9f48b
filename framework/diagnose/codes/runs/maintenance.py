"""FLOE-C470, C471, R37x and R380: keeping tables healthy, and removing files that nobody needs."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

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
    Code(
        "FLOE-R371",
        "A table's orphans cannot be distinguished from files in use",
        "Some of its manifests cannot be read, which may name these files; or no snapshot can be added, after which a commit that is still under way would be refused. No file of the table is removed (invariant 12).",
        transcript=Transcript(
            "clean shop.orders -t prod",
            "the manifests of table shop.orders cannot all be read: metadata/8f-m0.avro does not exist",
            "shop.orders",
            "nothing of the table was removed; check that its catalog and its store answer, then run the command again",
            (
                "floe doctor -t prod",
                "floe clean shop.orders -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R372",
        "A table's files cannot be listed",
        "The store does not answer, or the credentials do not allow listing.",
        transcript=Transcript(
            "clean shop.orders -t prod",
            "the files of table shop.orders cannot be listed: AccessDenied",
            "s3://lake/shop/orders",
            "check that the store answers and that these credentials may list it",
            (
                "# Allow listing for these credentials, then:",
                "floe clean shop.orders -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R373",
        "A file cannot be removed",
        "The store refused. Files removed before it stay removed.",
        transcript=Transcript(
            "clean shop.orders -t prod --delete",
            "s3://lake/shop/orders/data/8f.parquet cannot be removed: AccessDenied",
            "s3://lake/shop/orders/data/8f.parquet",
            "check that these credentials may delete; the files before it were removed",
            (
                "# Allow deleting for these credentials, then:",
                "floe clean shop.orders -t prod --delete",
            ),
        ),
    ),
    Code(
        "FLOE-R374",
        "The age is below the safety age",
        "Files younger than a day may belong to a batch in progress. `floe clean` never touches them.",
        transcript=Transcript(
            "clean shop.orders -t prod --older-than 1h",
            "--older-than 1h is below the safety age of one day: younger files may belong to a batch in progress",
            "--older-than",
            "name one day or more, such as --older-than 1d",
            ("floe clean shop.orders -t prod --older-than 1d",),
        ),
    ),
    Code(
        "FLOE-R380",
        "Maintenance of a table stopped",
        "The catalog or the store did not do what was asked, or others changed the table all the time. What was done before stays done, and nothing that is needed was removed. Files that it left behind are found as orphans; run `floe maintain` again, or wait for the coordinator's next turn.",
        transcript=Transcript(
            "maintain shop.orders -t prod",
            "maintenance of table shop.orders stopped: 503 Service Unavailable",
            "shop.orders",
            "nothing that is needed was removed; run it again, it goes on where it was",
            ("floe maintain shop.orders -t prod",),
        ),
    ),
)

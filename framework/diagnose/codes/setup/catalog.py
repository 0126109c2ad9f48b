"""FLOE-E2xx, FLOE-R13x and R14x: the catalog, and single tables that cannot be written."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript

ENTRIES = (
    Code(
        "FLOE-E201",
        "The catalog cannot be reached",
        "The address of the target's catalog is wrong, or the catalog is down.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "catalog default: it cannot be used: HTTPConnectionPool(host='catalog', port=8181): Max retries exceeded",
            "connections.catalog.default",
            "check that the catalog runs and that the target's connections.catalog points to it",
            ("floe doctor orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-E202",
        "The catalog's settings are wrong",
        "PyIceberg cannot open a catalog with them. The message says why.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "catalog default: its settings are wrong: `uri` is missing",
            "connections.catalog.default",
            "correct the target's connections.catalog",
            (
                "# Correct the connection in the target file, then:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E203",
        "The catalog has no warehouse",
        "New tables need a location. Set `warehouse` in the target's catalog connection.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "catalog default: it has no `warehouse`",
            "connections.catalog.default",
            "set `warehouse`, for example file:///data/lake",
            (
                "# Set the key in the target file, then:",
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-E204",
        "A package for the catalog is missing",
        "The message shows the command that installs it.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "catalog default: a package is missing: Glue needs boto3",
            "connections.catalog.default",
            'pip install "pyiceberg[glue]"',
            (
                'pip install "pyiceberg[glue]"',
                "floe doctor orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R412",
        "Two tables cannot be compared",
        "One of them, or the branch, tag or snapshot that you name, does not exist; or they have no column in common. Nothing was read.",
        transcript=Transcript(
            "compare shop.orders shadow.orders -t prod --key order_no",
            "shop.orders and shadow.orders have no column order_no in common",
            "order_no",
            "name columns that both have: order_id, amount",
            ("floe compare shop.orders shadow.orders -t prod --key order_id",),
        ),
    ),
    Code(
        "FLOE-R131",
        "A table that floe does not write",
        "floe writes tables of format versions 1, 2 and 3; of version 3 only through REST and SQL catalogs. It does not touch a table that has encrypted files, is partitioned by a nanosecond column itself, or has a column of type variant, unknown, geometry or geography. The message says which.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders cannot be written: it has a column of the type variant, which floe cannot read or write",
            "shop.orders",
            "write to another table; docs/compatibility.md lists which tables floe can write",
            (
                "# Name another table in `routes`, then:",
                "floe plan orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R132",
        "A table could not be created",
        "The catalog or the store refused. The message quotes it.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders could not be created: the namespace is read-only",
            "shop.orders",
            "check that the catalog may create tables in this namespace and write to its warehouse location",
            ("floe doctor orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-R133",
        "A table cannot be partitioned this way",
        "The first records do not have the column, or the transform does not apply to its type.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders cannot be partitioned by day of note: Invalid source type string for transform day",
            "shop.orders",
            "name a column of the table and a transform that fits its type under create.partition_by",
            (
                "# Correct `create.partition_by`, then:",
                "floe validate orders.yaml -t prod",
                "floe plan orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R134",
        "A table's definition could not be read or changed",
        "The catalog did not answer as expected. The change is planned again.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the definition of shop.orders could not be read or changed: 503 Service Unavailable",
            "shop.orders",
            "check that the catalog answers; the change is then planned again",
            ("floe doctor orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-R135",
        "A table cannot be loaded",
        "The catalog does not answer, or the table's metadata file is gone. If the catalog answers and other tables can be loaded, only this table is in trouble: a run that knows it goes on writing to it; otherwise, after 20 s, its records are dead letters, or what `errors.policy` says. If no table can be loaded, it is an outage, and the run waits.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders cannot be loaded: metadata/00012-8f.metadata.json does not exist",
            "shop.orders",
            "check that the catalog answers and that the table's metadata file can be read",
            (
                "floe doctor orders.yaml -t prod",
                "# The file is gone: bring it back, or register the table again with an older one. Then:",
                "floe dlq replay orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R136",
        "Commits of a table fail",
        "The catalog or the store refuses them. A table is DEGRADED from the first failure and FAILED from the tenth in a row. floe keeps trying; what is announced waits.",
        transcript=Transcript(
            "status -t prod",
            "metadata could not be written: 403 Forbidden",
            "shop.orders: DEGRADED for 4m 12s",
            "check that the catalog and the store answer (`floe doctor`); floe tries again by itself",
            ("floe doctor -t prod",),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R140",
        "The catalog refuses a table or a change of it",
        "The catalog answers that these credentials may not create or change the table, or that it will not do so. floe asks again for 20 s. After that, records that need the change are dead letters, or what `errors.policy` says, and floe asks again every minute. All other records are written.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the catalog refuses to create table shop.orders: Forbidden: not authorized: CREATE_TABLE",
            "shop.orders",
            "give these credentials the missing permission, or make the change by hand",
            (
                "# Give the permission, then replay what became dead letters meanwhile:",
                "floe dlq replay orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R142",
        "A table's location is not allowed",
        "Its location, `write.data.path` or `write.metadata.path` is neither below the catalog's `warehouse` nor below one of the target's `allow.locations`. Anyone who may alter a table can set these, so floe reads, writes and removes nothing there. A run that knew the table before goes on writing to its old location; otherwise its records are dead letters, or what `errors.policy` says. Other tables go on. If the warehouse of a REST catalog is only a name and the target allows no locations, floe trusts the server to choose locations.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders has the location s3://other/orders, where the target does not allow tables to have files",
            "shop.orders",
            "ALTER TABLE ... SET LOCATION back to where it was; or add the place to `allow.locations` in the target",
            (
                '# Add to the target, if the place is trusted:  allow: {locations: ["s3://other/orders"]}',
                "floe validate orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R143",
        "A table has invalid write properties",
        "Somebody set a property that the Parquet writer cannot use: a size that is not a positive number, or a codec or a metrics mode that does not exist. Tasks would fail and stop every table of the pipeline, so floe refuses this one table until the property is unset.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders cannot be written: its property write.parquet.page-size-bytes is 'big', which is not a positive number",
            "shop.orders",
            "ALTER TABLE ... UNSET TBLPROPERTIES (...) for the named property",
            (
                "# In Spark:  ALTER TABLE shop.orders UNSET TBLPROPERTIES ('write.parquet.page-size-bytes')",
                "floe plan orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R144",
        "Rows of a table cannot be replaced by key",
        "`write.mode: upsert` needs a table of format version 2 or 3 that has the key columns, and whose deletes floe can read; equality deletes of other writers it cannot. Each key must have one row: before a table is first changed by its key, floe looks through it once, and names who else wrote to it. It must not belong to another pipeline (FLOE-D206). The message says what is wrong. The pipeline holds: it reads nothing past the batch, tries again, and goes on by itself when the table is repaired; a run that is to end ends. A change that were left out could not be made up for later.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "rows of table shop.orders cannot be replaced by key: the table has no column id, which is in its key",
            "shop.orders",
            "`floe explain FLOE-T111` says what to do",
            (
                "floe explain FLOE-T111",
                "# Repair the table or the file. A live run goes on by itself within a minute.",
                "floe status -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R145",
        "Changes by key are written by batches alone",
        "Which change of a key is the newest is known by the order of the source. A record that comes late, by `floe replay` or `floe dlq replay`, has no place in that order: it could replace a newer row. So neither command writes to an upsert table, and `floe rollback` does not take one back. To make such a table right again, drop it, and let a new pipeline read its topics from their start.",
        transcript=Transcript(
            "rollback --table shop.orders --to 4611686018427387904 -t prod",
            "table shop.orders is an upsert table: what came after an older snapshot cannot be put back into it in its order",
            "shop.orders",
            "read the older snapshot by its id, or make the table anew: drop it, and let a new pipeline read its topics from their start",
            (
                "# Give the pipeline another name and drop the table; then:",
                "floe run orders-v2.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R146",
        "The deleted keys that a table remembers are lost",
        "With `order: {field: ...}` a table remembers deleted keys for `remember_deletes`, in files that its property `floe.tombstones` names. A file is gone or damaged, the property was changed, or it is of another column or key than the table has now. Without them an older record would bring a deleted key back, so the pipeline holds: it reads nothing past the batch, and goes on by itself when the table is repaired. Bring back what is missing. Or set the property to `forget`: the table begins anew, and older records of keys that were deleted before may come back.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the deleted keys that table shop.orders remembers cannot be used: s3://lake/shop/orders/_floe_tombstones/7f0c.arrow is gone",
            "shop.orders",
            "bring back what is missing; or let older records bring deleted keys back: ALTER TABLE shop.orders SET TBLPROPERTIES ('floe.tombstones' = 'forget')",
            (
                "# Bring the file back; or in Spark:  ALTER TABLE shop.orders SET TBLPROPERTIES ('floe.tombstones' = 'forget')",
                "# A live run goes on by itself within a minute.",
                "floe status -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R147",
        "A change after which Spark could not read the table",
        "When the change was to be made, the table had something that made it unreadable for Iceberg's Java library, such as a partition field that somebody has added meanwhile and that has the name of the new column. Nothing was changed. The next try looks at the table as it is now.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders is not changed, since Spark could not read it any more: column 'ts_day': a partition field of the table has this name",
            "shop.orders",
            "leave the field out with evolve.exclude, or correct create.partition_by",
            ("floe plan orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-R148",
        "A table that cannot be written for the name of a column",
        "A column without a name, or two that have the same name in files, such as `a.b` and `a_x2Eb`: no file can be written for the table, and most readers refuse it. An older floe may have made it so, or somebody else. `floe doctor --repair` renames the column in the table's metadata, which changes no file. Its records are dead letters meanwhile; replay them.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders cannot be written: column 'a_x2Eb': in files it has the same name as 'a.b'",
            "shop.orders",
            "floe doctor --repair shop.orders, with the `-t` of the run: it renames the column",
            ("floe doctor --repair shop.orders -t prod",),
        ),
    ),
    Code(
        "FLOE-R149",
        "A catalog that signs requests to its store",
        "The table came with `s3.remote-signing-enabled`, and neither with keys nor are there keys in the target: the catalog's server signs each request to the store itself. floe writes files with PyArrow, which signs its requests and asks nobody. This is no wrong key: the store was not asked. The table is refused until there are keys.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the catalog of table shop.orders signs each request to the store itself (`s3.remote-signing-enabled`) and lends no keys, which floe does not support",
            "shop.orders",
            "have the catalog lend keys (`vended-credentials`); or add `s3.access-key-id` and `s3.secret-access-key` to connections.catalog in the target",
            (
                "# Turn remote signing off for the warehouse and vended credentials on, or add keys to the target. Then:",
                "floe doctor -t prod",
            ),
        ),
    ),
)

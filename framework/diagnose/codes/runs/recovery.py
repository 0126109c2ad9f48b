"""FLOE-R326, R327 and R35x: recovery that a person started: `rebase`, `rollback`, `replay`, `discard`."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-R326",
        "It is unclear what was replayed",
        "The control topic knows of replays of dead letters that the table of replayed dead letters does not hold: that table is blocked, or was dropped. A replay now could write records a second time.",
        transcript=Transcript(
            "dlq replay orders.yaml -t prod",
            "earlier replays of orders announced batch 2, and shop.dead_letters_replayed holds nothing",
            "shop.dead_letters_replayed",
            "`floe status` says whether the table is blocked; if it was dropped, floe cannot tell which dead letters were replayed: restore it, or name another dead-letter table",
            (
                "floe status -t prod",
                "# Repair or restore the table, then:",
                "floe dlq replay orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R327",
        "A table lost its progress",
        "Snapshots show that floe committed to the table, but its property floe.progress is gone, so it is not known which records it holds. Earlier metadata files of the table still have the value.",
        transcript=Transcript(
            "rebase orders.yaml -t prod",
            "table shop.orders records nothing, but a snapshot shows that floe committed to it by control topic Qr4o0X1qRqept5e5mIjIRg: the table property floe.progress was removed, so it is not known what the table holds",
            "shop.orders",
            "set floe.progress again, as an earlier metadata file of the table has it; then run the command again",
            (
                "# In Spark:  ALTER TABLE shop.orders SET TBLPROPERTIES ('floe.progress' = '...')",
                "floe rebase orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R350",
        "These are the topics that the tables were filled from",
        "`floe rebase --begin-at` is for topics that hold other records. Here it would add records twice or skip some. To move offsets deliberately, use `floe offsets set`.",
        transcript=Transcript(
            "rebase orders.yaml -t prod --begin-at earliest",
            "the topics of pipeline orders are those that its tables hold records of; --begin-at would add records twice, or skip some",
            "orders",
            "leave --begin-at out; to move offsets deliberately, use `floe offsets set`",
            ("floe rebase orders.yaml -t prod",),
        ),
    ),
    Code(
        "FLOE-R351",
        "A table holds nothing of the pipeline",
        "When announcements are lost, a table without records of the pipeline may lack some that were announced for it, and nothing says since when. The same holds for a table that shows no batch since the pipeline's offsets were set by hand. You must say whether it lacks anything.",
        transcript=Transcript(
            "rebase orders.yaml -t prod",
            "table shop.refunds holds nothing of pipeline orders: what was announced for it may be lost, and it is not known since when",
            "shop.refunds",
            "--complete shop.refunds if nothing was ever routed there; --from-log-start reads all that the topics hold, and adds to each table only what it lacks",
            (
                "# Nothing was ever routed to it:",
                "floe rebase orders.yaml -t prod --complete shop.refunds",
                "# Nobody knows:",
                "floe rebase orders.yaml -t prod --from-log-start",
            ),
        ),
    ),
    Code(
        "FLOE-R352",
        "What a table lacks was removed by retention",
        "The table that is furthest behind ends before the topic begins. If no records were routed to it for a long time, it lacks nothing; otherwise those records are lost.",
        transcript=Transcript(
            "rebase orders.yaml -t prod",
            "table shop.refunds holds orders-0 up to 400, and records 400 to 899 were removed by retention: what it lacks of them cannot be read again",
            "orders-0",
            "--complete shop.refunds if it lacks nothing, since nothing was routed there for long; --allow-loss to go on where the topic begins",
            (
                "# Nothing was routed to it for long, so it lacks nothing:",
                "floe rebase orders.yaml -t prod --complete shop.refunds",
                "# To go on without those records:",
                "floe rebase orders.yaml -t prod --allow-loss",
            ),
        ),
    ),
    Code(
        "FLOE-R353",
        "The tables' records contradict each other",
        "Each table records where one of the pipeline's batches ended, so two tables cannot each be ahead of the other. These two are: different pipelines of the same name filled them.",
        transcript=Transcript(
            "rebase orders.yaml -t prod",
            "of pipeline orders table shop.orders holds orders-0 up to 1500 and shop.refunds up to 900, and elsewhere it is the other way round: they were not filled by one history",
            "shop.orders",
            "give the pipeline another name and other tables, or let one of these tables be created again",
            (
                "# Give the pipeline another name and other tables, then:",
                "floe plan orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R354",
        "A recovery stopped at a table",
        "The catalog refused, or did not answer. What was done before stays done. Run the same command again; it continues from there.",
        transcript=Transcript(
            "discard --table shop.orders -t prod",
            "table shop.orders: 503 Service Unavailable",
            "shop.orders",
            "run the command again: it continues from there",
            ("floe discard --table shop.orders -t prod",),
        ),
    ),
    Code(
        "FLOE-R355",
        "What waits for the table can still be committed",
        "`floe discard` gives up announcements for a table that does not exist, was replaced or lost a column. Any other problem of a table can be solved without giving anything up.",
        transcript=Transcript(
            "discard --table shop.orders -t prod",
            "what waits for table shop.orders can still be committed; it only waits for its interval",
            "shop.orders",
            "start `floe coordinator`, or the pipeline; nothing needs to be given up",
            ("floe coordinator -t prod",),
        ),
    ),
    Code(
        "FLOE-R356",
        "No such snapshot to roll back to",
        "A table can go back only to an ancestor of its current snapshot that has not expired, also while the command runs.",
        transcript=Transcript(
            "rollback --table shop.orders --to 42 --replay -t prod",
            "table shop.orders has no snapshot 42 before its current one",
            "shop.orders",
            "choose another one: `floe rollback --table shop.orders --to 4611686018427387904 --replay` goes back to the oldest that has not expired",
            ("floe rollback --table shop.orders --to 4611686018427387904 --replay -t prod --dry-run",),
        ),
    ),
    Code(
        "FLOE-R357",
        "It is unclear what a rollback gives up",
        "floe reads from the snapshots' files and from the control log which source records they held. Some snapshots have expired, the log does not go back far enough, or another control topic filled them.",
        transcript=Transcript(
            "rollback --table shop.orders --to 4611686018427387904 --replay -t prod",
            "what was in the snapshots behind 4611686018427387904 of table shop.orders can no longer be determined: some of them have expired",
            "shop.orders",
            "--skip gives them up; `floe replay --from --to` then reads source ranges that you name",
            (
                "floe rollback --table shop.orders --to 4611686018427387904 --skip -t prod",
                "floe replay orders.yaml --table shop.orders --from orders:0=1200 --to orders:0=1500 -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R358",
        "Nothing to replay",
        "There are no records between `--from` and `--to`.",
        transcript=Transcript(
            "replay orders.yaml --table shop.orders --from orders:0=20 --to orders:0=20 -t prod",
            "nothing lies between --from and --to for pipeline orders",
            "orders",
            "for each partition, name the first offset and a higher one to stop before: --from t:0=10 --to t:0=20",
            ("floe replay orders.yaml --table shop.orders --from orders:0=10 --to orders:0=20 -t prod",),
        ),
    ),
    Code(
        "FLOE-R359",
        "The table may hold what is to be replayed",
        "`floe replay` adds what a table lacks. This table already has rows from these source ranges, or it has no columns with Kafka positions, so floe cannot check. `--allow-duplicates` adds them anyway.",
        transcript=Transcript(
            "replay orders.yaml --table shop.orders --from orders:0=10 --to orders:0=20 -t prod",
            "table shop.orders holds 10 rows of these source ranges",
            "shop.orders",
            "first delete or roll back what it holds of them; --allow-duplicates adds them anyway",
            (
                "# In Spark:  DELETE FROM shop.orders WHERE _kafka_partition = 0 AND _kafka_offset BETWEEN 10 AND 19",
                "floe replay orders.yaml --table shop.orders --from orders:0=10 --to orders:0=20 -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R361",
        "A rollback by others has to be settled first",
        "Somebody moved the table's branch to a snapshot that is older than what floe recorded, or onto a line from which `floe rollback` had taken it. Another commit of floe's on top of it would hide that the table lacks records, or holds some that it is noted to lack.",
        transcript=Transcript(
            "replay orders.yaml --table shop.orders -t prod",
            "table shop.orders was rolled back: progress 120 is recorded, its branch main holds 80",
            "shop.orders",
            "`floe rollback --table shop.orders --to 42 --replay` notes the rows that it lost, for `floe replay` to read "
            "them again; `floe rollback --table shop.orders --to 42 --skip` gives them up; then run this command again",
            ("floe rollback --table shop.orders --to 42 --replay -t prod",),
        ),
    ),
)

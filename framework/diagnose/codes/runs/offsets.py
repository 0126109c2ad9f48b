"""FLOE-R116, R31x and R34x: source offsets that disagree, and moves of them."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-R116",
        "A topic was recreated while it was read",
        "Offsets are valid for one topic id only (invariant 11). The batch was not announced. The next run refuses with FLOE-R316, which says how to go on.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "topic orders was deleted or recreated: the batch was planned for id Qr4o0X1qRqept5e5mIjIRg, its id is now x3DkgGEfT2aCs5X0LXP7_g",
            "orders-0",
            "give the pipeline another name to start over with the new topic",
            (
                "# The topic was restored, and each offset holds the record that it held:",
                "floe rebase orders.yaml -t prod --same-offsets",
                "# It holds other records; read them from the start, and keep the tables:",
                "floe rebase orders.yaml -t prod --begin-at earliest",
                "# Then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R313",
        "A group offset is not floe's",
        "Another program committed to the pipeline's consumer group, or somebody set its offsets by hand.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the committed offset 1200 was not written by floe (its metadata is '')",
            "orders-0",
            "another consumer uses this group id, or somebody set its offsets by hand; `floe offsets set PIPELINE --from-log` writes the announced offsets back",
            (
                "floe offsets set orders --from-log -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R314",
        "A group offset is missing",
        "A partition was announced before, but the group now has no offset for it. floe never treats it as new.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "pipeline orders announced offsets up to 1500 of orders-0, but its consumer group has no offset for it",
            "orders-0",
            "`floe offsets set orders --from-log` writes the announced offsets back",
            (
                "floe offsets set orders --from-log -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R315",
        "A partition is gone",
        "A partition that was read does not exist any more, or its topic is none that the file names.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "orders-3 was deleted, or its topic was taken out of the file; pipeline orders read it up to 1500",
            "orders-3",
            "restore the topic, or put it back into the file; or `floe offsets set FILE --from-log --allow-loss`, with the pipeline's file, goes on without it",
            (
                "# If the topic cannot be restored:",
                "floe offsets set orders.yaml --from-log --allow-loss -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R316",
        "A topic was recreated",
        "The topic's id differs from that of the topic that was read, so its offsets may hold other records (invariant 11). If each offset holds the record that it held (a restored or byte-for-byte copied topic), `floe rebase FILE --same-offsets` goes on. If the topic holds other records, `floe rebase FILE --begin-at earliest` reads it from its start into the same tables, and `floe offsets set` names an offset for each partition.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "topic orders was recreated: pipeline orders read the one with id Qr4o0X1qRqept5e5mIjIRg, now it is x3DkgGEfT2aCs5X0LXP7_g",
            "orders-0",
            "`floe rebase FILE --begin-at earliest` goes on with it from its start, into the same tables; if each offset holds the record that it held, `floe rebase FILE --same-offsets`",
            (
                "# The topic was restored or copied, and each offset holds the record that it held:",
                "floe rebase orders.yaml -t prod --same-offsets",
                "# It holds other records; go on with it from its start, and keep the tables:",
                "floe rebase orders.yaml -t prod --begin-at earliest",
                "# Then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R317",
        "The safe offset is behind the log's end",
        "The broker lost records, or this is another cluster.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the safe offset of orders-0 is 1500, but its log ends at 900",
            "orders-0",
            "check bootstrap.servers first: the broker lost records, or this is another cluster. Where MirrorMaker copied the topic to "
            "it, `floe rebase FILE --begin-at latest` goes on behind the copies",
            (
                "floe doctor orders.yaml -t prod",
                "floe offsets show orders.yaml -t prod",
                "# The cluster is right and its topic lost records; go on at its end:",
                "floe offsets set orders orders:0=900 --allow-duplicates -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R318",
        "Another program moves the offsets",
        "After an unknown outcome the group's offsets are neither at the batch's start nor at its end.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "after an unknown outcome of batch 12 the group offsets of orders are neither its start nor its end: orders-0=1340",
            "",
            "another program commits to this group; find it, then run `floe offsets set orders --from-log`",
            (
                "kafka-consumer-groups.sh --bootstrap-server broker:9092 --describe --members --group floe-orders",
                "floe offsets set orders --from-log -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R341",
        "The pipeline reads no such partition",
        "An offset was given for a topic or partition that the pipeline has never read and that its file does not name.",
        transcript=Transcript(
            "offsets set orders orders:9=1200 -t prod",
            "pipeline orders reads no partition orders:9",
            "orders",
            "`floe offsets show orders` lists its partitions",
            (
                "floe offsets show orders -t prod",
                "floe offsets set orders orders:0=1200 -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R342",
        "The offset is outside its log",
        "A pipeline can only be set to an offset that the topic still holds, or to its end.",
        transcript=Transcript(
            "offsets set orders orders:0=9000 -t prod",
            "orders:0 can be set to 0 to 1500, which its log holds, and not to 9000",
            "orders:0",
            "name an offset: `floe offsets set orders orders:0=1500`",
            ("floe offsets set orders orders:0=1500 -t prod",),
        ),
    ),
    Code(
        "FLOE-R343",
        "No offsets of the pipeline are recorded there",
        "`--from-log` needs an announcement of the pipeline in the control topic; `--from-tables` needs a table that records the pipeline's offsets.",
        transcript=Transcript(
            "offsets set orders --from-log -t prod",
            "control topic control-iceberg has no offsets of pipeline orders",
            "orders",
            "`floe offsets show orders` says what is known; offsets can be given as topic:partition=offset",
            (
                "floe offsets show orders -t prod",
                "floe offsets set orders --from-tables -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R344",
        "The move would lose records",
        "Records between the last announced offset and the new one would never be read. `--allow-loss` accepts that. The event in the control topic records how many there were.",
        transcript=Transcript(
            "offsets set orders orders:0=1500 -t prod",
            "this would lose 300 records of orders:0 before 1500",
            "orders",
            "add --allow-loss to accept that; nothing was changed",
            ("floe offsets set orders orders:0=1500 --allow-loss -t prod",),
        ),
    ),
    Code(
        "FLOE-R345",
        "The move would add records twice",
        "Records from the new offset on are already in tables, or announced for them, and would be written again. `--allow-duplicates` accepts that.",
        transcript=Transcript(
            "offsets set orders orders:0=900 -t prod",
            "this would read again, and so add a second time, 300 records of orders:0 from 900 on",
            "orders",
            "add --allow-duplicates to accept that; nothing was changed",
            (
                "floe offsets set orders orders:0=900 --allow-duplicates -t prod",
                "# To add only what one table lacks:",
                "floe replay orders.yaml --table shop.orders --from orders:0=900 --to orders:0=1200 -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R346",
        "The offsets changed while they were looked at",
        "Another run or person moved them in the meantime. Nothing was set.",
        transcript=Transcript(
            "offsets set orders --from-log -t prod",
            "the offsets of pipeline orders have changed in the meantime; nothing was set",
            "orders",
            "look again with `floe offsets show`, then run the command again",
            (
                "floe offsets show orders -t prod",
                "floe offsets set orders --from-log -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R347",
        "A partition that was not named has no known offset",
        "The control topic no longer holds the announcements of the partition, and the pipeline's tables and its consumer group differ: the tables may have no rows of the last batches, somebody gave them up, or somebody moved the group. `floe offsets set` moves no partition that is not named.",
        transcript=Transcript(
            "offsets set orders orders:0=1200 --allow-loss -t prod",
            "orders:1 is not named, and nobody knows where it stays: tables hold it up to 900, the group's offset is 940, "
            "and the control log no longer says how far it was announced",
            "orders:1",
            "name it, too: `floe offsets set orders orders:0=1200 orders:1=940 --allow-loss` goes on where the group is, "
            "`floe offsets set orders orders:0=1200 orders:1=900 --allow-loss` where the tables are; nothing was changed",
            (
                "floe offsets show orders -t prod",
                "floe offsets set orders orders:0=1200 orders:1=940 --allow-loss -t prod",
            ),
        ),
    ),
)

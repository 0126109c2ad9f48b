"""FLOE-R11x, R20x, R319 to R321: the control topic lost something, is another one, or holds what cannot be read."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import Transcript

ENTRIES = (
    Code(
        "FLOE-R113",
        "The low-water mark belongs to another control topic",
        "The control topic was recreated, or the coordinator's offset was set by hand (invariant 11).",
        transcript=Transcript(
            "coordinator -t prod",
            "the stored low-water mark 812 belongs to control topic Qr4o0X1qRqept5e5mIjIRg, but the control topic has the id x3DkgGEfT2aCs5X0LXP7_g: it was recreated, or the offset was set by hand",
            "control-iceberg",
            "delete the coordinator's consumer group, so that the log is read from its start; if the topic was recreated, `floe rebase FILE` then lets each pipeline go on from what its tables hold",
            (
                "# End all runs first. The group of another control topic is floe-coordinator-TOPIC.",
                "kafka-consumer-groups.sh --bootstrap-server broker:9092 --delete --group floe-coordinator",
                "# The topic was recreated:",
                "floe rebase orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R114",
        "Announcements were deleted by retention",
        "The control topic begins after the point up to which every table is complete (invariant 6). Raise its retention. The rows in between must be read again.",
        transcript=Transcript(
            "coordinator -t prod",
            "the control topic starts at 900, but announcements from 812 on were not yet in every table: retention removed them",
            "control-iceberg",
            "raise the control topic's retention; what is lost must be read again from the source: each table's property floe.progress says up to which source offset it holds everything",
            (
                "# Raise the retention of the control topic, so that this does not happen again:",
                "kafka-configs.sh --bootstrap-server broker:9092 --alter --topic control-iceberg --add-config retention.ms=2592000000",
                "# End all runs. Name a new topic in `commit.control_topic` of each pipeline, and let it go on from what its tables hold:",
                "floe rebase orders.yaml -t prod --dry-run",
                "floe rebase orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R115",
        "The beginning of the control topic is gone",
        "No low-water mark is stored and the log does not start at 0, so announcements may be missing (invariant 6).",
        transcript=Transcript(
            "coordinator -t prod",
            "no low-water mark is stored and the control topic starts at 900: announcements may have been removed before they were in every table",
            "control-iceberg",
            "restore the coordinator group's offset if it is known; each table's property floe.progress says up to which source offset it holds everything",
            (
                "# Raise the retention of the control topic, so that this does not happen again:",
                "kafka-configs.sh --bootstrap-server broker:9092 --alter --topic control-iceberg --add-config retention.ms=2592000000",
                "# End all runs. Name a new topic in `commit.control_topic` of each pipeline, and let it go on from what its tables hold:",
                "floe rebase orders.yaml -t prod --dry-run",
                "floe rebase orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R117",
        "The control topic lost records that were read",
        "Its log ends before a position up to which it was already read: an unclean leader election, or a disk restored from a backup. New announcements could land at offsets that count as read (invariant 6).",
        transcript=Transcript(
            "coordinator -t prod",
            "everything below 812 was read from the control topic, but its log ends at 700: the broker lost records (an unclean election, a disk that was put back)",
            "control-iceberg",
            "delete the coordinator's consumer group, so that the log is read from its start; then `floe rebase FILE` lets each pipeline go on from what its tables hold",
            (
                "# End all runs first. The group of another control topic is floe-coordinator-TOPIC.",
                "kafka-consumer-groups.sh --bootstrap-server broker:9092 --delete --group floe-coordinator",
                "# For each pipeline:",
                "floe rebase orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R201",
        "A value has no JSON form",
        "A control event holds a value that JSON cannot express. Another partition transform avoids it.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "a DataWritten event holds a value without a JSON form: Object of type Decimal is not JSON serializable",
            "control topic",
            "a partition value must be an Iceberg JSON single value; choose another partition transform",
            (
                "# Choose another transform in `create.partition_by` for new tables, then:",
                "floe validate orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R202",
        "A control record cannot be read",
        "A record of the control topic claims to be an event of floe but cannot be read: a newer floe or another program wrote it. floe never skips announcements, so reading stops there. `floe log --skip OFFSET` skips that one record on your responsibility. floe skips records that are not events, and `floe log` shows them.",
        transcript=Transcript(
            "coordinator -t prod",
            "a control record is not an event of floe: it is not a JSON object with a `type`",
            "control topic",
            "find out who writes to the control topic; floe never skips an announcement, so reading stops here",
            (
                "floe log -t prod --last 20",
                "# It is not an announcement, or its rows may be lost:",
                "floe log -t prod --skip 812",
            ),
        ),
    ),
    Code(
        "FLOE-R203",
        "A control event is too large",
        "A single announcement exceeds the limit even when split: one batch touches very many source partitions or tables.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "a DataWritten event needs 1250000 bytes and the limit is 1000000",
            "shop.orders",
            "keep metrics for fewer columns of this table",
            (
                '# Set in the file:  tables: {defaults: {create: {properties: {write.metadata.metrics.max-inferred-column-defaults: "50"}}}}',
                "floe validate orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R205",
        "Nothing to skip at this offset",
        "`floe log --skip` skips a record of the control topic that cannot be read. The record at this offset can be read, or there is none.",
        transcript=Transcript(
            "log -t prod --skip 812",
            "the record at offset 812 is not skipped: that record can be read, or there is none at this offset",
            "offset 812",
            "`floe log` marks what cannot be read; take the offset from the error message",
            ("floe log -t prod --last 50",),
        ),
    ),
    Code(
        "FLOE-R319",
        "The announcements are gone",
        "The pipeline's offsets were committed with announcements, but the control topic holds none of them: it was recreated, or the target now names another topic. What was announced and not committed would be lost silently. If the topic is gone, `floe rebase FILE` goes on from what the tables hold; with `--same-offsets` where the source topics are copies, too, whose offsets hold the same records.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "pipeline orders announced batch 3, but control topic control-iceberg holds no announcement of it: it was recreated, retention removed it, or another topic is named now",
            "control-iceberg",
            "name the control topic of the last run in commit.control_topic; if that is gone, or was left on purpose, `floe rebase FILE` goes on from what the tables hold and reads again what they lack",
            (
                "# The name in `commit.control_topic` is wrong: correct it. The topic is gone, or was left on purpose:",
                "floe rebase orders.yaml -t prod --dry-run",
                "floe rebase orders.yaml -t prod",
                "# The source topics are copies on another cluster as well:",
                "floe rebase orders.yaml -t prod --same-offsets",
                "# Then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R320",
        "A table got the pipeline's records through another control topic",
        "A table records a pipeline's progress under the id of the control topic in which it was announced (invariant 11). A different id means another cluster, a recreated control topic, or another pipeline of the same name. Going on would add the same records again. `floe rebase` takes over what the tables hold.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "table shop.orders holds records of pipeline orders that were announced in control topic Qr4o0X1qRqept5e5mIjIRg, and they are announced in x3DkgGEfT2aCs5X0LXP7_g now: they may be the same records",
            "shop.orders",
            "check bootstrap.servers first; if the control topic control-iceberg was recreated, or the cluster was replaced, `floe rebase FILE` takes over; if this is another pipeline, give it its own name",
            (
                "floe rebase orders.yaml -t prod --dry-run",
                "floe rebase orders.yaml -t prod",
                "# The source topics are copies on another cluster:",
                "floe rebase orders.yaml -t prod --same-offsets",
                "# Then:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R321",
        "A new pipeline, but tables hold its records",
        "The consumer group and the control topic do not know the pipeline, so it would read from `starting_offsets`; but a table already holds its records. `floe rebase` goes on from there.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "neither the consumer group nor the control topic control-iceberg knows pipeline orders, but table shop.orders holds its batch 3 (orders-0 up to 1500): beginning anew would add records again",
            "shop.orders",
            "`floe rebase FILE` goes on from what the tables hold; if this is another pipeline, give it a name of its own",
            (
                "floe rebase orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
)

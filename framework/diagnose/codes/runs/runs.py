"""FLOE-R0xx, R1xx and R32x: a run stops, waits or stands still."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code
from framework.diagnose.entry import ShownAs, Transcript

ENTRIES = (
    Code(
        "FLOE-R001",
        "A run failed",
        "The message says what happened. Starting again goes on from the safe offsets.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the coordinator ended: OSError: [Errno 28] No space left on device",
            "control-iceberg",
            "",
            (
                "floe status -t prod",
                "# Free what the message names. The run goes on from the safe offsets:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R101",
        "A run failed",
        "The message says what happened. Starting again goes on from the safe offsets.",
        transcript=Transcript(
            "stop orders -t prod",
            "pipeline orders has failed: OSError: [Errno 28] No space left on device",
            "orders",
            "`floe status` says why; `floe run FILE` goes on from the safe offsets",
            (
                "floe status -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R104",
        "A newer run took over",
        "Two runs of one pipeline cannot both announce: the newer one fenced this one (invariant 2). Exit code 4 is final. A supervisor that restarts it would make the two fence each other for ever. Stop one of them.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "a newer run of this pipeline has taken over transactional id floe-orders",
            "broker:9092",
            "stop one of the two runs for good; this one has ended and announced nothing more",
            (
                "# The newer run goes on. Take this one out of its supervisor; to end the newer one as well:",
                "floe stop orders -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R105",
        "Stored positions disagree",
        "The consumer group, the control topic and the tables each record how far a pipeline is, and they do not agree. The message shows both values and the command that settles it. floe does not guess.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the group offset of orders-0 is 1200, but pipeline orders announced up to 1500",
            "orders-0",
            "`floe offsets set orders --from-log` writes the announced offsets back",
            (
                "floe offsets show orders -t prod",
                "floe offsets set orders --from-log -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R107",
        "An unknown outcome",
        "A request was sent and no answer came. floe first reads back what happened, and deletes nothing until it knows (invariant 7).",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the outcome of the announcement of floe-orders is not known: Local: Timed out",
            "broker:9092",
            "the group's offsets are read back before anything else; until then no file is deleted",
            (
                "# floe finds out by itself what happened. If the run has ended, start it again:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R108",
        "A batch does not add up",
        "The number of offsets in the range is not the sum of written, filtered, dead-lettered, dropped, hole and lost offsets (invariant 8). The batch was not announced.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "offsets 1200 to 1500 of orders-0 are 300, but the task accounts for 299 (299 written)",
            "orders-0",
            "nothing was announced; the batch is tried again. If this repeats, report it with the driver's log",
            (
                "# A bug in floe. Nothing was announced, so it is safe to start again:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R109",
        "A record cannot be written",
        "`errors.policy` or `routes.unrouted` is `fail`, so the run stops at the first such record. Nothing of its batch was announced.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "a record failed at stage route: no rule of routes matches the record",
            "orders-0 offset 1042",
            "fix the producer, or set errors.policy (or routes.unrouted) to dead_letter or drop; nothing of the batch was announced",
            (
                "# Add a rule for the record, or set `routes: {unrouted: dead_letter}`; then:",
                "floe validate orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R110",
        "A table is blocked",
        "The table is missing, was replaced or rolled back, or refuses a change. Its announcements wait. The other tables go on (invariant 10).",
        transcript=Transcript(
            "run orders.yaml -t prod --until-caught-up",
            "1 table is blocked; the first is shop.orders: it is missing: the table does not exist",
            "shop.orders",
            "`floe status` shows all of them; what was announced for them waits and is not lost",
            (
                "floe status -t prod",
                "# Put the table back as it was; it goes on by itself within a minute. If it is gone for good:",
                "floe discard --table shop.orders -t prod --dry-run",
            ),
        ),
    ),
    Code(
        "FLOE-R111",
        "Promised records are gone",
        "Records or announcements were deleted before they were in every table. A stop lasted longer than the topic's retention.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "records 1200 to 1499 of orders-0 were removed by retention before they were read",
            "orders-0",
            "raise the topic's retention; the records can only come from their producer. To go on without them: `floe offsets set orders orders:0=1500 --allow-loss`, or set source.kafka.on_data_loss: skip_and_record, which records each gap",
            (
                "# Raise the topic's retention. To go on without these records:",
                "floe offsets set orders orders:0=1500 --allow-loss -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R112",
        "A deadline passed",
        "It did not happen in time, but may still happen. `floe status` shows what waits and why.",
        transcript=Transcript(
            "stop orders -t prod --timeout 60",
            "pipeline orders has not ended within 60 s: run d5b288230460",
            "control-iceberg",
            "the current batch may take longer: ask again with a longer --timeout; `floe status` shows what it does",
            (
                "floe status -t prod",
                "floe stop orders -t prod --timeout 600",
            ),
        ),
    ),
    Code(
        "FLOE-R137",
        "The pipeline is paused",
        "`floe run --until-caught-up` cannot end while somebody holds the pipeline's reading. The message says who and why.",
        transcript=Transcript(
            "run orders.yaml -t prod --until-caught-up",
            "pipeline orders cannot catch up: reading paused for `orders` by ada@ops at 2026-03-01 09:12:00 UTC: broker upgrade",
            "orders",
            "`floe resume --reading 'orders'` resumes it",
            (
                "floe resume --reading orders -t prod",
                "floe run orders.yaml -t prod --until-caught-up",
            ),
        ),
    ),
    Code(
        "FLOE-R138",
        "A run vanished",
        "The pipeline's newest run reported that it was running, but is no longer a member of its group: it was killed, or its machine is gone. Nothing is lost. The next run goes on from the safe offsets.",
        transcript=Transcript(
            "status -t prod",
            "run d5b288230460 vanished: it was killed, or its machine is gone",
            "orders: FAILED for 12m 3s",
            "`floe run FILE` goes on from the safe offsets",
            ("floe run orders.yaml -t prod",),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R139",
        "Too much waits for the tables",
        "Back-pressure: so much is announced but not yet in its tables that the pipeline stops reading for now. The limits are `commit.max_waiting_batches` and `commit.max_waiting_bytes`. Records wait in their topic, nothing is lost, and reading resumes by itself.",
        transcript=Transcript(
            "status -t prod",
            "2,000 batches with 31.2 GiB in 41,200 files wait for 2 tables, the oldest for shop.orders; the limits are 2,000 batches and 256.0 GiB",
            "orders: DEGRADED for 2m 5s",
            "`floe status` says why those tables wait; reading resumes by itself once they are committed",
            (
                "# Repair the table that the reason names. If nobody commits:",
                "floe coordinator -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R150",
        "A run makes no progress",
        "Nothing has happened in a phase of its batch for `monitoring.stalled_after_ms` of the target: no next phase, no finished task, no look at the source. The pipeline is STALLED; the reason names the phase, and `since` is when something last happened. What is announced is safe. Killing the run is safe too: the next one repeats the batch.",
        transcript=Transcript(
            "status -t prod",
            "no progress: batch 12, phase writing: the tasks of a batch are at work and none ends",
            "orders: STALLED for 12m 40s",
            "look at `spark.log` and at what the phase needs (broker, catalog, store, executors); `floe doctor` asks each; killing the run is safe: the next one repeats the batch",
            (
                "floe doctor orders.yaml -t prod",
                "# If everything answers, end the run by its process id and start it again:",
                "floe run orders.yaml -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R151",
        "A commit makes no progress",
        "A commit was begun and has had no answer for `monitoring.stalled_after_ms` of the target. The table is STALLED, and other tables go on. The catalog or the store does not answer. If the process is ended, the next coordinator finds out what became of the commit (invariant 7).",
        transcript=Transcript(
            "status -t prod",
            "its commit is under way and makes no progress",
            "shop.orders: STALLED for 12m 40s",
            "the catalog or the store does not answer: `floe doctor` asks both; ending the process is safe, since the next coordinator finds out what became of the commit",
            (
                "floe doctor -t prod",
                "floe coordinator -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R152",
        "Retention is about to take records that were not read",
        "Of what a partition of the source still holds more than 80 % is not announced. The pipeline may be RUNNING and too slow, held, or stopped; what retention removes before it is read is lost. `since` is the time of the first record that waits.",
        transcript=Transcript(
            "status -t prod",
            "retention is about to remove records that were not read: of the 5,000 that orders-0 still holds 90% are not announced",
            "pipeline orders: at risk for 6d 2h",
            "keep them longer first: `kafka-configs.sh --bootstrap-server BROKER --alter --topic orders --add-config retention.ms=604800000`; then see why it is behind: `floe readiness FILE` says how long is left",
            (
                "# Keep the records longer first, then see why the pipeline is behind:",
                "kafka-configs.sh --bootstrap-server BROKER --alter --topic orders --add-config retention.ms=1209600000",
                "floe readiness orders.yaml -t prod",
                "floe status -t prod --pipeline orders",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R153",
        "Who coordinates changes again and again",
        "Coordinator leadership went to another process more than three times in 15 minutes. Each new leader reads the control log again before it commits, so tables are late. Nothing is lost. Usual causes: drivers that start and fail, a machine short of CPU or memory, a broker that restarts.",
        transcript=Transcript(
            "status -t prod",
            "who coordinates changed 6 times in 15 minutes, and each reads the log again before it commits",
            "coordinator control-iceberg: at risk for 14m 3s",
            "`floe log --last 200` shows who; end drivers that start and fail, and look whether machines lack memory or the broker is restarted; `floe coordinator` on a quiet machine keeps leadership",
            (
                "floe log -t prod --last 200",
                "floe coordinator -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R154",
        "Many of the newest records are dead letters",
        "More than one in twenty of the records that a pipeline read last became dead letters. The pipeline goes on, and its other records are in their tables. Usual causes: a new schema, a new producer, or a broken one.",
        transcript=Transcript(
            "status -t prod",
            "24 (10.0%) of the newest 240 records are dead letters",
            "pipeline orders: at risk for 2m 3s",
            "`floe dlq stats FILE` says why, and which records; `floe pause --reading orders` holds it until file or producer is right",
            (
                "floe dlq stats orders.yaml -t prod",
                "floe dlq replay orders.yaml -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R155",
        "No record comes any more",
        "The pipeline runs and has read everything, and no record came for longer than its file says under `source.silent_after`. Usual causes: a producer that stopped, or that writes to another topic.",
        transcript=Transcript(
            "status -t prod",
            "no record came for longer than 900 seconds, which its file has as `source.silent_after`",
            "pipeline orders: at risk for 17m 3s",
            "look at the producer; `floe offsets show orders` shows the ends of its topics",
            (
                "floe offsets show orders -t prod",
                "floe status -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R156",
        "A transaction that is open hides records",
        "A producer began a transaction in a topic of the pipeline more than 15 minutes ago, which is as long as Kafka allows one by default, and neither committed nor aborted it. Nobody who reads committed records sees what is written behind its first record, so lag is 0 and nothing arrives. Nothing is lost: the records are read when the transaction ends. Usual causes: a producer that died without its transactional id being used again, or a broker's hanging transaction.",
        transcript=Transcript(
            "status -t prod",
            "a transaction is open in orders-0 and hides 1,204 offsets from 5,000 on",
            "pipeline orders: at risk for 17m 3s",
            "look whether its producer still works; if not, `kafka-transactions.sh --bootstrap-server BROKER abort --topic orders --partition 0 --start-offset 5000` ends it, and what is behind it is read",
            (
                "kafka-transactions.sh --bootstrap-server BROKER find-hanging --topic orders",
                "kafka-transactions.sh --bootstrap-server BROKER abort --topic orders --partition 0 --start-offset 5000",
                "floe status -t prod",
            ),
            ShownAs.STATUS,
        ),
    ),
    Code(
        "FLOE-R157",
        "Lent keys ended before the batch did",
        "A REST catalog lends keys of the store for each table, and their time was over while tasks still wrote files. Nothing of the batch was announced. floe does it again with new keys and half of the records, and keeps to that size for the rest of the run. If even few records take longer than the keys live, the run ends with this error after an hour, or after five tries if it reads to a fixed end.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "the keys that the catalog lends for shop.orders ended before the batch did: OSError: When initiating multiple part upload: AWS Error UNKNOWN (HTTP status 400)",
            "shop.orders",
            "have the catalog lend keys for longer than a batch takes; floe tries again by itself, with new keys and half of the records",
            (
                "# Set how long the catalog's keys live (in Polaris: STORAGE_CREDENTIAL_DURATION_SECONDS). Starting again is safe:",
                "floe doctor orders.yaml -t prod",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R322",
        "Too many dead letters in a batch",
        "`errors.max_ratio` is exceeded. The batch was not announced.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "640 of 1,000 records of this batch are dead letters; errors.max_ratio is 0.1",
            "orders",
            "`floe run` announced nothing of the batch; look at the producer, and at `floe dlq stats FILE`, or raise errors.max_ratio",
            (
                "# Dead letters of earlier batches; those of this one were not announced.",
                "floe dlq stats orders.yaml -t prod",
                "# Correct the producer or the file, or raise the limit for one run:",
                "floe run orders.yaml -t prod --set errors.max_ratio=0.7",
            ),
        ),
    ),
    Code(
        "FLOE-R323",
        "Too many dead letters",
        "`errors.max_count` is exceeded. The batch was not announced.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "1,001 dead letters since the pipeline first ran; errors.max_count is 1,000",
            "orders",
            "`floe run` announced nothing of the batch; look at the producer, and at `floe dlq stats FILE`, or raise errors.max_count",
            (
                "floe dlq stats orders.yaml -t prod",
                "# Correct the producer or the file, and raise `errors.max_count`: replayed dead letters still count.",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R324",
        "The query ended",
        "Spark ended the streaming query. The reason is in the message and in the driver's log. Starting again is safe.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "a batch failed: java.lang.OutOfMemoryError: Java heap space",
            "",
            "Spark's log has the details: `logs/spark.log` in the state directory",
            (
                "less .floe/logs/spark.log",
                "# Nothing was announced, so starting again is safe:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
    Code(
        "FLOE-R325",
        "A batch asks for changes without end",
        "A table was changed several times and the batch still does not fit it.",
        transcript=Transcript(
            "run orders.yaml -t prod",
            "batch 12 asked for table changes 8 times in a row",
            "",
            "report this with the driver's log",
            (
                "# See whether somebody else alters the table all the time; starting again is safe:",
                "floe run orders.yaml -t prod",
            ),
        ),
    ),
)

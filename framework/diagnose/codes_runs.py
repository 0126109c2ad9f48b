"""FLOE-R: something failed while running."""

# ruff: noqa: E501  (prose: one sentence is not cut by the width of a line)
from __future__ import annotations

from framework.diagnose.entry import CodeEntry as Code

ENTRIES = (
    Code("FLOE-R001", "A run failed", "The message says what happened. Starting again goes on from the safe offsets."),
    Code("FLOE-R101", "A run failed", "The message says what happened. Starting again goes on from the safe offsets."),
    Code(
        "FLOE-R104",
        "A newer run took over",
        "Two runs of one pipeline cannot both announce: the newer one fenced this one (invariant 2). Exit code 4 is final; a supervisor that restarts it would make the two fence each other for ever. Stop one of them.",
    ),
    Code(
        "FLOE-R105",
        "Stored positions disagree",
        "The consumer group, the control topic and the tables each know how far a pipeline is, and they do not agree. Both values are shown, with the command that settles it. Nothing is guessed.",
    ),
    Code(
        "FLOE-R107",
        "An outcome is not known",
        "Something was sent and no answer came. floe reads back what happened before anything else, and deletes nothing meanwhile (invariant 7).",
    ),
    Code(
        "FLOE-R108",
        "A batch does not add up",
        "Offsets in the range are not the sum of what was written, filtered, dead-lettered, dropped, holes and lost (invariant 8). The batch was not announced.",
    ),
    Code(
        "FLOE-R109",
        "A record cannot be written",
        "`errors.policy` or `routes.unrouted` is `fail`, so the run stops at the first such record. Nothing of its batch was announced.",
    ),
    Code(
        "FLOE-R110",
        "A table is blocked",
        "The table is missing, was replaced or rolled back, or refuses a change. Its announcements wait; the other tables go on (invariant 10).",
    ),
    Code(
        "FLOE-R111",
        "Promised records are gone",
        "Records or announcements were deleted before they were in every table. Retention was shorter than the longest stop.",
    ),
    Code(
        "FLOE-R112",
        "A deadline passed",
        "What was asked for did not happen in time; it may still happen. `floe status` shows what waits and why.",
    ),
    Code(
        "FLOE-R113",
        "The low-water mark is of another control topic",
        "The control topic was recreated, or the coordinator's offset was set by hand (invariant 11).",
    ),
    Code(
        "FLOE-R114",
        "Announcements were deleted by retention",
        "The control topic starts behind what is in every table (invariant 6). Raise its retention; the rows between must be read again.",
    ),
    Code(
        "FLOE-R115",
        "The beginning of the control topic is gone",
        "No low-water mark is stored and the log does not start at 0, so announcements may be missing (invariant 6).",
    ),
    Code(
        "FLOE-R117",
        "The control topic lost records that were read",
        "Its log ends below, or was cut off below, a position up to which it was read: an unclean election, or a disk that was put back. What is announced from then on could stand where nobody reads (invariant 6).",
    ),
    Code(
        "FLOE-R116",
        "A topic was recreated while it was read",
        "Offsets are valid for one topic id only (invariant 11).",
    ),
    Code("FLOE-R120", "Kafka could not do it now", "Kafka says that it will pass; floe tries again by itself."),
    Code(
        "FLOE-R121",
        "Kafka refused",
        "Kafka answered with an error that does not pass by itself; its name is in the message.",
    ),
    Code(
        "FLOE-R122",
        "An announcement was aborted",
        "The transaction certainly did not happen; it is tried again by itself.",
    ),
    Code(
        "FLOE-R123",
        "Kafka gives no records",
        "The partition has records and none come: it has no leader, or the connection is cut.",
    ),
    Code(
        "FLOE-R131",
        "A table that floe does not write",
        "floe writes tables of format versions 1, 2 and 3, of version 3 through REST and SQL catalogs alone. A table with a column of the types variant, unknown, geometry or geography, one that is partitioned by nanoseconds themselves, or one with encrypted files is not touched; the message says what it is.",
    ),
    Code("FLOE-R132", "A table could not be created", "The catalog or the store refused; the message has its words."),
    Code(
        "FLOE-R133",
        "A table cannot be partitioned so",
        "The column does not exist in the first records, or the transform does not take its type.",
    ),
    Code(
        "FLOE-R134",
        "A table's definition could not be read or changed",
        "The catalog did not answer as expected; the change is planned again.",
    ),
    Code(
        "FLOE-R135",
        "A table cannot be loaded",
        "The catalog does not answer, or the table's metadata file is gone. While the catalog answers and other tables of it can be loaded, this table alone is in trouble: it is written as it was known, or after 20 s its records are dead letters, or what `errors.policy` says. Otherwise it is an outage, which is waited out.",
    ),
    Code(
        "FLOE-R142",
        "A table lies elsewhere, or sends its files elsewhere",
        "Its location, `write.data.path` or `write.metadata.path` names a place that is neither below the catalog's `warehouse` nor below one of `allow.locations` of the target. Whoever may alter a table may set them, so floe does not follow: it reads, writes and removes nothing there. A run that knows the table goes on writing to it as it was; otherwise its records are dead letters, or what `errors.policy` says. Other tables go on. Where the warehouse of a REST catalog is a mere name and the target allows no locations, the server is trusted with where its tables lie.",
    ),
    Code(
        "FLOE-R143",
        "A table's properties cannot be written with",
        "Somebody set a property that Parquet's writer cannot heed: a size that is no positive number, a codec or a metrics mode that does not exist. A task would fail over it and stop every table of the pipeline, so this table alone is refused until it is unset.",
    ),
    Code(
        "FLOE-R144",
        "Rows of a table cannot be replaced by key",
        "`write.mode: upsert` needs a table of format version 2 or 3 that has the key columns, and whose deletes floe can read; equality deletes of other writers it cannot. The message says what is wrong. The pipeline holds: it reads nothing past the batch, tries again, and goes on by itself when the table is mended; a run that is to end ends. A change that were left out could not be made up for later.",
    ),
    Code(
        "FLOE-R145",
        "Changes by key are written by batches alone",
        "Which change of a key is the newest is found among all that a batch has of it, by the order of the source. A record that comes back from the dead letters has no place in that order, so it is not written to a table that follows its keys.",
    ),
    Code(
        "FLOE-R140",
        "The catalog refuses a table or a change of it",
        "It answers that these credentials may not make or change the table, or that it will not. For 20 s it is asked again; then records that ask for the change are dead letters, or what `errors.policy` says, and it is asked again each minute. All other records are written.",
    ),
    Code(
        "FLOE-R141",
        "The schema registry does not answer",
        "Records name schemas that only it knows. The batch waits and is tried again; nothing is announced meanwhile, and no record is judged.",
    ),
    Code(
        "FLOE-R136",
        "Commits of a table fail",
        "The catalog or the store does not take them. A table is DEGRADED from the first failure and FAILED from the tenth in a row; it is tried on for ever, and what is announced waits.",
    ),
    Code(
        "FLOE-R137",
        "The pipeline is paused",
        "`floe run --until-caught-up` cannot end while somebody holds the pipeline's reading. The message says who and why.",
    ),
    Code(
        "FLOE-R138",
        "A run ended without a word",
        "The pipeline's newest run told that it was running, and is no member of its group any more: it was killed, or its machine is gone. Nothing is lost; the next run goes on from the safe offsets.",
    ),
    Code(
        "FLOE-R139",
        "Too much waits for the tables",
        "Back-pressure: so much is announced and not yet in its tables that the pipeline reads nothing more for now. The limits are `commit.max_waiting_batches` and `commit.max_waiting_bytes`. Records wait in their topic, nothing is lost, and reading goes on by itself.",
    ),
    Code(
        "FLOE-R190",
        "The demonstration does not add up",
        "The tables do not hold every record exactly once; this is an error of floe.",
    ),
    Code(
        "FLOE-R201",
        "A value has no JSON form",
        "A control event holds a value that JSON cannot. Another partition transform avoids it.",
    ),
    Code(
        "FLOE-R202",
        "A control record is not floe's",
        "A record of the control topic is named like an event of floe and cannot be read: a newer floe wrote it, or something else did. Announcements are never skipped, so reading stops there; `floe log --skip OFFSET` lets that record pass by your word. What is no event at all is passed over, and `floe log` shows it.",
    ),
    Code(
        "FLOE-R203",
        "A control event is too large",
        "A single announcement is above the limit even when split: one batch touches very many partitions of the source or tables.",
    ),
    Code(
        "FLOE-R205",
        "Nothing to skip at this offset",
        "`floe log --skip` lets a record of the control topic pass that cannot be read. The one at this offset can be, or there is none.",
    ),
    Code(
        "FLOE-R313",
        "A group offset is not floe's",
        "Something else committed to the pipeline's consumer group, or its offsets were set by hand.",
    ),
    Code(
        "FLOE-R314",
        "A group offset is missing",
        "A partition was announced before and the group has no offset for it now. It is never read as new.",
    ),
    Code("FLOE-R315", "A partition is gone", "A partition that was read does not exist any more."),
    Code(
        "FLOE-R316",
        "A topic was recreated",
        "The topic has another id than the one that was read (invariant 11). A pipeline with a new name begins anew.",
    ),
    Code("FLOE-R317", "The safe offset is behind the log's end", "The broker lost records, or it is another cluster."),
    Code(
        "FLOE-R318",
        "Something else moves the offsets",
        "After an unknown outcome the group's offsets are neither at the batch's start nor at its end.",
    ),
    Code(
        "FLOE-R319",
        "The announcements are gone",
        "The pipeline's offsets were committed with announcements, and the control topic knows none of them: it was "
        "recreated, or another one is named now. What was announced and not committed would be lost without a word.",
    ),
    Code(
        "FLOE-R320",
        "A table holds the pipeline's records by another control topic",
        "What a table records of a pipeline is filed under the id of the control topic in which it was announced (invariant 11). Another id means another cluster, a control topic that was recreated, or another pipeline of the same name. Going on would add the same records again. `floe rebase` takes over what the tables hold.",
    ),
    Code(
        "FLOE-R321",
        "A pipeline without a past, and tables that hold its records",
        "Consumer group and control topic know nothing of the pipeline, so it would read from `starting_offsets`, and a table holds its records already. `floe rebase` goes on from there.",
    ),
    Code("FLOE-R322", "Too many dead letters in a batch", "`errors.max_ratio` is passed; the batch was not announced."),
    Code("FLOE-R323", "Too many dead letters", "`errors.max_count` is passed; the batch was not announced."),
    Code(
        "FLOE-R326",
        "What was replayed cannot be told",
        "The control topic knows of replays of dead letters that the table of marks does not hold: it is blocked, or was dropped. A replay now could write records a second time.",
    ),
    Code(
        "FLOE-R327",
        "A table's record was taken away",
        "Snapshots show that floe committed to the table, but its property floe.progress is gone, so nobody knows which records it holds. Its value stands in earlier metadata files of the table.",
    ),
    Code(
        "FLOE-R324",
        "The query ended",
        "Spark ended the streaming query; its reason is in the message and in the driver's log. Starting again is safe.",
    ),
    Code(
        "FLOE-R325",
        "A batch asks for changes without end",
        "A table was changed several times and the batch still does not fit it.",
    ),
    Code(
        "FLOE-R341",
        "The pipeline reads no such partition",
        "An offset was given for a topic or partition that the pipeline has never read and that its file does not name.",
    ),
    Code(
        "FLOE-R342",
        "The offset is outside its log",
        "A pipeline can only be set to an offset that the topic still holds, or to its end.",
    ),
    Code(
        "FLOE-R343",
        "The place knows no offsets of the pipeline",
        "`--from-log` needs an announcement of the pipeline in the control topic, `--from-tables` a table that records it.",
    ),
    Code(
        "FLOE-R344",
        "The move would lose records",
        "Records between what is announced and the new offset would never be read. `--allow-loss` consents; the event in the control topic says how many they were.",
    ),
    Code(
        "FLOE-R345",
        "The move would add records twice",
        "Records from the new offset on are in tables, or announced for them, and would be read again. `--allow-duplicates` consents.",
    ),
    Code(
        "FLOE-R346",
        "The offsets changed while they were looked at",
        "Another run or another person moved them in between. Nothing was set.",
    ),
    Code(
        "FLOE-R350",
        "The topics are those that the tables were filled from",
        "`floe rebase --begin-at` is for topics that hold other records. Here it would add records twice or skip some; `floe offsets set` moves offsets by consent.",
    ),
    Code(
        "FLOE-R351",
        "A table holds nothing of the pipeline",
        "When announcements are lost, a table that exists and holds nothing may lack what was announced for it, and nothing says from where on. A person says whether it lacks something.",
    ),
    Code(
        "FLOE-R352",
        "What a table lacks was removed by retention",
        "The table that holds least of the pipeline ends before the topic begins. If nothing was routed there for long it lacks nothing; else those records are lost.",
    ),
    Code(
        "FLOE-R353",
        "Tables were not filled by one history",
        "Each table's record of a pipeline is where one of its batches ended, so no two can each be ahead of the other. These are: pipelines of one name filled them.",
    ),
    Code(
        "FLOE-R354",
        "A recovery stopped at a table",
        "The catalog refused, or did not answer. What was done before holds; the same command goes on from what the tables say.",
    ),
    Code(
        "FLOE-R355",
        "What waits for the table can still come into it",
        "`floe discard` gives up announcements of a table that does not exist, was replaced or lost a column. Anything else that holds a table is settled in another way, and nothing has to be given up.",
    ),
    Code(
        "FLOE-R371",
        "A table's manifests cannot all be read",
        "What cannot be read might name a file that is in use, so nothing of the table is removed (invariant 12).",
    ),
    Code(
        "FLOE-R372",
        "A table's files cannot be listed",
        "The store does not answer, or the credentials may not list it.",
    ),
    Code("FLOE-R373", "A file cannot be removed", "The store refuses. What was removed before it stays removed."),
    Code(
        "FLOE-R374",
        "The age is below the safety age",
        "Files that are younger than a day may belong to a batch that is under way. `floe clean` never looks at them.",
    ),
    Code(
        "FLOE-R356",
        "There is no such snapshot to go back to",
        "A table goes back to a snapshot that its head was built on and that has not expired.",
    ),
    Code(
        "FLOE-R357",
        "What a rollback gives up cannot be told",
        "Which source records were in the snapshots given up is read from their files and from the control log. Some have expired, the log does not go back far enough, or another control topic made them.",
    ),
    Code("FLOE-R358", "Nothing to replay", "Between the offsets named with `--from` and `--to` lies nothing."),
    Code(
        "FLOE-R359",
        "The table may hold what is to be replayed",
        "`floe replay` adds what a table lacks. Rows of these source ranges are in it, or it has no columns of Kafka's positions that could tell. `--allow-duplicates` adds them although.",
    ),
)

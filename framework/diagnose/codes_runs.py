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
        "Two runs of one pipeline cannot both announce: the newer one fenced this one (invariant 2). Exit code 4 is final. A supervisor that restarts it would make the two fence each other for ever. Stop one of them.",
    ),
    Code(
        "FLOE-R105",
        "Stored positions disagree",
        "The consumer group, the control topic and the tables each record how far a pipeline is, and they do not agree. The message shows both values and the command that settles it. floe does not guess.",
    ),
    Code(
        "FLOE-R107",
        "An unknown outcome",
        "A request was sent and no answer came. floe first reads back what happened, and deletes nothing until it knows (invariant 7).",
    ),
    Code(
        "FLOE-R108",
        "A batch does not add up",
        "The number of offsets in the range is not the sum of written, filtered, dead-lettered, dropped, hole and lost offsets (invariant 8). The batch was not announced.",
    ),
    Code(
        "FLOE-R109",
        "A record cannot be written",
        "`errors.policy` or `routes.unrouted` is `fail`, so the run stops at the first such record. Nothing of its batch was announced.",
    ),
    Code(
        "FLOE-R110",
        "A table is blocked",
        "The table is missing, was replaced or rolled back, or refuses a change. Its announcements wait. The other tables go on (invariant 10).",
    ),
    Code(
        "FLOE-R111",
        "Promised records are gone",
        "Records or announcements were deleted before they were in every table. A stop lasted longer than the topic's retention.",
    ),
    Code(
        "FLOE-R112",
        "A deadline passed",
        "It did not happen in time, but may still happen. `floe status` shows what waits and why.",
    ),
    Code(
        "FLOE-R113",
        "The low-water mark belongs to another control topic",
        "The control topic was recreated, or the coordinator's offset was set by hand (invariant 11).",
    ),
    Code(
        "FLOE-R114",
        "Announcements were deleted by retention",
        "The control topic begins after the point up to which every table is complete (invariant 6). Raise its retention. The rows in between must be read again.",
    ),
    Code(
        "FLOE-R115",
        "The beginning of the control topic is gone",
        "No low-water mark is stored and the log does not start at 0, so announcements may be missing (invariant 6).",
    ),
    Code(
        "FLOE-R117",
        "The control topic lost records that were read",
        "Its log ends before a position up to which it was already read: an unclean leader election, or a disk restored from a backup. New announcements could land at offsets that count as read (invariant 6).",
    ),
    Code(
        "FLOE-R116",
        "A topic was recreated while it was read",
        "Offsets are valid for one topic id only (invariant 11).",
    ),
    Code("FLOE-R120", "A temporary error of Kafka", "Kafka reports an error that passes. floe tries again by itself."),
    Code(
        "FLOE-R121",
        "Kafka refused a request",
        "Kafka answered with an error that does not pass by itself. The message names it.",
    ),
    Code(
        "FLOE-R122",
        "An announcement was aborted",
        "The transaction certainly did not happen. floe tries again by itself.",
    ),
    Code(
        "FLOE-R123",
        "Kafka gives no records",
        "The partition has records but delivers none: it has no leader, or the connection is broken.",
    ),
    Code(
        "FLOE-R131",
        "A table that floe does not write",
        "floe writes tables of format versions 1, 2 and 3; of version 3 only through REST and SQL catalogs. It does not touch a table that has encrypted files, is partitioned by a nanosecond column itself, or has a column of type variant, unknown, geometry or geography. The message says which.",
    ),
    Code("FLOE-R132", "A table could not be created", "The catalog or the store refused. The message quotes it."),
    Code(
        "FLOE-R133",
        "A table cannot be partitioned this way",
        "The first records do not have the column, or the transform does not apply to its type.",
    ),
    Code(
        "FLOE-R134",
        "A table's definition could not be read or changed",
        "The catalog did not answer as expected. The change is planned again.",
    ),
    Code(
        "FLOE-R135",
        "A table cannot be loaded",
        "The catalog does not answer, or the table's metadata file is gone. If the catalog answers and other tables can be loaded, only this table is in trouble: a run that knows it goes on writing to it; otherwise, after 20 s, its records are dead letters, or what `errors.policy` says. If no table can be loaded, it is an outage, and the run waits.",
    ),
    Code(
        "FLOE-R142",
        "A table's location is not allowed",
        "Its location, `write.data.path` or `write.metadata.path` is neither below the catalog's `warehouse` nor below one of the target's `allow.locations`. Anyone who may alter a table can set these, so floe reads, writes and removes nothing there. A run that knew the table before goes on writing to its old location; otherwise its records are dead letters, or what `errors.policy` says. Other tables go on. If the warehouse of a REST catalog is only a name and the target allows no locations, floe trusts the server to choose locations.",
    ),
    Code(
        "FLOE-R143",
        "A table has invalid write properties",
        "Somebody set a property that the Parquet writer cannot use: a size that is not a positive number, or a codec or a metrics mode that does not exist. Tasks would fail and stop every table of the pipeline, so floe refuses this one table until the property is unset.",
    ),
    Code(
        "FLOE-R144",
        "Rows of a table cannot be replaced by key",
        "`write.mode: upsert` needs a table of format version 2 or 3 that has the key columns, and whose deletes floe can read; equality deletes of other writers it cannot. Each key must have one row: before a table is first changed by its key, floe looks through it once. The message says what is wrong. The pipeline holds: it reads nothing past the batch, tries again, and goes on by itself when the table is mended; a run that is to end ends. A change that were left out could not be made up for later.",
    ),
    Code(
        "FLOE-R145",
        "Changes by key are written by batches alone",
        "Which change of a key is the newest is known by the order of the source. A record that comes late, by `floe replay` or `floe dlq replay`, has no place in that order: it could replace a newer row. So neither command writes to a table that follows its keys, and `floe rollback` does not take one back. To make such a table right again, drop it, and let a new pipeline read its topics from their start.",
    ),
    Code(
        "FLOE-R140",
        "The catalog refuses a table or a change of it",
        "The catalog answers that these credentials may not create or change the table, or that it will not do so. floe asks again for 20 s. After that, records that need the change are dead letters, or what `errors.policy` says, and floe asks again every minute. All other records are written.",
    ),
    Code(
        "FLOE-R141",
        "The schema registry does not answer",
        "Records name schemas that only the registry knows. The batch waits and is tried again. Until then nothing is announced, and no record becomes a dead letter.",
    ),
    Code(
        "FLOE-R136",
        "Commits of a table fail",
        "The catalog or the store refuses them. A table is DEGRADED from the first failure and FAILED from the tenth in a row. floe keeps trying; what is announced waits.",
    ),
    Code(
        "FLOE-R150",
        "A run makes no progress",
        "Nothing has happened in a phase of its batch for `monitoring.stalled_after_ms` of the target: no next phase, no finished task, no look at the source. The pipeline is STALLED; the reason names the phase, and `since` is when something last happened. What is announced is safe. Killing the run is safe too: the next one repeats the batch.",
    ),
    Code(
        "FLOE-R151",
        "A commit makes no progress",
        "A commit was begun and has had no answer for `monitoring.stalled_after_ms` of the target. The table is STALLED, and other tables go on. The catalog or the store does not answer. If the process is ended, the next coordinator finds out what became of the commit (invariant 7).",
    ),
    Code(
        "FLOE-R137",
        "The pipeline is paused",
        "`floe run --until-caught-up` cannot end while somebody holds the pipeline's reading. The message says who and why.",
    ),
    Code(
        "FLOE-R138",
        "A run vanished",
        "The pipeline's newest run reported that it was running, but is no longer a member of its group: it was killed, or its machine is gone. Nothing is lost. The next run goes on from the safe offsets.",
    ),
    Code(
        "FLOE-R139",
        "Too much waits for the tables",
        "Back-pressure: so much is announced but not yet in its tables that the pipeline stops reading for now. The limits are `commit.max_waiting_batches` and `commit.max_waiting_bytes`. Records wait in their topic, nothing is lost, and reading resumes by itself.",
    ),
    Code(
        "FLOE-R190",
        "The demonstration does not add up",
        "The tables do not hold every record exactly once. This is a bug in floe.",
    ),
    Code(
        "FLOE-R201",
        "A value has no JSON form",
        "A control event holds a value that JSON cannot express. Another partition transform avoids it.",
    ),
    Code(
        "FLOE-R202",
        "A control record cannot be read",
        "A record of the control topic claims to be an event of floe but cannot be read: a newer floe or another program wrote it. floe never skips announcements, so reading stops there. `floe log --skip OFFSET` skips that one record on your responsibility. floe skips records that are not events, and `floe log` shows them.",
    ),
    Code(
        "FLOE-R203",
        "A control event is too large",
        "A single announcement exceeds the limit even when split: one batch touches very many source partitions or tables.",
    ),
    Code(
        "FLOE-R205",
        "Nothing to skip at this offset",
        "`floe log --skip` skips a record of the control topic that cannot be read. The record at this offset can be read, or there is none.",
    ),
    Code(
        "FLOE-R313",
        "A group offset is not floe's",
        "Another program committed to the pipeline's consumer group, or somebody set its offsets by hand.",
    ),
    Code(
        "FLOE-R314",
        "A group offset is missing",
        "A partition was announced before, but the group now has no offset for it. floe never treats it as new.",
    ),
    Code("FLOE-R315", "A partition is gone", "A partition that was read does not exist any more."),
    Code(
        "FLOE-R316",
        "A topic was recreated",
        "The topic's id differs from that of the topic that was read (invariant 11). To start over, give the pipeline a new name.",
    ),
    Code(
        "FLOE-R317", "The safe offset is behind the log's end", "The broker lost records, or this is another cluster."
    ),
    Code(
        "FLOE-R318",
        "Another program moves the offsets",
        "After an unknown outcome the group's offsets are neither at the batch's start nor at its end.",
    ),
    Code(
        "FLOE-R319",
        "The announcements are gone",
        "The pipeline's offsets were committed with announcements, but the control topic holds none of them: it was "
        "recreated, or the target now names another topic. What was announced and not committed would be lost silently.",
    ),
    Code(
        "FLOE-R320",
        "A table got the pipeline's records through another control topic",
        "A table records a pipeline's progress under the id of the control topic in which it was announced (invariant 11). A different id means another cluster, a recreated control topic, or another pipeline of the same name. Going on would add the same records again. `floe rebase` takes over what the tables hold.",
    ),
    Code(
        "FLOE-R321",
        "A new pipeline, but tables hold its records",
        "The consumer group and the control topic do not know the pipeline, so it would read from `starting_offsets`; but a table already holds its records. `floe rebase` goes on from there.",
    ),
    Code(
        "FLOE-R322", "Too many dead letters in a batch", "`errors.max_ratio` is exceeded. The batch was not announced."
    ),
    Code("FLOE-R323", "Too many dead letters", "`errors.max_count` is exceeded. The batch was not announced."),
    Code(
        "FLOE-R326",
        "It is unclear what was replayed",
        "The control topic knows of replays of dead letters that the table of replayed letters does not hold: that table is blocked, or was dropped. A replay now could write records a second time.",
    ),
    Code(
        "FLOE-R327",
        "A table lost its progress",
        "Snapshots show that floe committed to the table, but its property floe.progress is gone, so it is not known which records it holds. Earlier metadata files of the table still have the value.",
    ),
    Code(
        "FLOE-R324",
        "The query ended",
        "Spark ended the streaming query. The reason is in the message and in the driver's log. Starting again is safe.",
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
        "No offsets of the pipeline are recorded there",
        "`--from-log` needs an announcement of the pipeline in the control topic; `--from-tables` needs a table that records the pipeline's offsets.",
    ),
    Code(
        "FLOE-R344",
        "The move would lose records",
        "Records between the last announced offset and the new one would never be read. `--allow-loss` accepts that. The event in the control topic records how many there were.",
    ),
    Code(
        "FLOE-R345",
        "The move would add records twice",
        "Records from the new offset on are already in tables, or announced for them, and would be written again. `--allow-duplicates` accepts that.",
    ),
    Code(
        "FLOE-R346",
        "The offsets changed while they were looked at",
        "Another run or person moved them in the meantime. Nothing was set.",
    ),
    Code(
        "FLOE-R350",
        "These are the topics that the tables were filled from",
        "`floe rebase --begin-at` is for topics that hold other records. Here it would add records twice or skip some. To move offsets deliberately, use `floe offsets set`.",
    ),
    Code(
        "FLOE-R351",
        "A table holds nothing of the pipeline",
        "When announcements are lost, a table without records of the pipeline may lack some that were announced for it, and nothing says since when. You must say whether it lacks anything.",
    ),
    Code(
        "FLOE-R352",
        "What a table lacks was removed by retention",
        "The table that is furthest behind ends before the topic begins. If no records were routed to it for a long time, it lacks nothing; otherwise those records are lost.",
    ),
    Code(
        "FLOE-R353",
        "The tables' records contradict each other",
        "Each table records where one of the pipeline's batches ended, so two tables cannot each be ahead of the other. These two are: different pipelines of the same name filled them.",
    ),
    Code(
        "FLOE-R354",
        "A recovery stopped at a table",
        "The catalog refused, or did not answer. What was done before stays done. Run the same command again; it continues from there.",
    ),
    Code(
        "FLOE-R355",
        "What waits for the table can still be committed",
        "`floe discard` gives up announcements for a table that does not exist, was replaced or lost a column. Any other problem of a table can be solved without giving anything up.",
    ),
    Code(
        "FLOE-R371",
        "Some of a table's manifests cannot be read",
        "They might name files that are in use, so no file of the table is removed (invariant 12).",
    ),
    Code(
        "FLOE-R372",
        "A table's files cannot be listed",
        "The store does not answer, or the credentials do not allow listing.",
    ),
    Code("FLOE-R373", "A file cannot be removed", "The store refused. Files removed before it stay removed."),
    Code(
        "FLOE-R380",
        "Maintenance of a table stopped",
        "The catalog or the store did not do what was asked, or others changed the table all the time. What was done before stays done, and nothing that is needed was removed. Files that it left behind are found as orphans; run `floe maintain` again, or wait for the coordinator's next turn.",
    ),
    Code(
        "FLOE-R374",
        "The age is below the safety age",
        "Files younger than a day may belong to a batch in progress. `floe clean` never touches them.",
    ),
    Code(
        "FLOE-R356",
        "No such snapshot to roll back to",
        "A table can go back only to an ancestor of its current snapshot that has not expired.",
    ),
    Code(
        "FLOE-R357",
        "It is unclear what a rollback gives up",
        "floe reads from the snapshots' files and from the control log which source records they held. Some snapshots have expired, the log does not go back far enough, or another control topic filled them.",
    ),
    Code("FLOE-R358", "Nothing to replay", "There are no records between `--from` and `--to`."),
    Code(
        "FLOE-R359",
        "The table may hold what is to be replayed",
        "`floe replay` adds what a table lacks. This table already has rows from these source ranges, or it has no columns with Kafka positions, so floe cannot check. `--allow-duplicates` adds them anyway.",
    ),
)

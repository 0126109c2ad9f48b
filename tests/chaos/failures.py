"""The failures that users of Kafka-to-Iceberg systems have reported, F01 to F68, and what answers each here.

Plain data for `tests.chaos.report`. Tests carry `@pytest.mark.failure("F05")`, or are named here when they show it
among other things: `path::test`, or a path alone for all its tests. A failure that cannot occur has a reason instead.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """`wrong` is what users saw, `answer` what holds here, `reason` why it cannot occur (then tests are not needed)."""

    wrong: str
    answer: str
    tests: tuple[str, ...] = ()
    reason: str = ""


STEP = "tests/unit/commit/test_coordinator_step.py::"
COMMIT = "tests/iceberg/test_commit.py::"
OUTCOME = "tests/iceberg/test_unknown_outcome.py::"
E2E = "tests/spark/test_end_to_end.py::"
OFFSETS = "tests/unit/commit/test_offsets.py::"
BATCH = "tests/unit/runtime/test_batch.py::"
PROCESS = "tests/unit/record/test_process.py::"
VALUES = "tests/unit/record/test_values.py::"
EXPIRY = "tests/iceberg/test_expiry_beside_others.py::"
EVOLVE = "tests/unit/table/test_evolve.py::"

FAILURES: dict[str, Failure] = {
    "F01": Failure(
        "two coordinators after a rebalance both write",
        "commits are conditional on what was examined: the older one's are refused (invariant 4)",
        ("tests/kafka/test_leadership.py::test_a_stopped_owner_wakes_up_without_leadership",),
    ),
    "F02": Failure(
        "a stale coordinator moves stored progress back",
        "progress never moves back, and moves only with its files (invariant 3)",
        (
            COMMIT + "test_progress_never_moves_back",
            "tests/unit/commit/test_table_progress.py::test_progress_never_moves_back",
        ),
    ),
    "F03": Failure(
        "announced files are skipped when nothing was committed yet",
        "a coordinator without a position reads the log from its beginning (invariant 6)",
        (
            STEP + "test_without_a_position_reading_begins_at_the_log_start",
            "tests/kafka/test_leadership.py::test_the_first_owner_reads_from_the_beginning",
        ),
    ),
    "F04": Failure(
        "one file is registered in two snapshots",
        "progress in the same commit as the files, and a repeat is known by its offsets (invariant 5)",
        (
            STEP + "test_a_repeated_batch_adds_nothing",
            STEP + "test_records_delivered_twice_are_folded_once",
            COMMIT + "test_a_file_named_twice_is_refused",
        ),
    ),
    "F05": Failure(
        "partitions are counted instead of covered",
        "a batch must cover every range exactly; an announcement with a part missing blocks its pipeline",
        (
            BATCH + "test_slices_must_cover_the_ranges",
            STEP + "test_an_incomplete_announcement_blocks_its_pipeline",
            STEP + "test_valid_through_is_the_least_of_the_busy_partitions",
        ),
    ),
    "F06": Failure(
        "idle tasks never answer and each round waits for a time-out",
        "no round trip to workers; an idle partition costs nothing and an idle pipeline makes no snapshot",
        (STEP + "test_the_low_water_mark_reaches_the_end_of_an_idle_log",),
    ),
    "F07": Failure(
        "commit failures never surface",
        "failures are reported, counted and retried; `--until-caught-up` ends with a reason and a code that is not 0",
        (
            STEP + "test_a_failed_commit_is_decided_again_after_a_growing_pause",
            STEP + "test_a_request_is_answered_at_its_deadline",
        ),
    ),
    "F08": Failure(
        "an unknown outcome is retried blindly, or its files are deleted",
        "read back first, delete nothing meanwhile (invariant 7)",
        (
            OUTCOME + "test_an_applied_commit_is_found_whatever_the_answer_was",
            OUTCOME + "test_a_catalog_that_falls_silent_leaves_everything_in_place",
            "tests/kafka/test_unknown_outcome.py",
        ),
    ),
    "F09": Failure(
        "a table is dropped or replaced and its files are thrown away",
        "that table alone is blocked, its announcements wait (invariant 10)",
        (
            COMMIT + "test_a_table_that_was_dropped_and_made_again_takes_no_old_files",
            STEP + "test_a_table_in_trouble_waits_alone_and_goes_on_by_itself",
        ),
    ),
    "F10": Failure(
        "the cluster or the control topic is recreated and everything is filtered out",
        "offsets are qualified by topic ids (invariant 11): refused with both ids",
        (
            "tests/kafka/test_leadership.py::test_a_mark_of_another_topic_id_is_reported",
            STEP + "test_a_position_that_cannot_be_trusted_stops_the_coordinator",
        ),
    ),
    "F11": Failure(
        "the source topic is recreated, or retention passed the reader",
        "refused with the range that is gone, or, if the pipeline says so, skipped and recorded; never a silent reset",
        (
            "tests/kafka/test_fetch.py::test_a_lost_range_is_an_error_not_a_jump",
            OFFSETS + "test_an_offset_outside_its_log_stops",
            OFFSETS + "test_skip_and_record_goes_on_behind_what_retention_removed",
            BATCH + "test_a_gap_is_a_batch_of_its_own_and_the_sum_names_it",
            STEP + "test_a_gap_in_the_source_that_was_recorded_does_not_break_the_chain",
        ),
    ),
    "F12": Failure(
        "added source partitions are not read",
        "read from offset 0 at the next look at the topic, without a restart",
        (OFFSETS + "test_a_grown_topic_is_read_from_its_log_start",),
    ),
    "F13": Failure(
        "a restart or a rebalance loses or repeats rows",
        "the set of positions is exact after random kills",
        (
            "tests/protocol/test_histories.py",
            "tests/protocol/test_exploration.py",
        ),
    ),
    "F14": Failure(
        "a time-out mixes cycles, so that changes of a key are applied in the wrong order",
        "batches of a pipeline are committed in their order (invariant 2), and the next one of an upsert table is read when "
        "the one before is in it",
        (
            STEP + "test_a_broken_chain_blocks_its_pipeline",
            "tests/iceberg/test_keyed_commits.py::test_two_batches_that_were_announced_at_once_follow_one_another",
        ),
    ),
    "F15": Failure(
        "a failure half way through many tables writes the finished ones again",
        "each table's own progress says what it holds",
        (STEP + "test_a_batch_that_the_table_records_is_a_repeat_although_its_announcement_is_new",),
    ),
    "F16": Failure(
        "file names of two attempts collide and data is overwritten",
        "a fresh unique name for every file of every attempt; no path is live twice",
        ("tests/iceberg/test_parquet_files.py",),
    ),
    "F17": Failure(
        "a new job or checkpoint id forgets what was committed",
        "nothing is kept in a checkpoint; the pipeline's name is the key",
        (E2E + "test_fan_out_lands_every_record_once",),
    ),
    "F18": Failure(
        "the marker snapshots expire or are rolled back",
        "progress is a table property; a rollback is noticed and blocks the table",
        (COMMIT + "test_progress_outlives_the_expiry_of_its_snapshots", COMMIT + "test_a_rollback_shows_in_the_view"),
    ),
    "F19": Failure(
        "an announcement is too large for the broker",
        "announcements are split at 512 KiB",
        (
            "tests/unit/commit/test_control_codec.py::test_five_thousand_partitions_and_wide_tables_fit_the_limit",
            STEP + "test_parts_of_one_announcement_are_never_divided",
        ),
    ),
    "F20": Failure(
        "the control topic is compacted, expires, or group offsets expire",
        "settings are checked at every start; every transaction sends all offsets",
        ("tests/kafka/test_control_topic.py", "tests/kafka/test_offset_expiry.py"),
    ),
    "F21": Failure(
        "groups and transactional ids multiply, or two pipelines share one",
        "all names come from prefix and pipeline; the newer of two runs fences the older",
        ("tests/kafka/test_worker.py::test_pipelines_do_not_fence_each_other",),
    ),
    "F22": Failure(
        "concurrent evolution fails with 'already exists'",
        "changes are conditional on the schema; 'already there' is success",
        (
            "tests/iceberg/test_define.py::test_fifty_drivers_that_see_one_new_field_make_one_change",
            EVOLVE + "test_what_is_there_already_needs_no_change",
        ),
    ),
    "F23": Failure(
        "nested new fields are ignored",
        "fields of nested structs become columns",
        (
            E2E + "test_a_new_field_becomes_a_column",
            EVOLVE + "test_columns_are_added_at_any_depth",
            PROCESS + "test_new_fields_at_any_depth",
        ),
    ),
    "F24": Failure(
        "a type conflict stops the task or is coerced",
        "the record is an error with path, expected and actual type",
        (
            PROCESS + "test_column_policies",
            PROCESS + "test_a_dead_letter_is_the_whole_record",
            EVOLVE + "test_the_policy_refuses",
        ),
    ),
    "F25": Failure(
        "values are damaged in silence",
        "a value is converted exactly or the record is an error (invariant 9)",
        (
            VALUES + "test_value",
            VALUES + "test_good_and_bad_values_of_one_column",
        ),
    ),
    "F26": Failure(
        "timestamps lose digits, zones or units",
        "units and zones are declared; micros are kept",
        (
            VALUES + "test_value",
            VALUES + "test_columns_and_single_records_agree",
        ),
    ),
    "F27": Failure(
        "empty structs, lists and mixed shapes crash",
        "they are policies, never a crash",
        (
            PROCESS + "test_nothing_needs_no_column",
            PROCESS + "test_lists_that_begin_with_null",
            VALUES + "test_fields_of_mixed_kinds",
        ),
    ),
    "F28": Failure(
        "a missing or dropped field crashes the writer",
        "missing is null, or the record is an error",
        (
            PROCESS + "test_wider_values_and_missing_ones",
            EVOLVE + "test_relaxation",
        ),
    ),
    "F29": Failure(
        "names that differ in case make two columns",
        "one case policy for all names",
        (
            PROCESS + "test_spellings_of_a_field_are_one_column",
            PROCESS + "test_case_sensitive_names_differ",
            EVOLVE + "test_case_policy_decides_what_is_new",
        ),
    ),
    "F30": Failure(
        "a wrong partition is accepted, or partition values are lost",
        "refused before any data is read; values are the transforms of the rows",
        (
            "tests/iceberg/test_define.py::test_a_partition_that_does_not_fit_is_refused",
            "tests/iceberg/test_manifests.py::test_every_partition_value_survives_the_announcement",
            "tests/unit/table/test_create.py::test_partition_fields_that_cannot_be",
        ),
    ),
    "F31": Failure(
        "a partition spec changes under a running job",
        "files are committed under the spec they were written for",
        ("tests/iceberg/test_manifests.py::test_files_of_an_old_spec_keep_it",),
    ),
    "F32": Failure(
        "records are dropped in silence",
        "every offset is accounted for, or the batch is not announced (invariant 8)",
        (
            BATCH + "test_a_sum_that_is_off_stops_the_batch",
            E2E + "test_bad_records_are_dead_letters_and_the_sum_holds",
            PROCESS + "test_the_sum_holds",
        ),
    ),
    "F33": Failure(
        "one bad record stops everything",
        "the policy says fail, drop or dead letter; a limit stops a flood",
        (
            E2E + "test_bad_records_are_dead_letters_and_the_sum_holds",
            BATCH + "test_dead_letters_past_the_limit_stop_the_batch",
            BATCH + "test_policy_fail_names_the_record",
            PROCESS + "test_error_policy",
            "tests/unit/record/test_dead_letter.py",
        ),
    ),
    "F34": Failure(
        "deletes that carry only a key go to the wrong partition (databricks/iceberg-kafka-connect#318)",
        "the row of a key is looked for in every partition, unless the key alone decides the partition",
        ("tests/iceberg/test_keyed_tasks.py", "tests/spark/test_upsert.py"),
    ),
    "F35": Failure(
        "storage, catalog or token outages end the job or lose data",
        "retried at least once an interval, with clients and tokens made anew; recovers by itself",
        (
            OUTCOME + "test_a_locked_database_is_an_unknown_outcome",
            STEP + "test_a_failing_table_is_tried_twice_an_interval",
        ),
    ),
    "F36": Failure(
        "conflicts with compaction and other writers",
        "a conflict is examined and decided again; appends end in success",
        (
            COMMIT + "test_another_party_that_writes_between_examination_and_commit_wins",
            COMMIT + "test_a_foreign_append_and_ours_live_together",
            "tests/iceberg/test_upkeep.py::test_snapshots_expired_by_others_do_not_come_back",
        ),
    ),
    "F37": Failure(
        "orphan cleaning deletes files in flight",
        "only files of an attempt that was certainly refused are removed",
        (OUTCOME + "test_after_a_certain_refusal_the_attempts_own_files_go",),
    ),
    "F38": Failure(
        "many small files",
        "a table is committed by interval, bytes or rows; a batch waits for them",
        (
            STEP + "test_rows_and_bytes_make_a_table_due_before_its_interval",
            STEP + "test_a_table_waits_for_its_interval",
            "tests/unit/commit/test_pacing.py",
        ),
    ),
    "F39": Failure(
        "memory grows with partitions, tables and backlog",
        "bounded buffers and caches; the log waits in the broker while much is to be committed",
        (
            STEP + "test_the_log_is_not_read_on_while_much_waits_that_can_be_committed",
            STEP + "test_a_commit_is_bounded_by_files",
            "tests/protocol/test_recovery.py",
            "tests/unit/commit/test_fifo.py::test_what_was_dropped_is_not_kept_in_memory",
            "tests/iceberg/test_upkeep.py::test_the_memory_of_a_catalog_is_bounded",
            "tests/iceberg/test_upkeep.py::test_the_manifests_that_are_remembered_are_bounded",
        ),
    ),
    "F40": Failure(
        "one bad table stops the commits of all",
        "each table is decided, committed and retried by itself (invariant 10)",
        (STEP + "test_a_table_in_trouble_waits_alone_and_goes_on_by_itself",),
    ),
    "F41": Failure(
        "nobody can see what is late or stuck",
        "`floe status` shows lag, sums, what waits and why; `floe log` the events",
    ),
    "F42": Failure(
        "first run and shutdown are guesswork",
        "`starting_offsets` counts once; SIGTERM drains and commits",
        (
            "tests/spark/test_running_jobs.py::test_sigterm_drains",
            OFFSETS + "test_first_run_starts_at_the_log_start_or_end",
            OFFSETS + "test_a_later_run_ignores_starting_offsets",
        ),
    ),
    "F43": Failure(
        "expiry removes files that a branch, a tag or a snapshot in the middle still reads (apache/iceberg#13568, #10982)",
        "what goes is computed from the metadata before and after the commit (invariant 12)",
        (
            EXPIRY + "test_several_branches_and_tags_before_and_one_after",
            EXPIRY + "test_a_snapshot_in_the_middle_expires",
            EXPIRY + "test_another_expiry_was_faster",
        ),
    ),
    "F44": Failure(
        "expiry removes a live file that was deleted and added again (apache/iceberg#8255, #2131)",
        "where others, or a rollback, may have brought a file back, every snapshot that stays is asked",
        (
            EXPIRY + "test_a_file_that_was_removed_and_added_again_stays",
            EXPIRY + "test_a_file_that_came_back_and_went_again_stays_for_as_long_as_somebody_can_read_it",
        ),
    ),
    "F45": Failure(
        "orphan removal takes the files of a table that shares the location, or a sibling whose name begins alike "
        "(apache/amoro#4292, apache/iceberg#17448)",
        "a folder with another table's metadata is left alone; places are compared by whole path parts",
        (
            "tests/iceberg/test_clean.py::test_a_folder_that_another_catalogs_table_shares_is_left_alone",
            "tests/security/test_removed_files.py::test_no_spelling_of_a_place_elsewhere_is_removed",
        ),
    ),
    "F46": Failure(
        "a coordinator that reads again moves the stored offset back, and files are registered twice "
        "(apache/iceberg#16282, #17340)",
        "progress never moves back, and a commit is conditional on it (invariants 3 and 4)",
        (COMMIT + "test_progress_never_moves_back", "tests/protocol/test_histories.py"),
    ),
    "F47": Failure(
        "Arrow's cast of a decimal returns another number without an error (apache/arrow-rs#10947, and C++ alike)",
        "decimals are cast in one place, which compares them with the range first",
        (
            "tests/unit/record/test_casts.py::test_decimals_keep_each_digit_or_are_refused",
            "tests/unit/record/test_casts.py::test_decimals_are_cast_in_one_place",
        ),
    ),
    "F48": Failure(
        "a column that only an old partition field used is dropped, and the table cannot be read or written any more "
        "(apache/iceberg#4563, #10234, #11314)",
        "a removed field is null, whether or not its column is there; manifests keep the schema that still had it",
        (
            "tests/iceberg/test_spark_reads.py::test_spark_sql_reads_a_table_whose_old_partition_column_is_gone",
            "tests/unit/adapters/test_partition_order.py::test_a_removed_partition_field_whose_column_is_gone_is_null",
            "tests/iceberg/test_manifests.py::test_a_spec_whose_column_is_gone_can_still_be_committed",
        ),
    ),
    "F49": Failure(
        "a coordinator that was replaced stores its old offset once more, and what was announced since is lost "
        "(apache/iceberg#17551)",
        "only the present coordinator stores an offset; progress stands in the tables and never moves back",
        (
            "tests/kafka/test_leadership.py::test_only_the_owner_stores_a_mark",
            COMMIT + "test_progress_never_moves_back",
        ),
    ),
    "F50": Failure(
        "a rebalance leaves two coordinators alive, since each asks an unstable group who leads (apache/iceberg#17637)",
        "whoever lost the leadership learns it from its own group and from each refused commit, and stops",
        (
            "tests/kafka/test_leadership.py::test_a_stopped_owner_wakes_up_without_leadership",
            "tests/chaos/test_coordinators.py::test_two_coordinators_one_stopped_across_a_rebalance",
        ),
    ),
    "F51": Failure(
        "an update that moves a row to another partition leaves the old row (memiiso/debezium-server-iceberg#630)",
        "the old row is looked for in every partition, unless the key alone decides the partition",
        (
            "tests/iceberg/test_keyed_tasks.py",
            "tests/iceberg/test_keyed_commits.py",
            "tests/chaos/test_many_upserts.py",
        ),
    ),
    "F52": Failure(
        "the control topic is removed: files are written and no snapshot comes any more (databricks/iceberg-kafka-connect#187)",
        "a run without its control topic, or with another of the same name, does not begin; `floe rebase` goes on from "
        "what the tables hold",
        (
            "tests/chaos/test_start_checks.py::test_control_topic_recreated",
            "tests/recovery/test_rebase.py::test_a_lost_control_topic_is_settled_from_the_tables",
        ),
    ),
    "F53": Failure(
        "a table that two decimals or two uuids partition cannot be read: their Avro type is defined twice, or its name is "
        "not known (apache/iceberg-python#14, apache/iceberg-rust#2913)",
        "a name is defined once in what floe writes, and known in what it reads; Spark and Java read the table",
        ("tests/iceberg/test_rewritten_entries.py::test_two_partition_columns_of_one_fixed_type_beside_spark",),
    ),
    "F54": Failure(
        "expiry drops what tags and other branches pin (seaweedfs/seaweedfs#10774, apache/iceberg-go#1829)",
        "nothing goes that any snapshot, branch or tag reaches after the commit",
        (
            EXPIRY + "test_several_branches_and_tags_before_and_one_after",
            EXPIRY + "test_a_tag_is_set_meanwhile",
            "tests/simulator/test_simulator.py",
        ),
    ),
    "F55": Failure(
        "a new coordinator begins at the end of the control topic, and announced files are never committed "
        "(apache/iceberg#18006)",
        "a coordinator without a stored offset begins at the start of the log",
        ("tests/chaos/test_coordinators.py::test_coordinator_group_gone_and_started_from_the_beginning",),
    ),
    "F56": Failure(
        "the Kafka cluster is made anew: stored offsets of the old control topic refuse all that is announced "
        "(apache/iceberg#15293)",
        "progress is kept by the control topic's id; `floe rebase` goes on from what the tables hold",
        (
            "tests/chaos/test_start_checks.py::test_control_topic_recreated",
            "tests/recovery/test_rebase.py::test_a_lost_control_topic_is_settled_from_the_tables",
        ),
    ),
    "F57": Failure(
        "an exception of the catalog drops what waits to be committed (apache/iceberg#13752)",
        "what was announced stays announced until a commit holds it",
        ("tests/chaos/test_outages.py", "tests/chaos/test_long_outages.py"),
    ),
    "F58": Failure(
        "a member that joins while another one registers never sees the registration: it begins to read behind it "
        "(odpi/egeria#9284)",
        "who follows the control topic keeps what it has read behind the end that it asked for",
        (
            "tests/kafka/test_control.py::test_what_comes_while_a_follower_starts_is_seen",
            "tests/kafka/test_control.py::test_whoever_goes_on_behind_the_end_misses_nothing",
        ),
    ),
    "F59": Failure(
        "a commit that is tried again names the manifests of the head before, and loses what others committed meanwhile "
        "(apache/iceberg-go#976)",
        "a commit is made for one head and refused at any other; the next attempt examines the table anew",
        (
            "tests/iceberg/test_commit.py::test_another_party_that_writes_between_examination_and_commit_wins",
            "tests/iceberg/test_commit.py::test_a_foreign_append_and_ours_live_together",
        ),
    ),
    "F60": Failure(
        "tasks without records hold up each commit, and the valid-through time stands still (apache/iceberg#17811)",
        "no commit waits for a pipeline that has nothing to say; partitions without records hold no time back",
        (
            "tests/unit/commit/test_coordinator_step.py::test_valid_through_is_the_least_of_the_busy_partitions",
            "tests/unit/commit/test_coordinator_step.py::test_the_low_water_mark_reaches_the_end_of_an_idle_log",
        ),
    ),
    "F61": Failure(
        "a column that was renamed is null in files that somebody else wrote and added (apache/iceberg#11650)",
        "files without column ids are read by the table's name mapping, also by updates, deletes and compaction",
        ("tests/iceberg/test_files_of_others.py::test_a_key_column_that_was_renamed_since_is_found_in_their_files",),
    ),
    "F62": Failure(
        "a job that goes on from an older state believes that newer batches are committed, and loses its own "
        "(apache/iceberg#10892)",
        "offsets that were moved back are seen at the start and stop the run; `floe offsets set --from-log` goes on from "
        "what is in the tables",
        ("tests/kafka/test_source_offsets.py::test_offsets_that_were_moved_by_hand_come_back_from_the_log",),
    ),
    "F63": Failure(
        "asking for a group's offsets while its coordinator moves ends the process with a segmentation fault "
        "(confluentinc/librdkafka#5040, confluentinc/confluent-kafka-python#1982)",
        "floe reads them through a consumer that never subscribes; no run is ended",
        (
            "tests/chaos/test_outages.py::test_a_groups_offsets_are_asked_for_while_the_broker_dies",
            "tests/unit/adapters/test_admin_time_outs.py::test_nobody_asks_the_admin_client_for_a_groups_offsets",
        ),
    ),
    "F64": Failure(
        "a registry keeps an Avro schema whose default does not fit its type, and every record of it is refused "
        "(confluentinc/schema-registry#1293, tchiotludo/akhq#392, estuary/flow#3286)",
        "a writer's defaults mean nothing and are left out; a schema to read with is as if it had none there",
        ("tests/unit/record/test_formats.py::test_a_default_that_does_not_fit_its_type_refuses_no_record",),
    ),
    "F65": Failure(
        "decimals of Debezium in JSON without schemas come as Base64 and land as text, as bytes or as another number "
        "(risingwavelabs/risingwave#10628, apache/flink-cdc#1177)",
        "`format: base64` reads them exactly; text that may be digits or Base64 is a dead letter until the file says which",
        (
            "tests/unit/record/test_debezium.py::test_decimals_without_schemas_are_never_guessed",
            "tests/unit/record/test_debezium.py::test_a_decimal_in_base64_is_the_decimal_that_connect_wrote",
        ),
    ),
    "F66": Failure(
        "a producer stamps records in micro- or nanoseconds, and the stream ends with an overflow, or the day is lost "
        "(apache/spark#55038, debezium/debezium#1203)",
        "no moment can be meant in two ways: the count is read in its unit, in columns, dead letters and lag",
        (
            "tests/unit/record/test_process.py::test_a_timestamp_that_a_producer_counts_in_other_units_is_the_moment_it_means",
        ),
    ),
    "F67": Failure(
        "deletes of a source behind `ExtractNewRecordState` are not applied, without an error "
        "(confluentinc/kafka-connect-jdbc#1421)",
        "a delete marker of another kind than the file says is a dead letter; where types are declared, `floe validate` "
        "refuses the comparison",
        (
            "tests/unit/record/test_keyed_rows.py::test_the_field_is_compared_as_in_routes",
            "tests/unit/record/test_keyed_rows.py::test_a_typed_field_is_compared_as_in_json",
        ),
    ),
    "F68": Failure(
        "tables cannot be named by the topic, or lose their namespace "
        "(apache/iceberg#14530, apache/iceberg#11163, databricks/iceberg-kafka-connect#206)",
        "groups of a rule's pattern for topics are parts of the table's name, inside of `allow_tables`",
        ("tests/unit/record/test_route.py::test_parts_of_the_topic_become_part_of_names",),
    ),
    "F69": Failure(
        "readers look for a UUID and find no row: Iceberg's Java library orders UUIDs as signed numbers, files and manifests "
        "say their bounds in another order (apache/iceberg#14216, trinodb/trino#12834)",
        "bounds are written only of UUIDs that all readers order alike, as those of a clock; row groups have none, and "
        "partitions in two orders stand in manifests of their own",
        (
            "tests/iceberg/test_uuid_order.py",
            "tests/unit/adapters/test_parquet_statistics.py::test_bounds_of_uuids_hold_for_whoever_compares_them",
        ),
    ),
    "F70": Failure(
        "tables with data files of another format than Parquet fail where rows are deleted or rewritten, with an error that "
        "names no table and no remedy (ClickHouse/ClickHouse#88123, #110107)",
        "what a file is stands in its manifest: an upsert table with Avro or ORC is blocked by name until they are written "
        "anew, and compaction leaves them",
        (
            "tests/iceberg/test_files_of_others.py::"
            "test_files_of_other_formats_hold_an_upsert_table_by_name_until_they_are_written_anew",
            "tests/iceberg/test_files_of_others.py::test_a_parquet_file_is_compacted_whatever_it_is_called",
        ),
    ),
    "F71": Failure(
        "an update without a large value that it did not change (TOAST) puts Debezium's placeholder in its place "
        "(getindata/kafka-connect-iceberg-sink#17, memiiso/debezium-server-iceberg#196)",
        "the row keeps its old value, in the same commit, through kills",
        (
            "tests/unit/record/test_partial_rows.py::test_a_placeholder_is_known_in_all_its_forms",
            "tests/iceberg/test_partial_updates.py::test_partial_updates_are_a_fold",
            "tests/spark/test_partial_updates.py::test_rows_keep_what_updates_lack_through_kills",
        ),
    ),
    "F72": Failure(
        "a null becomes the default that its schema has, without an error (apache/iceberg#17652)",
        "a default is for who reads with another schema; null is null",
        ("tests/unit/record/test_formats.py::test_a_null_stays_null_whatever_its_default_is",),
    ),
    "F73": Failure(
        "a new table, which has no main yet: two first commits overwrite each other, and branches cannot be used "
        "(apache/iceberg-python#1366, apache/iceberg#8849)",
        "a commit is conditional on there being no main, too; branches and main come in any order",
        (
            "tests/iceberg/test_spark_reads.py::test_spark_sql_reads_tables_whose_first_commits_were_special",
            "tests/iceberg/test_commit.py::test_another_party_that_writes_between_examination_and_commit_wins",
        ),
    ),
    "F74": Failure(
        "a Protobuf message that holds itself, or none of whose fields is set, ends the sink before the first record "
        "(apache/iceberg#14697)",
        "a type is a column once and JSON text where it comes again; a message without fields says whether it was there",
        ("tests/unit/record/test_protobuf.py::test_messages_that_hold_themselves_and_messages_of_nothing",),
    ),
    "F75": Failure(
        "a column is dropped that only an older sort order used, and nobody can write the table any more "
        "(apache/iceberg#8614, airbytehq/airbyte#75546)",
        "floe sorts by the present order alone, and Spark reads what it adds",
        ("tests/iceberg/test_spark_reads.py::test_a_column_that_an_older_sort_order_used_is_dropped",),
    ),
    "F76": Failure(
        "of more than 100,000 keys in one commit, those that are deleted in it come back (MaterializeInc/materialize#36206)",
        "what a batch does to a key is known before a row is written: no delete file is needed for its own rows",
        ("tests/iceberg/test_keyed_tasks.py::test_many_keys_that_come_and_go_in_one_batch",),
    ),
    "F77": Failure(
        "the removal of orphans takes statistics, which only the metadata file names (apache/amoro#1959)",
        "only files with names that floe makes are ever orphans",
        ("tests/iceberg/test_clean.py::test_whatever_the_metadata_names_is_somebodys",),
    ),
    "F78": Failure(
        "the partition spec changes, and deletes written under the new one do not hold for older files: updated rows are "
        "there twice (ClickHouse/ClickHouse#109838)",
        "a delete file is of the partition, and of the spec, of the data file whose rows it deletes",
        (
            "tests/iceberg/test_deletes.py::test_a_table_whose_partitions_evolved",
            "tests/iceberg/test_deletes_in_spark.py::test_a_table_whose_partitions_evolved",
        ),
    ),
    "F79": Failure(
        "of a topic written in transactions the last offsets hold markers or aborted records alone: a reader that waits for "
        "a record never ends, and lag is never 0 (apache/pinot#12318, apache/druid#16689, Banno/kafka4s#684)",
        "a batch ends at the last stable offset, whatever lies below it",
        ("tests/spark/test_edges.py::test_a_topic_of_aborted_transactions_is_read_to_its_end",),
    ),
    "F80": Failure(
        "a transaction that its producer left open hides what is written behind it: lag is 0 and nothing arrives, or lag "
        "counts what nobody can read (softwaremill/klag-exporter#104)",
        "lag ends at the last stable offset, and after 15 minutes the partition, the offset and the command that ends the "
        "transaction are on every first screen",
        ("tests/kafka/test_status.py::test_a_transaction_that_hides_records_is_reported",),
    ),
    "F81": Failure(
        "bounds in a manifest that are cut inside a character, or below a file's newest moment: readers fail, or skip files "
        "that hold matching rows (duckdb/duckdb-iceberg#1418, delta-io/delta#7444, ClickHouse/ClickHouse#112414)",
        "bounds and counts are those that Iceberg's own writer records, file by file and column by column",
        ("tests/iceberg/test_metrics_as_iceberg_writes_them.py::test_files_say_what_icebergs_own_writer_says",),
    ),
    "F82": Failure(
        "a column that appears is never added to an upsert table whose key is bytes, and its sink stands still "
        "(risingwavelabs/risingwave#25911)",
        "a schema is compared by its fields and types, whatever the key is of",
        ("tests/spark/test_upsert.py::test_a_key_of_bytes_and_a_column_that_appears",),
    ),
    "F83": Failure(
        "a refused commit leaves Puffin files that nothing names (apache/iceberg#17307)",
        "what a commit wrote goes when it is refused for certain: copies, delete files, deletion vectors, manifests",
        ("tests/iceberg/test_keyed_commits.py::test_what_a_refused_commit_wrote_is_removed",),
    ),
    "F84": Failure(
        "lists without elements that hold a UUID inside of a struct cannot be built in Arrow, and the writer ends "
        "(apache/arrow#46984)",
        "no empty array of such a type is built on any way from record to file; the fuzzer writes what it reads",
        ("tests/unit/record/test_nested_slices.py::test_rows_without_any_value_of_a_column_are_written",),
    ),
    "F85": Failure(
        "a catalog answers a conflict with 400 instead of 409, and the sink stands still until somebody restarts it "
        "(apache/iceberg#16659)",
        "after any answer but success the table is read back, and what it says counts (invariant 7)",
        ("tests/iceberg/test_unknown_outcome.py::test_a_conflict_that_a_catalog_calls_a_bad_request_is_a_conflict",),
    ),
    "F86": Failure(
        "two sinks make one namespace at the same time, and one of them ends (apache/paimon#8470)",
        "whether the namespace is there counts, whatever the answer was",
        ("tests/iceberg/test_define.py::test_a_namespace_that_others_make_meanwhile_serves_as_well",),
    ),
    "F87": Failure(
        "the removal of orphans takes files that were just written and not yet committed (apache/amoro#2925)",
        "a file is old by the store's own time, where an announcement names it it stays, and where the store gives "
        "no time nothing goes (invariant 12)",
        (
            "tests/iceberg/test_clean.py::test_a_store_that_does_not_tell_the_time_keeps_everything",
            "tests/iceberg/test_clean.py::test_beside_a_running_pipeline_nothing_that_it_writes_is_lost",
            "tests/iceberg/test_sleepers.py::test_a_request_under_way_whose_files_go_as_orphans_is_refused",
        ),
    ),
    "F88": Failure(
        "writers whose clocks differ by more than a minute leave metadata whose log runs backwards: Iceberg's Java library and "
        "Spark load the table no more (apache/iceberg#1109, #17285)",
        "where floe writes the metadata, no time lies before the one behind it, and the next commit repairs what earlier "
        "ones left",
        (
            "tests/iceberg/test_wrong_clocks.py::test_java_reads_a_table_whose_writers_had_wrong_clocks",
            "tests/iceberg/test_wrong_clocks.py::test_a_table_that_java_refused_is_repaired_by_the_next_commit",
            "tests/chaos/test_neighbours.py::test_tables_among_neighbours_for_two_minutes",
        ),
    ),
    "F89": Failure(
        "one node of a schema registry lags behind the others, for hours too, and consumers that ask it find no schema "
        "(confluentinc/schema-registry#437, confluentinc/kafka-connect-elasticsearch#59)",
        "what one node does not have is asked of all others before it is unknown; then it is waited for "
        "(`unknown.schema.patience.ms`)",
        (
            "tests/registry/test_registries.py::test_a_node_that_lags_behind_hides_no_schema",
            "tests/registry/test_registries.py::test_what_a_registry_has_not_is_reported",
        ),
    ),
    "F90": Failure(
        "a catalog's server swallows an error of its own and answers that it committed, so that the writer goes on and the "
        "snapshot is lost (apache/amoro#4290)",
        "an answer whose table lacks the snapshot is an unknown outcome: the table is read back, and the next try commits",
        (
            "tests/iceberg/test_unknown_outcome.py::test_a_success_whose_answer_lacks_the_commit_is_none",
            "tests/iceberg/test_unknown_outcome.py::test_an_applied_commit_is_found_whatever_the_answer_was",
        ),
    ),
    "F91": Failure(
        "a client that is idle, or that nobody polls, lets its token end and never comes back "
        "(confluentinc/confluent-kafka-python#1485, confluentinc/confluent-kafka-dotnet#2329, nasa-gcn/gcn-kafka-python#49)",
        "tokens are renewed ahead of their end on a thread of their own, also for a reader that is idle",
        (
            "tests/kafka/test_tokens.py::test_a_reader_that_rested_goes_on",
            "tests/chaos/test_tokens_of_brokers.py::test_tokens_end_beside_a_run",
        ),
    ),
    "F92": Failure(
        "a source has a table called `files`, `history` or `snapshots`, and Spark reads metadata under that name "
        "(apache/iceberg#10550)",
        "a table may have such a name: Spark reads it, and its metadata behind it",
        ("tests/iceberg/test_spark_reads.py::test_tables_that_are_called_like_metadata",),
    ),
    "F93": Failure(
        "two tables are compared before a cut-over, and equal rows differ: by the sign of a zero, by NaN, by keys that are null "
        "or stand twice (datafold/data-diff#883, SQLMesh/sqlmesh#2840)",
        "`floe compare` counts equal rows, values as Spark joins them; a key only says which rows changed",
        (
            "tests/iceberg/test_compare.py::test_numbers_are_equal_as_sql_says",
            "tests/iceberg/test_compare.py::test_keys_that_are_null_or_stand_twice",
        ),
    ),
    "F94": Failure(
        "what notifies people forgets at a restart what it has sent: everything comes again, and what ended meanwhile stays open "
        "(erikdarlingdata/PerformanceMonitor#1145)",
        "what each receiver took is kept in a private file beside the file of receivers; a look without the broker ends nothing",
        (
            "tests/recovery/test_notifications.py::test_a_trouble_and_its_end_come_once",
            "tests/recovery/test_notifications.py::test_what_was_sent_is_known_to_the_next_process",
        ),
    ),
    "F95": Failure(
        "the system removes what is old below /tmp, and a run of some days finds its folders gone (apache/spark#19154)",
        "everything temporary of a run lies in one folder, whose lock keeps such a cleaner out",
        ("tests/unit/adapters/test_scratch.py::test_a_process_removes_its_folder_at_its_end",),
    ),
    "F96": Failure(
        "a record has two headers of one name, or one without a value, and one is lost or the sink ends "
        "(redpanda-data/connect#1478, apache/flink-connector-kafka#258, splunk/kafka-connect-splunk#326)",
        "`_kafka_headers` holds all of them, in order, each with its bytes or null; `header.NAME` is the last one",
        ("tests/spark/test_formats.py::test_every_format_lands_and_an_outage_of_the_registry_loses_nothing",),
    ),
    "F97": Failure(
        "brokers restart or lose copies, `min.insync.replicas` is not met, and a transactional producer ends for good "
        "(confluentinc/librdkafka#3003, #3444)",
        "the outcome of an announcement is read back, the producer is made anew, and the same run goes on once enough brokers "
        "are in sync",
        (
            "tests/chaos/test_three_brokers.py::test_six_troubles_of_three_brokers",
            "tests/chaos/test_three_brokers.py::test_a_broker_that_is_gone_for_good",
        ),
    ),
    "F98": Failure(
        "lag counts records that nobody can read any more: retention took them before anything of the partition was read "
        "(redpanda-data/redpanda#30624)",
        "lag begins at the safe offset, or where the partition begins if nothing of it was announced",
        ("tests/kafka/test_status.py::test_what_was_removed_before_it_was_asked_for_is_no_lag",),
    ),
    "F99": Failure(
        "a column that partitions are made of is widened, manifests with values of both types are put together, and readers fail "
        "(apache/iceberg-rust#1334, redpanda-data/redpanda#25095, apache/iceberg#2327)",
        "partition values are written anew with the present type whenever a manifest is",
        ("tests/iceberg/test_promoted_partitions.py::test_files_of_before_and_after_are_found",),
    ),
    "F100": Failure(
        "a container's first process ignores SIGTERM, or does not pass it on: the pod is killed after its grace period, and dead "
        "children fill the table of processes (stackabletech/docker-images#1564)",
        "each verb that lasts handles the signal itself, and driver and coordinator drain",
        ("tests/spark/test_operations.py::test_the_first_process_of_a_container_drains",),
    ),
    "F101": Failure(
        "a topic is made anew between two looks, and a monitor goes on with figures of the former one "
        "(seglo/kafka-lag-exporter#197, #478)",
        "each look compares the topic's id with the one that was announced: BLOCKED with FLOE-R316, whatever the offsets are",
        (
            "tests/chaos/test_source_changes.py::test_retention_passes_a_running_job_and_the_topic_is_made_again",
            "tests/recovery/test_shown_remedies.py::test_a_topic_that_was_restored_goes_on",
        ),
    ),
    "F102": Failure(
        "a tool that tries faults, or a check that makes a topic, leaves things behind when it is killed, or fails because it "
        "may not remove them (chaos-mesh/chaos-mesh#2449, litmuschaos/litmus#5609, apache/ambari#1477)",
        "what a drill makes carries the time in its name, and `--clean` removes that alone; what stays is named and fails no "
        "drill",
        (
            "tests/chaos/test_drills.py::test_what_a_killed_drill_leaves_is_removed",
            "tests/chaos/test_drills.py::test_a_cluster_that_deletes_no_topics_fails_no_drill",
        ),
    ),
    "F103": Failure(
        "whoever recovers adds files that orphan removal has taken meanwhile (apache/storm#8950)",
        "files that waited long are looked for before a commit, and the table is blocked by name",
        ("tests/iceberg/test_catalog_contract.py::test_announced_files_that_are_gone_are_not_added",),
    ),
    "F104": Failure(
        "a date column becomes a timestamp, bounds of older files are read as microseconds, and filters find no rows "
        "(apache/iceberg#17744)",
        "floe does not promote a date, and adds no file of one to a table where others did",
        ("tests/unit/table/test_compatible.py::test_other_changes_make_files_unusable",),
    ),
    "F105": Failure(
        "a task that failed goes on only after topics, offsets and state were cleared by hand (apache/iceberg#18067)",
        "the same command goes on; a coordinator that takes over reports what another one committed and could not report",
        (
            "tests/chaos/test_drills.py::test_all_pass_and_leave_nothing_behind",
            "tests/unit/commit/test_coordinator_step.py::test_what_a_dead_coordinator_committed_is_said_by_the_next",
        ),
    ),
    "F106": Failure(
        "keys that a catalog lends end while a write goes on, since they were read once on the driver "
        "(apache/iceberg-python#3506, ray-project/ray#65581)",
        "each batch gets keys that live at least twice as long as they were used, for each table its own; a batch that takes "
        "longer than half of their life fails and is done again",
        (
            "tests/iceberg/test_vended_keys.py::test_keys_are_renewed_before_they_end",
            "tests/iceberg/test_vended_keys.py::test_a_run_over_keys_that_end",
        ),
    ),
    "F107": Failure(
        "clients of a schema registry that fails flood it, and the network, with requests "
        "(confluentinc/schema-registry#4588)",
        "a thousand unknown ids on a registry that hangs cost one time-out and few requests a process, and known ids cost none",
        (
            "tests/registry/test_hostile_registries.py::test_a_thousand_ids_wait_once_for_a_registry_that_hangs",
            "tests/registry/test_hostile_registries.py::test_known_ids_need_no_registry",
        ),
    ),
    "F108": Failure(
        "the control topic grows for ever, or its retention takes the only record of what was written (apache/iceberg#15844)",
        "floe makes it with a retention, and `log.archive` keeps every record of it in a table, each once",
        ("tests/iceberg/test_log_archive.py::test_killed_at_every_point_and_two_at_once",),
    ),
    "F109": Failure(
        "after a registry was restarted a schema has another id, and records of the former one cannot be read "
        "(confluentinc/schema-registry#1619)",
        "schemas that the run has had are kept and sent to new tasks; a record whose id nobody knows is one dead letter",
        (
            "tests/registry/test_hostile_registries.py::test_known_ids_need_no_registry",
            "tests/unit/adapters/test_registry.py::test_an_unknown_schema_is_waited_for_and_then_reported",
        ),
    ),
    "F110": Failure(
        "producers date records ahead of the clock, and what is decided by dates stands still until then: retention, "
        "freshness, lag (apache/kafka#4473, redpanda-data/redpanda#9820)",
        "no record counts as newer than the moment at which it was read, and one wrong date decides no rate",
        (
            "tests/unit/runtime/test_batch.py::test_no_record_is_newer_than_the_moment_at_which_it_was_read",
            "tests/unit/commit/test_objectives.py::test_stale_time_is_counted_as_second_by_second",
            "tests/kafka/test_readiness.py::test_a_record_with_a_wrong_date_says_nothing_of_a_rate",
        ),
    ),
    "F111": Failure(
        "the hour of a far moment overflows its 32 bits, and pruning finds no rows (apache/iceberg#9713)",
        "columns hold the years 1 to 9999, whose hours fit",
        ("tests/unit/adapters/test_partition_order.py::test_no_moment_of_a_column_overflows_a_partition",),
    ),
    "F112": Failure(
        "records dated before their topic's retention are removed before anybody has read them (openmeterio/openmeter#5005)",
        "readiness judges by the date of the first record that waits, and what was removed is counted as lost",
        (
            "tests/kafka/test_readiness.py::test_a_record_dated_before_its_topics_retention_is_no_go",
            "tests/chaos/test_source_changes.py::test_retention_passes_a_running_job_and_the_topic_is_made_again",
        ),
    ),
    "F113": Failure(
        "a catalog refuses to show a table, and its client says that there is none (duckdb/duckdb-iceberg#810)",
        "a refusal is a refusal: a table that may not be seen is never taken for one that is to be made",
        ("tests/iceberg/test_grants.py::test_the_privileges_for_a_rest_catalog_are_enough_and_none_too_many",),
    ),
    "F114": Failure(
        "another writer, or another version of it, keeps its offsets in a group of another name, and records are lost or "
        "repeated (apache/iceberg#13236)",
        "`floe import-connector` names the group of the sink that it reads, Tabular's or Apache's, and readiness compares where "
        "both stand",
        (
            "tests/kafka/test_readiness.py::test_before_the_first_run_what_is_not_there_is_not_checked",
            "tests/unit/config/test_connector.py::test_the_old_group_is_named",
        ),
    ),
    "F115": Failure(
        "a streaming reader has read all there is; compaction and expiry follow, and the snapshot at which it stands is gone "
        "(apache/iceberg#9504, #14622)",
        "the newest append stays with all behind it, until something else than a rewrite follows; from then on readers have "
        "their lease",
        (
            "tests/iceberg/test_spark_reads.py::test_a_table_is_read_as_a_stream_beside_maintenance",
            "tests/unit/commit/test_expire.py::test_a_streaming_reader_that_has_read_all_there_is_finds_what_follows",
        ),
    ),
    "F116": Failure(
        "tables move to another catalog, and the writer begins anew or writes on in the old one (redpanda-data/docs#1692)",
        "a table records its progress itself, so a registered one is gone on with; a run that finds none of its tables says "
        "that they begin empty",
        ("tests/spark/test_two_catalogs.py::test_a_catalog_is_replaced_by_one_with_the_same_tables",),
    ),
    "F117": Failure(
        "a scan of changes shows rewritten files as new rows, or appended ones not at all (apache/paimon#8788, "
        "apache/iceberg#14526)",
        "each entry of a manifest names the snapshot that added or removed its file, also where manifests are merged",
        ("tests/iceberg/test_spark_reads.py::test_changes_of_a_table_are_what_was_appended",),
    ),
    "F118": Failure(
        "two tables are compared, and a null differs from a null (datafold/data-diff#366)",
        "equal is what Spark's `<=>` calls equal, at every depth and in keys",
        (
            "tests/iceberg/test_compare.py::test_nested_values_and_rare_types_are_compared",
            "tests/iceberg/test_compare.py::test_keys_that_are_null_or_stand_twice",
        ),
    ),
    "F119": Failure(
        "keys come with a table, and nobody says when they end; a batch that outlives them fails in the same way each time "
        "(unitycatalog/unitycatalog#1885)",
        "keys of unknown end are asked for again for each batch, and where the store says that they have expired the batch is "
        "done again in halves",
        (
            "tests/chaos/test_lent_keys.py::test_batches_that_outlive_lent_keys_get_smaller",
            "tests/unit/runtime/test_failures.py::test_keys_that_ended_are_named_where_tasks_could_not_use_the_store",
        ),
    ),
    "F120": Failure(
        "of few records one is bad, which is a large share of a quiet hour, and somebody is woken (elastic/kibana#203279, "
        "pyrra-dev/pyrra#1602)",
        "fewer than ten bad records within the hour wake nobody; the slow alert reports them by day",
        ("tests/unit/metrics/test_alerts.py::test_promtool_takes_the_rules_and_every_rule_fires_for_its_example",),
    ),
    "F121": Failure(
        "changes of two batches land in one snapshot, and the second delete of a key does not see the first insert "
        "(apache/iceberg#11008)",
        "each batch of an upsert is a snapshot of its own, searched for behind the one in front of it",
        ("tests/iceberg/test_keyed_commits.py::test_two_batches_that_were_announced_at_once_follow_one_another",),
    ),
    "F122": Failure(
        "a column is dropped and made again under the same name, and files written before show the old one's values, or none "
        "(apache/auron#2321)",
        "files carry ids, and what was announced for the dropped column's schema is never committed under the new one",
        ("tests/iceberg/test_commit.py::test_a_dropped_column_or_a_narrowed_type_makes_a_schema_unusable",),
    ),
    "F123": Failure(
        "a driver in a pod is killed again and again, and the ended pods of its executors pile up (apache/spark#56445)",
        "Spark leaves them until the driver's pod is replaced; one command removes them and none that runs",
        ("tests/kubernetes/test_pods.py::test_sparks_own_scheduler_runs_executors_as_pods",),
    ),
}

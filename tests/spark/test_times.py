"""Times that databases have and Iceberg has not: what the file makes of each is what Spark and Java read.

In: one stream of records through a real run, and the file's words for times. Out: the tables as Spark or Iceberg's own
reader finds them, beside values that are written down here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.servers.spark_reader import java_read
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      schema:
        n: long
        cut: {{type: timestamptz, on_extra_precision: truncate}}
        whole: {{type: timestamptz}}
        local: {{type: timestamp, on_extra_precision: truncate}}
        ends: {{type: timestamptz, unit: us, infinity: null}}
        last: {{type: date, infinity: null}}
        took: long
        said: string
        {more}
      metadata_columns: [offset]
    routes: {{rules: [{{table: shop.times}}], allow_tables: ["shop.*"]}}
    tables:
      defaults:
        create: {{properties: {{format-version: "{version}"}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
FIELDS = ("cut", "whole", "local", "ends", "last", "took", "said")
# What is sent, and what the column says in SQL's words. Spark reads no table with a column of the type `time`.
LANDS = (
    ("cut", "2024-01-02 03:04:05.1234567 +02:00", "2024-01-02 01:04:05.123456"),
    ("cut", "2024-01-02T03:04:05.123456789Z", "2024-01-02 03:04:05.123456"),
    ("cut", "1969-12-31T23:59:59.999999999Z", "1969-12-31 23:59:59.999999"),
    ("whole", "2024-01-02T03:04:05.1234560+02:00", "2024-01-02 01:04:05.123456"),
    ("local", "1969-12-31T23:59:59.9999999", "1969-12-31 23:59:59.999999"),
    ("ends", "infinity", None),
    ("ends", "-infinity", None),
    ("ends", 1_704_164_645_123_456, "2024-01-02 03:04:05.123456"),
    ("last", "infinity", None),
    ("last", "2024-02-29", "2024-02-29"),
    ("took", 3_020_399_000_000, "3020399000000"),
    ("took", -3_020_399_000_000, "-3020399000000"),
    ("said", "-838:59:59.000000", "-838:59:59.000000"),
)
REFUSED = (
    ("whole", "2024-01-02 03:04:05.1234567 +02:00"),
    ("whole", "2024-01-02T03:04:05.123456789Z"),
    ("whole", "infinity"),
    ("took", "838:59:59"),
)
NANOSECONDS = "2024-01-02T03:04:05.123456789Z"


def _land(tmp_path: Path, broker: Broker, version: str, more: str, records: list[dict[str, object]]) -> Project:
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("times")
    file = project.pipeline("times", PIPELINE.format(topic=topic, version=version, more=more))
    broker.produce(topic, records)
    project.run("run", file, "--until-caught-up", timeout_s=300)
    return project


@pytest.mark.timeout(900)
def test_spark_reads_each_time_as_the_file_declares_it(tmp_path: Path, broker: Broker) -> None:
    """Digits beyond the column, SQL Server's `datetimeoffset`, infinities, durations beyond a day and below zero, and
    nanoseconds in format version 2."""
    sent = [*((field, value) for field, value, _ in LANDS), *REFUSED]
    nanoseconds = len(sent)
    records: list[dict[str, object]] = [{"n": n, field: value} for n, (field, value) in enumerate(sent)]
    records.append({"n": nanoseconds, "fine": 1_704_164_645_123_456_789})
    more = "fine: {type: timestamptz, unit: ns, on_extra_precision: truncate}"
    project = _land(tmp_path, broker, "2", more, records)
    columns = ", ".join(f"CAST({name} AS STRING) AS {name}" for name in (*FIELDS, "fine"))
    rows, letters = java_read(
        project.catalog_settings,
        [
            f"SELECT n, {columns} FROM `default`.shop.times",
            "SELECT offset, field_path FROM `default`.shop.dead_letters",
        ],
    ).rows
    found = {row["n"]: row for row in rows}
    assert len(found) == len(rows)
    for n, (field, _, wanted) in enumerate(LANDS):
        assert found[n][field] == wanted, (field, found[n])
        assert all(found[n][other] is None for other in (*FIELDS, "fine") if other != field)
    assert found[nanoseconds]["fine"] == "2024-01-02 03:04:05.123456"
    assert found.keys() == {*range(len(LANDS)), nanoseconds}
    wanted_letters = {(len(LANDS) + n, field) for n, (field, _) in enumerate(REFUSED)}
    assert {(row["offset"], row["field_path"]) for row in letters} == wanted_letters
    assert len(letters) == len(REFUSED)


@pytest.mark.timeout(900)
def test_java_reads_nanoseconds_of_format_version_3(tmp_path: Path, broker: Broker) -> None:
    """Spark has no such type: Iceberg's own reader finds all nine digits."""
    more = "fine: {type: timestamptz_ns}"
    project = _land(tmp_path, broker, "3", more, [{"n": 0, "fine": NANOSECONDS}])
    read = java_read(project.catalog_settings, [], ["shop.times"], records=True)
    assert read.counts == {"shop.times": 1}
    (record,) = read.records["shop.times"]
    assert "2024-01-02T03:04:05.123456789" in record, record

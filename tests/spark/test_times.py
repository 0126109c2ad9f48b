"""Times that databases have and Iceberg has not: what the file makes of each is what Spark and Java read.

In: two streams of records through one run, and the files' words for times. Out: the tables as Spark or Iceberg's own reader finds
them, beside values that are written down here. Spark reads no table with a column of the type `time` or of nanoseconds: those
lie in a table of their own, which the reader without Spark reads.
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
        {columns}
      metadata_columns: [offset]
    routes: {{rules: [{{table: shop.{name}}}], allow_tables: ["shop.*"]}}
    tables:
      defaults:
        create: {{properties: {{format-version: "{version}"}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters_of_{name}}}
"""
COLUMNS = {
    "cut": "{type: timestamptz, on_extra_precision: truncate}",
    "whole": "{type: timestamptz}",
    "local": "{type: timestamp, on_extra_precision: truncate}",
    "counted": "{type: timestamptz, unit: ns, on_extra_precision: truncate}",
    "ends": "{type: timestamptz, unit: us, infinity: null}",
    "last": "{type: date, infinity: null}",
    "took": "long",
    "said": "string",
}
# What is sent, and what the column says in SQL's words.
LANDS = (
    ("cut", "2024-01-02 03:04:05.1234567 +02:00", "2024-01-02 01:04:05.123456"),
    ("cut", "2024-01-02T03:04:05.123456789Z", "2024-01-02 03:04:05.123456"),
    ("cut", "1969-12-31T23:59:59.999999999Z", "1969-12-31 23:59:59.999999"),
    ("whole", "2024-01-02T03:04:05.1234560+02:00", "2024-01-02 01:04:05.123456"),
    ("local", "1969-12-31T23:59:59.9999999", "1969-12-31 23:59:59.999999"),
    ("counted", 1_704_164_645_123_456_789, "2024-01-02 03:04:05.123456"),
    ("counted", -1, "1969-12-31 23:59:59.999999"),
    ("ends", "infinity", None),
    ("ends", "-infinity", None),
    ("ends", 9_223_372_036_825_200_000, None),
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
FINE = {"fine": "timestamptz_ns", "clock": "{type: time, on_extra_precision: truncate}"}
FINE_LANDS = (
    ("fine", "2024-01-02T03:04:05.123456789Z", "2024-01-02T03:04:05.123456789"),
    ("clock", "23:59:59.9999999", "23:59:59.999999"),
)
FINE_REFUSED = (("clock", "24:00:01"), ("clock", "-01:00:00"))


def _pipeline(project: Project, broker: Broker, name: str, version: str, columns: dict[str, str]) -> tuple[Path, str]:
    topic = broker.new_topic(name)
    said = "\n        ".join(f"{column}: {kind}" for column, kind in columns.items())
    return project.pipeline(name, PIPELINE.format(topic=topic, name=name, version=version, columns=said)), topic


def _records(sent: list[tuple[str, object]]) -> list[dict[str, object]]:
    return [{"n": n, field: value} for n, (field, value) in enumerate(sent)]


@pytest.mark.timeout(900)
def test_each_time_is_read_as_the_file_declares_it(tmp_path: Path, broker: Broker) -> None:
    """Digits beyond the column, SQL Server's `datetimeoffset`, infinities, durations beyond a day and below zero, and
    nanoseconds in format version 2 and 3."""
    project = Project(tmp_path, broker.bootstrap_servers)
    times, topic = _pipeline(project, broker, "times", "2", COLUMNS)
    fine, fine_topic = _pipeline(project, broker, "fine", "3", FINE)
    broker.produce(topic, _records([*((field, value) for field, value, _ in LANDS), *REFUSED]))
    broker.produce(fine_topic, _records([*((field, value) for field, value, _ in FINE_LANDS), *FINE_REFUSED]))
    project.run("run", times, fine, "--until-caught-up", timeout_s=600)
    columns = ", ".join(f"CAST({name} AS STRING) AS {name}" for name in COLUMNS)
    read = java_read(
        project.catalog_settings,
        [
            f"SELECT n, {columns} FROM `default`.shop.times",
            "SELECT offset, field_path FROM `default`.shop.dead_letters_of_times",
            "SELECT offset, field_path FROM `default`.shop.dead_letters_of_fine",
        ],
        ["shop.fine"],
        records=True,
    )
    rows, letters, fine_letters = read.rows
    found = {row["n"]: row for row in rows}
    assert len(found) == len(rows)
    for n, (field, _, wanted) in enumerate(LANDS):
        assert found[n][field] == wanted, (field, found[n])
        assert all(found[n][other] is None for other in COLUMNS if other != field)
    assert found.keys() == set(range(len(LANDS)))
    assert read.counts == {"shop.fine": len(FINE_LANDS)}
    for _, _, wanted in FINE_LANDS:
        assert sum(wanted in record for record in read.records["shop.fine"]) == 1, read.records
    for these, refused, first in ((letters, REFUSED, len(LANDS)), (fine_letters, FINE_REFUSED, len(FINE_LANDS))):
        assert {(row["offset"], row["field_path"]) for row in these} == {
            (first + n, field) for n, (field, _) in enumerate(refused)
        }
        assert len(these) == len(refused)

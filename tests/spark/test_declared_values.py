"""Values that once landed as null or as something else without a word, and schemas of which each record was refused: read by
Spark.

In: three streams through one run. Out: tables and dead letters as Spark finds them, beside values that are written down here.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from testbed.format_samples import avro_bytes, record_of
from testbed.servers.spark_reader import java_read
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

MOMENTS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{n: long, price: {{type: "decimal(9, 2)", format: base64}}, total: {{type: "decimal(9, 2)", format: digits}}}}
      metadata_columns: [offset, timestamp]
    routes: {{rules: [{{table: shop.moments}}]}}
    tables: {{defaults: {{create: {{partition_by: ["day(_kafka_timestamp)"]}}, commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.letters_of_moments}}
"""
ROWS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long, required: true}}, n: long}}
    routes: {{rules: [{{table: shop.rows}}]}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id], delete_when: {{field: __deleted, equals: true}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.letters_of_rows}}
"""
DEFAULTS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: avro, schema: '{schema}'}}
    routes: {{rules: [{{table: shop.defaults}}], unrouted: fail}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""
# One moment in milli-, micro- and nanoseconds, as producers write it, and one of the day before.
TIMES = (1_704_164_645_123, 1_704_164_645_123_456, 1_704_164_645_123_456_789, 1_704_153_599_999_999)
LANDS = (
    "2024-01-02 03:04:05.123",
    "2024-01-02 03:04:05.123456",
    "2024-01-02 03:04:05.123456",
    "2024-01-01 23:59:59.999999",
)
WRITTEN = record_of(
    {"name": "id", "type": "long"},
    {"name": "s", "type": "string", "default": None},
    {"name": "e", "type": {"type": "enum", "name": "shop.E", "symbols": ["A", "B"], "default": "C"}, "default": "D"},
)
SOUND = record_of(
    {"name": "id", "type": "long"},
    {"name": "s", "type": "string"},
    {"name": "e", "type": {"type": "enum", "name": "shop.E", "symbols": ["A", "B"]}},
)


@pytest.mark.timeout(900)
def test_what_was_null_or_refused_is_read_by_spark(tmp_path: Path, broker: Broker) -> None:
    """Records' own times in micro- and nanoseconds and the day of each; decimals as Base64 or digits; a delete
    marker of another kind is a dead letter and deletes nothing; an Avro schema whose
    defaults do not fit their types refuses no record."""
    project = Project(tmp_path, broker.bootstrap_servers)
    late = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    moments, rows, defaults = (
        broker.new_topic("moments", config=late),
        broker.new_topic("rows"),
        broker.new_topic("defaults"),
    )
    sent = [{"n": n, "price": "EtY=", "total": "4822"} for n in range(len(TIMES))]
    broker.produce(moments, sent, timestamps_ms=TIMES)
    marks: list[object] = ["true", True]
    broker.produce(rows, [{"id": n, "n": n} for n in range(3)])
    broker.produce(rows, [{"id": n, "__deleted": mark} for n, mark in enumerate(marks)])
    broker.produce(defaults, [avro_bytes(SOUND, {"id": 1, "s": "x", "e": "B"})])
    files = [
        project.pipeline("moments", MOMENTS.format(topic=moments)),
        project.pipeline("rows", ROWS.format(topic=rows)),
        project.pipeline("defaults", DEFAULTS.format(topic=defaults, schema=json.dumps(WRITTEN))),
    ]
    project.run("run", *files, "--until-caught-up", timeout_s=600)
    read = java_read(
        project.catalog_settings,
        [
            "SELECT n, CAST(_kafka_timestamp AS STRING) AS at, CAST(price AS STRING) AS price, "
            "CAST(total AS STRING) AS total FROM `default`.shop.moments ORDER BY n",
            "SELECT CAST(partition._kafka_timestamp_day AS STRING) AS day, record_count AS n "
            "FROM `default`.shop.moments.partitions ORDER BY day",
            "SELECT id, n FROM `default`.shop.rows ORDER BY id",
            "SELECT offset, code FROM `default`.shop.letters_of_rows",
            "SELECT id, s, e FROM `default`.shop.defaults",
        ],
    )
    found, days, held, letters_of_rows, avro = read.rows
    assert [(row["n"], row["at"]) for row in found] == list(enumerate(LANDS))
    assert {(Decimal(row["price"]), Decimal(row["total"])) for row in found} == {(Decimal("48.22"), Decimal(4822))}
    assert days == [{"day": "2024-01-01", "n": 1}, {"day": "2024-01-02", "n": 3}]
    assert held == [{"id": 0, "n": 0}, {"id": 2, "n": 2}]
    assert letters_of_rows == [{"offset": 3, "code": "FLOE-D207"}]
    assert avro == [{"id": 1, "s": "x", "e": "B"}]

"""Invariant 8 with faults planted in a real run: a batch that lost or multiplied records is not announced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.project import FLOE, Project, kill_group

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]
ROOT = Path(__file__).parents[2]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: long}}
    {sql}
    routes: {{rules: [{{table: shop.orders}}], unrouted: fail}}
    errors: {{policy: fail}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
"""
SQL = 'transform: {sql: "SELECT id FROM source"}'
WITH_CONDITION = 'transform: {sql: "SELECT id FROM source WHERE id >= 0"}'


@pytest.mark.parametrize(
    ("fault", "sql", "said"),
    [
        pytest.param("reader_loses_a_record", "", "were not read whole", marks=pytest.mark.slow),
        ("sql_multiplies_rows", WITH_CONDITION, "given out by transform.sql more than once"),
        pytest.param(
            "decoding_loses_a_record", SQL, "lost in or after transform.sql, which has no WHERE", marks=pytest.mark.slow
        ),
        pytest.param(
            "writing_loses_a_row", SQL, "lost in or after transform.sql, which has no WHERE", marks=pytest.mark.slow
        ),
    ],
)
def test_a_batch_that_lost_or_multiplied_records_is_not_announced(
    fault: str, sql: str, said: str, tmp_path: Path, broker: Broker
) -> None:
    """The run ends and says what does not add up; nothing is announced, and without the fault every record lands
    once."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("sum")
    broker.produce(topic, [{"id": i} for i in range(50)])
    file = project.pipeline("sum", PIPELINE.format(topic=topic, sql=sql))

    command = project.command("run", file, "--until-caught-up")
    planted = [sys.executable, "-m", "tests.spark.planted", fault, *command[len(FLOE) :]]
    process = subprocess.Popen(
        planted,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=180)
    finally:
        kill_group(process)
    assert process.returncode == 1, output
    assert "FLOE-R108" in output
    assert said in output
    assert not [each for each in project.run_json("status")["pipelines"] if each["totals"]["offsets"]]

    project.run("run", file, "--until-caught-up")
    assert sorted(project.table("shop.orders").column("id").to_pylist()) == list(range(50))

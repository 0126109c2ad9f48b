"""`floe test` on files with `transform.sql`: the SQL that a job runs, in a Spark that the command starts itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.config.in_memory import TARGET, over

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILE = """\
apiVersion: floe/v1
kind: Pipeline
metadata: {{name: {name}}}
source: {{kafka: {{topics: [{name}]}}, schema: {{id: long, price: "decimal(10, 2)", code: string}}}}
transform: {{sql: "{sql}"}}
routes: {{rules: [{{table: shop.{name}}}]}}
errors: {{dead_letter_table: shop.dead_letters}}
tests:
"""
GOOD = """\
  - name: filtered, computed, dropped and refused
    input: [{value: {id: 1, price: 1.10}}, {value: {id: 2, price: 0}}, {value: nope}, {value: null}]
    expect:
      tables: {shop.good: {schema: {id: long, twice: "decimal(12, 2)"}, rows: [{id: 1, twice: 2.20}]}}
      dead_letters: [{offset: 2}]
      filtered: 1
      dropped: 1
"""
STOPS = """\
  - name: a code that is no number is a dead letter
    input: [{value: {id: 1, code: x}}, {value: {id: 2, code: "7"}}]
    expect: {tables: {shop.stops: {rows: [{id: 2, number: 7}]}}, dead_letters: [{offset: 0, code: FLOE-D123}]}
  - name: a wrong expectation
    input: [{value: {id: 1, code: "7"}}]
    expect: {tables: {shop.stops: {rows: [{number: 8}]}}}
"""


def test_sql_runs_as_in_a_job(tmp_path: Path) -> None:
    """Rows, counts, failures and refusals of SQL are those of a run; Spark is started once, and told; the target's SQL
    settings hold; `--fix` and `--record` work on such files too."""
    files = {
        "good": ("SELECT id, price * 2 AS twice FROM source WHERE price > 0", GOOD),
        "stops": ("SELECT id, cast(code AS int) AS number FROM source", STOPS),
        "unknown": ("SELECT idd FROM source", "  - {name: a, input: [{value: {id: 1}}], expect: {}}\n"),
    }
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "local.yaml").write_text(TARGET)
    lenient = over(TARGET, "spark: {conf: {spark.sql.ansi.enabled: false}}\n").replace("name: local", "name: lenient")
    (tmp_path / "targets" / "lenient.yaml").write_text(lenient)
    for name, (sql, tests) in files.items():
        (tmp_path / f"{name}.yaml").write_text(FILE.format(name=name, sql=sql) + tests)
    (tmp_path / "records.jsonl").write_text('{"id": 7, "price": 3}\n{"id": 8}\n')

    def floe(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "framework.cli.main", "test", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = floe("good.yaml", "stops.yaml", "unknown.yaml", "--format", "json")

    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("starting Spark") == 1
    good, stops, unknown = json.loads(done.stdout)["files"]
    assert [test["passed"] for test in good["tests"]] == [True], good
    assert [test["passed"] for test in stops["tests"]] == [True, False], stops
    assert "`number` is 7, expected 8" in stops["tests"][1]["differences"][0]["message"]
    assert "Traceback" not in done.stderr
    assert "SQLQueryContextLogger" not in done.stderr
    (refused,) = unknown["findings"]
    assert (refused["code"], refused["path"]) == ("FLOE-C801", "transform.sql")
    assert "idd" in refused["message"]
    assert "__floe" not in refused["message"]

    # Without ANSI SQL the same text is null, as it is for a job under this target.
    relaxed = floe("stops.yaml", "--target", "lenient", "--fix")
    assert relaxed.returncode == 0, relaxed.stdout + relaxed.stderr
    assert "number: 8" not in (tmp_path / "stops.yaml").read_text()

    added = floe("good.yaml", "--record", "records.jsonl")
    assert added.returncode == 0, added.stdout + added.stderr
    assert "filtered: 1" in (tmp_path / "good.yaml").read_text().split("recorded from")[1]

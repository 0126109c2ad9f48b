"""The author of a pipeline file writes `transform.sql`: what he wants beside the rows of `source`, and that he does not
get it.

Spark runs in this process: its own parser reads the texts, as in a run and in `floe test`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import framework
from framework.adapters.spark.sql_allowed import ALLOWED, REFUSED
from framework.adapters.spark.sql_lengths import LENGTHS
from framework.adapters.spark.sql_patterns import FUNCTIONS
from framework.errors import ConfigError
from framework.task.sql.select import HIDDEN, HIDDEN_TYPE, transform_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table(
    {
        "a": pa.array([1, 2], pa.int64()),
        "b": ["x", "y"],
        "arr": [[1], [2, 3]],
        "s": [{"x": 1}, {"x": 2}],
        "at": pa.array([0, 1], pa.timestamp("us", "UTC")),
        HIDDEN: pa.nulls(2, HIDDEN_TYPE),
    }
)
FRAMEWORK = Path(framework.__file__).parent
ZONES = [
    "America/New_York",
    *(
        pytest.param(zone, marks=pytest.mark.slow)
        for zone in ("Asia/Kathmandu", "Pacific/Apia", "UTC", "Europe/Berlin")
    ),
]
# As `floe test` does it with rows that are here, and as a run does it with rows that tasks decode.
STATEMENT = """
import json, sys
from pathlib import Path
import pyarrow as pa
from framework.runtime.spark.query import start_session, stop_session
from framework.task.sql.select import HIDDEN, HIDDEN_TYPE, spark_schema, transform_table, transformed

conf = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.variable.substitute": "true"}
session = start_session("statement", "local[1]", conf, Path(sys.argv[1]))
rows = pa.table({
    "t": pa.array([1704349800_000000], pa.timestamp("us")),
    "tz": pa.array([1704349800_000000], pa.timestamp("us", "UTC")),
    HIDDEN: pa.nulls(1, HIDDEN_TYPE),
})
sql = (
    "SELECT t, tz, hour(t) AS h, hour(tz) AS htz, CAST(t AS string) AS s, CAST(tz AS string) AS stz, to_date(tz) AS d, "
    "CAST(t AS timestamp) AS m, CAST('2024-01-04 06:30:00' AS timestamp) AS l, date_trunc('day', tz) AS day FROM source"
)
def decode(batches):
    for _ in batches:
        yield from rows.to_batches()
frame = session.range(0, 1, 1, 1).mapInArrow(decode, spark_schema(rows.schema))
found = []
for made in (transform_table(session, rows, sql), transformed(frame, sql).toArrow()):
    made = made.drop_columns([HIDDEN])
    found.append([[str(field.type) for field in made.schema], [str(value) for value in made.to_pylist()[0].values()]])
stop_session(session)
print(json.dumps(found))
"""
NAIVE, AWARE = "2024-01-04 06:30:00", "2024-01-04 06:30:00+00:00"
WANTED = [
    ["timestamp[us]", "timestamp[us, tz=UTC]", "int32", "int32", "string", "string", "date32[day]"]
    + ["timestamp[us, tz=UTC]"] * 3,
    [NAIVE, AWARE, "6", "6", NAIVE, NAIVE, "2024-01-04", AWARE, AWARE, "2024-01-04 00:00:00+00:00"],
]
ATTACKS = {
    "load a library": "SELECT reflect('java.lang.System', 'load', '/tmp/x.so') AS x FROM source",
    "read the environment": "SELECT java_method('java.lang.System', 'getenv', 'HOME') AS x FROM source",
    "read the environment by a variable": "SELECT '${env:HOME}' AS x FROM source",
    "read a property of Java": "SELECT a AS `${system:user.home}` FROM source",
    "read a setting of Spark": "SELECT a FROM source WHERE b = '${spark.app.name}' -- ${hiveconf:x}",
    "call code and hide the error": "SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS x FROM source",
    "call code by another spelling": "SELECT `REFLECT`('java.lang.System', 'getenv', 'HOME') AS x FROM source",
    "call code by its full name": "SELECT system.builtin.reflect('java.lang.System', 'getenv') AS x FROM source",
    "call code by a computed name": "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv') AS x FROM source",
    "call code in a condition": "SELECT a FROM source WHERE reflect('java.lang.System', 'getenv', 'HOME') = ''",
    "call code in a lambda": "SELECT transform(arr, x -> reflect('java.lang.System', 'getenv', 'HOME')) AS x FROM source",
    "call code in a cast": "SELECT CAST(reflect('java.lang.System', 'getenv', 'HOME') AS binary) AS x FROM source",
    "read a file": "SELECT a FROM text.`{file}`",
    "read a file in a scalar subquery": "SELECT (SELECT max(value) FROM text.`{file}`) AS x FROM source",
    "read a file by EXISTS": "SELECT a FROM source WHERE EXISTS (SELECT 1 FROM text.`{file}`)",
    "read a file by IN": "SELECT a FROM source WHERE b IN (SELECT value FROM text.`{file}`)",
    "read a file by a lateral join": "SELECT a FROM source, LATERAL (SELECT value FROM text.`{file}`)",
    "read a file by a join": "SELECT a FROM source JOIN text.`{file}` ON true",
    "read a file by a union": "SELECT b FROM source UNION ALL SELECT value FROM text.`{file}`",
    "read a file by a common table": "SELECT b FROM source WHERE b = (WITH x AS (SELECT * FROM csv.`{file}`) SELECT 1 FROM x)",
    "read a file by a computed name": "SELECT a FROM IDENTIFIER('text.`{file}`')",
    "read a file as XML": "SELECT xpath_string('<a/>', 'document(\"file://{file}\")') AS x FROM source",
    "read a descriptor file": "SELECT from_protobuf(CAST(b AS binary), 'm', '{file}') AS x FROM source",
    "learn a file's name": "SELECT input_file_name() AS x FROM source",
    "read another table": "SELECT a FROM other",
    "run a program": "SELECT TRANSFORM(a) USING 'cat' FROM source",
    "learn who runs it": "SELECT current_user() AS x FROM source",
    "learn who runs it without parentheses": "SELECT session_user AS x FROM source",
    "learn the catalog": "SELECT current_catalog() AS x FROM source",
    "rows from nothing": "SELECT id AS a FROM range(100000000000)",
    "a value of 2 GB": "SELECT repeat('a', 2000000000) AS x FROM source",
    "an array of 2 G": "SELECT sequence(1, 2000000000) AS x FROM source",
    "more rows": "SELECT explode(arr) AS x FROM source",
    "more rows by a view": "SELECT a FROM source LATERAL VIEW explode(arr) t AS x",
    "other rows in a window": "SELECT sum(a) OVER () AS x FROM source",
    "all rows in one": "SELECT sum(a) AS x FROM source",
    "fewer rows": "SELECT a FROM source LIMIT 1",
    "stop the pipeline": "SELECT raise_error('stop') AS x FROM source",
    "another value in each attempt": "SELECT uuid() AS x FROM source",
    "another row in each attempt": "SELECT a FROM source WHERE rand() < 0.5",
    "a hint": "SELECT /*+ REPARTITION(10000) */ a FROM source",
    "a sample": "SELECT a FROM source TABLESAMPLE (10 PERCENT)",
    "a parameter": "SELECT :x AS x FROM source",
    "a pipe": "SELECT a FROM source |> AGGREGATE count(*)",
    "a pattern that backtracks for ever": "SELECT a FROM source WHERE b RLIKE '(a+)+$'",
    "a pattern in a function": "SELECT regexp_replace(b, '(a|a)*c', '') AS x FROM source",
    "a pattern in split": "SELECT split(b, '(,+)+;') AS x FROM source",
    "a pattern in str_to_map": "SELECT str_to_map(b, ',', '(=+)+;') AS x FROM source",
    "a pattern in a key of an address": "SELECT parse_url(b, 'QUERY', '(a+)+') AS x FROM source",
    "a pattern in a lambda": "SELECT exists(arr, x -> b RLIKE '(a+)+$') AS x FROM source",
    "a pattern from the record": "SELECT a FROM source WHERE 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' RLIKE b",
    "a pattern that is put together": "SELECT regexp_extract(b, concat('(a+', ')+c'), 0) AS x FROM source",
    "a pattern with a class in a class": "SELECT a FROM source WHERE b REGEXP '[[](a+)+[]]'",
    "a pattern with quotes": "SELECT a FROM source WHERE b REGEXP '\\\\Q(a+)+\\\\E'",
    "many percent signs": "SELECT a FROM source WHERE b LIKE '%a%a%a%a%a%a%b'",
    "many percent signs among others": "SELECT a FROM source WHERE b LIKE ANY ('x', '%a%a%a%a%a%a%b')",
    "percent signs from the record": "SELECT a FROM source WHERE 'aaaaaaaaaaaaaaaa' LIKE b",
    "percent signs from the record by a function": "SELECT ilike('aaaaaaaaaaaaaaaa', b) AS x FROM source",
    "percent signs from the record among others": "SELECT a FROM source WHERE 'aaaaaaaa' LIKE ALL ('a%', b)",
    "a column that floe takes for its own": "SELECT a, 'no' AS __floe_failed FROM source",
    "the column that carries records": "SELECT a, a AS __floe_carried FROM source",
    "the hidden column": "SELECT a, __floe AS x FROM source",
    "the hidden column by its table": "SELECT source.__FLOE AS x FROM source",
    "a field of the hidden column": "SELECT `__floe`.offset AS x FROM source",
    "the hidden column in a condition": "SELECT a FROM source WHERE __floe IS NULL",
    "all of the hidden column": "SELECT __floe.* FROM source",
    "such a column in other letters": "SELECT a, 'no' AS `__FLOE_Failed` FROM source",
    "a value of 500 MB by padding": "SELECT lpad('a', 500000000, 'b') AS x FROM source",
    "a length from the record": "SELECT rpad(b, CAST(a * 300000000 AS int), 'x') AS x FROM source",
    "a length that is computed": "SELECT lpad(b, 5000 * 100000, 'x') AS x FROM source",
    "a width in a format": "SELECT format_string('%400000000d', 1) AS x FROM source",
    "a precision in a format": "SELECT printf('%.400000000f', 1.5D) AS x FROM source",
    "a format from the record": "SELECT format_string(b, a) AS x FROM source",
    "many widths in a format": "SELECT printf('%9000d%9000d%9000d', 1, 2, 3) AS x FROM source",
    "digits behind the point": "SELECT format_number(1.5D, 400000000) AS x FROM source",
    "an element far away": "SELECT array_insert(arr, 400000000, 1) AS x FROM source",
    "an element far before": "SELECT array_insert(arr, -400000000, 1) AS x FROM source",
    "doubling by elements": "SELECT aggregate(arr, 'a', (acc, x) -> concat(acc, acc)) AS x FROM source",
    "doubling by elements in a condition": "SELECT reduce(arr, 'a', (acc, x) -> if(x > 0, acc || acc, acc)) AS x FROM source",
    "doubling by elements and replacing": "SELECT aggregate(arr, 'a', (acc, x) -> replace(acc, 'a', 'aa')) AS x FROM source",
    "squares by elements": "SELECT aggregate(arr, 'a', (acc, x) -> replace(acc, 'a', acc)) AS x FROM source",
    "squares of squares": "SELECT replace(replace(b, 'x', b), 'x', replace(b, 'x', b)) AS x FROM source",
    "replacing by more and more": "SELECT replace(replace(replace(replace(b, 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', "
    "'aaaaaaaaaa'), 'a', 'aaaaaaaaaa') AS x FROM source",
    "doubling by statements": "SELECT concat(x, x, x, x, x, x, x, x, x, x, x) AS y FROM "
    "(SELECT concat(y, y, y, y, y, y, y, y, y, y) AS x FROM (SELECT concat(b, b, b, b, b, b, b, b, b, b, b) AS y FROM source))",
    "doubling by columns without a name": "SELECT concat(`concat(b, b)`, `concat(b, b)`) AS x FROM (SELECT concat(b, b) FROM "
    "(SELECT replace(replace(b, 'x', repeat_me), 'y', repeat_me) AS b FROM (SELECT b, concat(b, b) AS repeat_me FROM source)))",
    "growth in a column without a name": "SELECT replace(`replace(b, 'x', b)`, 'x', b) AS x FROM "
    "(SELECT replace(b, 'x', b) FROM source)",
    "growth in fields that become columns": "SELECT replace(k, 'x', k) AS x FROM (SELECT s.* FROM (SELECT named_struct('k', "
    "replace(b, 'x', b)) AS s FROM source))",
    "growth inside of a number": "SELECT length(replace(replace(b, 'x', b), 'x', b)) AS x FROM source",
    "growth inside of a condition": "SELECT a FROM source WHERE replace(replace(b, 'x', b), 'x', b) = 'x'",
    "a function that is not Spark's": "SELECT my_udf(a) AS x FROM source",
}
ORDINARY = [
    "SELECT a + 1 AS c, -a AS d, a * 2 / 3 % 4 AS e, upper(b) AS f, CAST(a AS string) AS g, b || 'x' AS h FROM source",
    "SELECT CASE WHEN a > 1 THEN 'big' ELSE b END AS c, coalesce(b, 'none') AS d, nullif(a, 1) AS e FROM source",
    "SELECT * FROM source WHERE a BETWEEN 1 AND 2 AND b LIKE 'x%' OR b IN ('y', 'z') OR b IS NULL OR NOT b RLIKE 'q'",
    "SELECT s.x AS c, arr[0] AS d, transform(arr, x -> x + a) AS e, named_struct('k', a) AS f, map(b, a) AS g FROM source",
    "SELECT to_date(at) AS d, date_trunc('hour', at) AS h, extract(year FROM at) AS y, at + INTERVAL 1 DAY AS n FROM source",
    "SELECT from_json('{\"k\": 1}', 'k int') AS j, get_json_object('{}', '$.a') AS g, sha2(b, 256) AS h FROM source t",
    "SELECT current_timestamp() AS now, current_date AS today, * EXCEPT (arr) FROM source",
    "SELECT regexp_replace(b, '[^0-9]+', '') AS c, split(b, ',') AS d, regexp_extract(b, '^(\\\\w+)-', 1) AS e FROM source",
    "SELECT str_to_map(b) AS c, parse_url(b, 'HOST') AS d, regexp_like(b, NULL) AS e, b LIKE ALL ('x%', '%y') AS f FROM source",
    "SELECT replace(replace(replace(b, ' ', ''), ',', '.'), 'a', 'ae') AS c, format_string('%s-%05d', b, a) AS d FROM source",
    "SELECT aggregate(arr, 0L, (acc, x) -> acc + x) AS c, aggregate(arr, '', (acc, x) -> concat(acc, ',', x)) AS d FROM source",
    "SELECT reduce(arr, named_struct('n', 0L, 's', 0L), (c, x) -> named_struct('n', c.n + 1, 's', c.s + x), c -> c.s / c.n) AS c "
    "FROM source",
    "SELECT transform(filter(transform(arr, x -> x + 1), x -> x > 0), x -> named_struct('a', a, 'x', x)) AS c FROM source",
    "SELECT array_join(transform(arr, x -> CAST(x AS string)), ', ') AS c, concat_ws('-', b, b, b) AS d FROM source",
    "SELECT lpad(b, 100, ' ') AS c, format_number(a, 2) AS d, array_insert(arr, 2, 7) AS e, concat(b, b, 'x') AS f FROM source",
    "SELECT aggregate(arr, CAST(array() AS array<bigint>), "
    "(acc, x) -> if(array_contains(acc, x), acc, array_append(acc, x))) AS c FROM source",
    "SELECT trim(both 'x' FROM b) AS c, substring(b FROM 1 FOR 1) AS d, lpad(b, 5, '0') AS e FROM source",
]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    made = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield made
    made.stop()


@pytest.mark.parametrize("wanted", ATTACKS)
def test_what_is_no_projection_or_filter_of_source_is_refused(
    session: SparkSession, tmp_path: Path, wanted: str
) -> None:
    """Wanted: more than the rows of `source`, one by one. Got: FLOE-C-something in words, before anything was
    opened."""
    file = tmp_path / "secret"
    file.write_text("secret")
    session.createDataFrame([(1,)], "a int").createOrReplaceTempView("other")
    with pytest.raises(ConfigError) as refused:
        transform_table(session, ROWS, ATTACKS[wanted].replace("{file}", str(file)))
    said = str(refused.value)
    assert "transform.sql is refused" in said
    assert "secret" not in said.replace(str(file), "")


@pytest.mark.parametrize("sql", ORDINARY)
def test_what_people_write_goes_through(session: SparkSession, sql: str) -> None:
    """Projections, conditions, nested values, times and texts are as Spark has them."""
    assert transform_table(session, ROWS, sql).num_rows in (0, 1, 2)


def test_every_function_that_takes_a_pattern_was_judged(session: SparkSession) -> None:
    """What Spark's own description calls a regular expression is on the list of those whose patterns are looked at."""
    for name in sorted(ALLOWED - FUNCTIONS - {"!", "%"}):
        said = " ".join(row[0] for row in session.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()).lower()
        assert "regex" not in said, said
        assert "regular expression" not in said, said


def test_it_is_said_of_every_function_how_long_its_result_can_be() -> None:
    """Each that is allowed stands on one list of lengths, and none on two: the next one cannot be forgotten."""
    said = [name for names in LENGTHS.values() for name in names]
    assert sorted(said) == sorted(set(said))
    assert set(said) == ALLOWED


def test_every_function_of_this_spark_was_judged(session: SparkSession) -> None:
    """A new version that offers more functions fails here, until each is on one list or the other."""
    offered = {row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert offered == ALLOWED | REFUSED.keys()
    assert not ALLOWED & REFUSED.keys()


def test_no_session_of_spark_begins_elsewhere() -> None:
    """Each session comes from `start_session`, or from one that it started, with the settings that nobody changes."""
    places = {
        path.relative_to(FRAMEWORK).as_posix()
        for path in FRAMEWORK.rglob("*.py")
        if re.search(r"SparkSession\.builder|\.newSession\(|getOrCreate\(", path.read_text())
    }
    assert places == {"runtime/spark/query.py", "testing/sql.py"}


@pytest.mark.parametrize("zone", ZONES)
def test_a_statement_means_the_same_everywhere(zone: str, tmp_path: Path) -> None:
    """Times without a zone stay without one, and hours, texts and days are those that the record wrote: whatever clock
    the machine goes by, and whatever the target or the cluster sets; in `floe test` as in a run."""
    done = subprocess.run(
        [sys.executable, "-c", STATEMENT, str(tmp_path)],
        cwd=FRAMEWORK.parent,
        env={**os.environ, "TZ": zone, "SECRET": "told"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    local, run = json.loads(done.stdout)
    assert local == run == WANTED

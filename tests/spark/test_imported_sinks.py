"""Configurations of Iceberg sinks whose transforms become SQL: the rows are the sink's, for reviewed and for made-up records."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from framework.cli.import_connector import pipeline_text
from framework.testing.sql import LocalSpark
from tests.sink_configurations import NAMES, configuration, needs_sql, outcome, prove_made_up, reviewed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WITH_SQL = [name for name in NAMES if needs_sql(name)]


@pytest.fixture(scope="module")
def spark() -> Iterator[LocalSpark]:
    with LocalSpark(lambda line: None) as engine:
        yield engine


@pytest.mark.parametrize("name", WITH_SQL)
def test_sql_gives_the_rows_of_the_sink(name: str, spark: LocalSpark) -> None:
    """The pipeline file and its test are those that were reviewed, and the test passes."""
    assert outcome(configuration(name), spark) == reviewed(name)


@pytest.mark.parametrize("name", WITH_SQL)
def test_sql_gives_the_rows_of_the_sink_for_other_records(name: str, spark: LocalSpark) -> None:
    """Records with other values, nulls and missing fields become the rows that the interpreter of the sink gives."""
    one = configuration(name)

    prove_made_up(one, pipeline_text(one.imported()), Random(name), spark)

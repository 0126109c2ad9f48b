"""Configurations of Iceberg sinks whose transforms become SQL: the rows are the sink's, for reviewed and for made-up records."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from framework.cli.write.import_connector import check_text, pipeline_text
from framework.errors import ConfigError
from framework.testing.sql import LocalSpark
from tests.sink_configurations import (
    FILE,
    NAMES,
    Configuration,
    configuration,
    needs_sql,
    outcome,
    prove_made_up,
    reviewed,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WITH_SQL = [name for name in NAMES if needs_sql(name)]


@pytest.fixture(scope="module")
def spark() -> Iterator[LocalSpark]:
    with LocalSpark(lambda line: None) as engine:
        yield engine


def test_sql_gives_the_rows_of_the_sink(spark: LocalSpark) -> None:
    """Each pipeline file and its test are those that were reviewed, and the test passes."""
    assert len(WITH_SQL) >= 15
    for name in WITH_SQL:
        assert outcome(configuration(name), spark) == reviewed(name), name


def test_sql_gives_the_rows_of_the_sink_for_other_records(spark: LocalSpark) -> None:
    """Records with other values, nulls and missing fields become the rows that the interpreter of the sink gives."""
    for name in WITH_SQL:
        one = configuration(name)
        prove_made_up(one, pipeline_text(one.imported()), Random(name), spark)


FIELDS = {"a": "long", "b": "string", "c": "struct<x: long, y: string>", "d": "double", "e": "boolean"}
RECORDS = [
    {"a": 1, "b": "one", "c": {"x": 7, "y": "in"}, "d": 0.5, "e": True},
    {"a": 2, "b": "two", "c": {"x": 8, "y": "out"}, "d": 1.5, "e": False},
]


def chain(random: Random) -> list[tuple[str, dict[str, str]]]:
    """Some transforms with options that may or may not fit what the ones before them left."""
    names = [*"abcdexy", "c_x", "c_y", "z"]

    def name() -> str:
        return random.choice(names)

    pool = [
        lambda: ("ExtractField$Value", {"field": random.choice(["c", "c", name()])}),
        lambda: ("ReplaceField$Value", {"renames": f"{name()}:{name()}"}),
        lambda: ("ReplaceField$Value", {"exclude": f"{name()},{name()}"}),
        lambda: ("ReplaceField$Value", {"include": ",".join(random.sample(names, 6))}),
        lambda: ("InsertField$Value", {"static.field": name(), "static.value": random.choice(["1", "it's", ""])}),
        lambda: ("InsertField$Value", {"topic.field": name()}),
        lambda: ("MaskField$Value", {"fields": name()}),
        lambda: ("MaskField$Value", {"fields": name(), "replacement": "12"}),
        lambda: ("Cast$Value", {"spec": f"{name()}:{random.choice(['string', 'int64', 'float64', 'boolean'])}"}),
        lambda: ("Flatten$Value", {"delimiter": "_"}),
        lambda: ("TimestampConverter$Value", {"field": name(), "target.type": "Timestamp"}),
        lambda: ("ReplaceField$Key", {"exclude": name()}),
        lambda: ("RegexRouter", {"regex": "(.*)s", "replacement": "$1"}),
    ]
    return [random.choice(pool)() for _ in range(random.randrange(1, 5))]


def test_any_order_of_transforms_gives_the_rows_of_the_sink(spark: LocalSpark) -> None:
    """Whatever transforms stand in whatever order: the rows are those of the interpreter, or the import is refused."""
    accepted = 0
    for seed in range(400):
        random = Random(seed)
        steps = chain(random)
        config = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": "orders",
            "iceberg.tables": "shop.orders",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "transforms": ",".join(f"t{number}" for number in range(len(steps))),
        }
        for number, (kind, options) in enumerate(steps):
            config[f"transforms.t{number}.type"] = f"org.apache.kafka.connect.transforms.{kind}"
            config |= {f"transforms.t{number}.{key}": value for key, value in options.items()}
        one = Configuration(str(seed), {"config": config, "fields": FIELDS, "records": RECORDS})
        try:
            text = pipeline_text(one.imported())
            check_text(text, FILE)
        except ConfigError:
            continue
        accepted += 1
        if accepted <= 60:
            prove_made_up(one, text, random, spark)

    assert accepted > 60

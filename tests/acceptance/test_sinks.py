"""Documented configurations of Iceberg sinks: each becomes a pipeline file whose rows are the sink's, or is refused by name."""

from __future__ import annotations

import re
from random import Random

import pytest

from framework.cli.write.import_connector import pipeline_text
from tests.sink_configurations import FOLDER, NAMES, configuration, needs_sql, outcome, prove_made_up, reviewed

PROVED = [name for name in NAMES if "\ntests:" in reviewed(name)]
REFUSED = [name for name in NAMES if reviewed(name).startswith("error[")]
WITHOUT_SQL = [name for name in NAMES if not needs_sql(name)]


@pytest.mark.parametrize("name", WITHOUT_SQL)
def test_a_documented_configuration_is_translated_or_refused(name: str, request: pytest.FixtureRequest) -> None:
    """The pipeline file and its test are those that were reviewed, and the test passes; or the refusal names the
    property."""
    found = outcome(configuration(name), None)
    if request.config.getoption("--update"):
        (FOLDER / f"{name}.txt").write_text(found, encoding="utf-8")

    assert found == reviewed(name)


@pytest.mark.parametrize("name", [name for name in PROVED if not needs_sql(name) and "# TODO" not in reviewed(name)])
def test_other_records_become_the_rows_of_the_sink(name: str) -> None:
    """Records with other values, nulls and missing fields become the rows that the interpreter of the sink gives."""
    one = configuration(name)

    prove_made_up(one, pipeline_text(one.imported()), Random(name), None)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_property_and_what_to_do(name: str) -> None:
    """A refusal names a property of the configuration, or one that its sink or transform takes a default for, and gives a
    remedy."""
    found = re.match(r"error\[FLOE-R405\] `([^`]+)`: .+\n  remedy: .+", reviewed(name))

    assert found is not None
    settings = configuration(name).settings
    assert found[1] in settings or f"{found[1].rpartition('.')[0]}.type" in settings


def test_there_are_enough_configurations() -> None:
    """At least 40 configurations are kept; each names the page that it follows, and is proved or refused, or its file
    says what is left to do."""
    assert len(NAMES) >= 40
    assert all(configuration(name).document["follows"].startswith("https://") for name in NAMES)
    rest = [name for name in NAMES if name not in PROVED and name not in REFUSED and "# TODO" not in reviewed(name)]
    assert rest == []

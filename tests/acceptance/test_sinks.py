"""Documented configurations of Iceberg sinks: each becomes a pipeline file whose rows are the sink's, or is refused by name."""

from __future__ import annotations

import pytest

from tests.sink_configurations import FOLDER, NAMES, configuration, needs_sql, outcome, reviewed

WITHOUT_SQL = [name for name in NAMES if not needs_sql(name)]


@pytest.mark.parametrize("name", WITHOUT_SQL)
def test_a_documented_configuration_is_translated_or_refused(name: str, request: pytest.FixtureRequest) -> None:
    """The pipeline file and its test are those that were reviewed, and the test passes; or the refusal names the
    property."""
    found = outcome(configuration(name), None)
    if request.config.getoption("--update"):
        (FOLDER / f"{name}.txt").write_text(found, encoding="utf-8")

    assert found == reviewed(name)

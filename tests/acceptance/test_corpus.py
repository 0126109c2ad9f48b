"""Records of real systems, written for this project from their public schemas, and the tables that they land in.

One folder per shape: `records.jsonl` (one record a line, nasty ones among them), `pipeline.yaml`, and what was reviewed:
`schema.golden` (the tables' columns) and `rows.golden` (rows and dead letters). `pytest tests/acceptance --update` writes
both anew. Records go through the job's own decode, route, convert and evolve decisions, without Kafka and Spark.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.config.load import load_pipelines
from framework.config.tree import Entry, Mapping
from framework.diagnose.diagnostic import Span
from framework.plan.compile import compile_plan
from framework.testing.case import Case, InputRecord
from framework.testing.compare import dead_letter_facts
from framework.testing.execute import CaseOutcome, run_case
from framework.testing.values import rows_of, type_text
from tests.unit.config.in_memory import TARGET, world

CORPUS = sorted(path.parent for path in (Path(__file__).parent / "corpus").glob("*/pipeline.yaml"))


def outcome_of(shape: Path) -> CaseOutcome:
    text = (shape / "pipeline.yaml").read_text(encoding="utf-8")
    (result,) = load_pipelines(["p.yaml"], None, world({"p.yaml": text, "targets/local.yaml": TARGET}))
    assert result.pipeline is not None, [str(d) for d in result.diagnostics]
    plan = compile_plan(result.pipeline)
    lines = (shape / "records.jsonl").read_bytes().splitlines()
    records = tuple(
        InputRecord(plan.read.topics[0], 0, i, line, None, 1_709_284_300_000, ()) for i, line in enumerate(lines)
    )
    span = Span("p.yaml", 1, 1, 1, 1)
    return run_case(
        Case(
            name=shape.name,
            span=span,
            records=records,
            given=(),
            schemas=(),
            entry=Entry("expect", span, Mapping((), span)),
        ),
        plan,
    )


def schemas(outcome: CaseOutcome) -> str:
    lines = []
    for name, table in sorted(outcome.tables.items()):
        by = f", partitioned by {', '.join(table.partition_by)}" if table.partition_by else ""
        lines.append(f"{name}{by}")
        lines += [
            f"  {field.name}: {type_text(field.field_type)}{' required' if field.required else ''}"
            for field in table.schema.fields
        ]
    return "\n".join(lines) + "\n"


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def rows(outcome: CaseOutcome) -> str:
    """Rows as JSON without their nulls, then the dead letters."""
    lines = []
    for name, table in sorted(outcome.tables.items()):
        lines.append(f"{name}:")
        lines += [
            f"  {json.dumps(without_nulls(row), ensure_ascii=False)}" for row in rows_of(table.rows, table.schema)
        ]
    if outcome.dead_letters:
        lines.append("dead letters:")
    for letter in outcome.dead_letters:
        facts = dead_letter_facts(letter)
        lines.append(f"  line {letter.offset + 1}: {facts['code']} at {facts['stage']}: {facts['message']}")
    if outcome.dropped:
        lines.append(f"dropped: {outcome.dropped}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("shape", CORPUS, ids=lambda shape: shape.name)
def test_shape(shape: Path, request: pytest.FixtureRequest) -> None:
    """Each shape lands in the tables that were reviewed: columns, values, and the records that are refused, to the letter."""
    outcome = outcome_of(shape)
    assert outcome.stop is None
    for name, text in (("schema.golden", schemas(outcome)), ("rows.golden", rows(outcome))):
        if request.config.getoption("--update"):
            (shape / name).write_text(text, encoding="utf-8")
        assert text == (shape / name).read_text(encoding="utf-8")


def test_there_are_many_shapes() -> None:
    """At least 20 shapes of real systems are kept, each with several records."""
    assert len(CORPUS) >= 20
    assert all(len((shape / "records.jsonl").read_bytes().splitlines()) >= 2 for shape in CORPUS)

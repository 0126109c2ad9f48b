"""Turns the result of a case into the expectation that it would pass, as edits of the present expectation.

In: a case's report and the positions in its file. Out: edits. If rows only have different values, only those values
change; the columns that a person chose to name stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.tree import Entry, Mapping, Node, Sequence, find, plain
from framework.testing.compare import (
    Comparison,
    column_types,
    dead_letter_facts,
    match_dead_letters,
    match_rows,
    stop_facts,
)
from framework.testing.execute import CaseOutcome, TableOutcome
from framework.testing.rewriting.edit import Edit, NodePlaces
from framework.testing.suite import CaseReport
from framework.testing.values import Plain, rows_of


def edits(report: CaseReport, places: NodePlaces) -> Iterator[Edit]:
    """The edits that make a case pass that does not."""
    expect, outcome = report.case.expect, report.outcome
    if outcome.stop is not None or "stops" in expect.keys:
        yield places.replace_entry(report.case.entry, whole(outcome))
        return
    if (tables := expect.entry("tables")) is not None and isinstance(tables.value, Mapping):
        yield from _tables(tables, tables.value, Comparison(report.case, outcome), places)
    dead_letters = expect.entry("dead_letters")
    yield from _letters(expect, dead_letters, outcome, places)
    for name, count in (("dropped", outcome.dropped), ("filtered", outcome.filtered)):
        node = expect.get(name)
        if node is not None and plain(node) != count:
            yield places.replace(node, count)


def whole(outcome: CaseOutcome) -> dict[str, Plain]:
    """All that came, as an expectation from nothing."""
    if outcome.stop is not None:
        facts = stop_facts(outcome.stop)
        return {"stops": {name: facts[name] for name in ("code", "topic", "partition", "offset") if name in facts}}
    expect: dict[str, Plain] = {"tables": _fresh_tables(outcome, None)}
    if outcome.dead_letters:
        expect["dead_letters"] = [_letter(facts, None) for facts in map(dead_letter_facts, outcome.dead_letters)]
    if outcome.dropped:
        expect["dropped"] = outcome.dropped
    if outcome.filtered:
        expect["filtered"] = outcome.filtered
    return expect


# ---- tables --------------------------------------------------------------------------------------------------------


def _tables(entry: Entry, tables: Mapping, comparison: Comparison, places: NodePlaces) -> Iterator[Edit]:
    outcome = comparison.outcome
    reached = {name for name, table in outcome.tables.items() if table.rows is not None}
    named = {one.key for one in tables.entries if not one.key.startswith("x-")}
    if reached - named or named - set(outcome.tables):
        yield places.replace_entry(entry, _fresh_tables(outcome, tables))
        return
    for one in tables.entries:
        if isinstance(one.value, Mapping) and one.key in outcome.tables:
            yield from _table(one.key, one.value, comparison, places)


def _table(name: str, expected: Mapping, comparison: Comparison, places: NodePlaces) -> Iterator[Edit]:
    actual = comparison.outcome.tables[name]
    fresh = _fresh_table(expected, actual)
    schema, partition = expected.entry("schema"), expected.entry("partition_by")
    differs = schema and comparison.schema(name, schema.value, actual, _is_exact(expected))
    if schema and differs and any(True for _ in differs):
        yield places.replace_entry(schema, fresh["schema"])
    differs = partition and comparison.partition(name, partition.value, actual)
    if partition and differs and any(True for _ in differs):
        yield places.replace_entry(partition, fresh["partition_by"])
    order, identifiers = expected.entry("sort_by"), expected.entry("identifier_fields")
    if order and any(True for _ in comparison.order(name, order.value, actual)):
        yield places.replace_entry(order, fresh["sort_by"])
    if identifiers and any(True for _ in comparison.identifiers(name, identifiers.value, actual)):
        yield places.replace_entry(identifiers, fresh["identifier_fields"])
    entry = expected.entry("rows")
    if entry is None or not isinstance(entry.value, Sequence):
        return
    matching = match_rows(entry.value, actual, _is_exact(expected))
    found = [one for i, j in matching.pairs for one in matching.differences[i][j]]
    if matching.is_complete and all(one.named and not one.missing for one in found):
        for one in found:
            yield places.replace(one.node, _nameable(one.actual))
    else:
        yield places.replace_entry(entry, fresh["rows"])


def _fresh_tables(outcome: CaseOutcome, expected: Mapping | None) -> dict[str, Plain]:
    tables = {}
    for name, table in outcome.tables.items():
        known = expected.get(name) if expected else None
        if table.rows is not None or known is not None:
            tables[name] = _fresh_table(known if isinstance(known, Mapping) else None, table)
    return tables


def _fresh_table(expected: Mapping | None, actual: TableOutcome) -> dict[str, Plain]:
    """The same keys with what is; all of them for a table that was not expected."""
    kinds = column_types(actual)
    fresh: dict[str, Plain] = {}
    rows = [_without_nulls(row) for row in rows_of(actual.rows, actual.schema)]
    named: dict[str, Plain] = {
        "partition_by": list(actual.partition_by or ()),
        "sort_by": list(actual.sort_by or ()),
        "identifier_fields": sorted(actual.schema.identifier_field_names()),
        "schema": kinds,
        "rows": rows,
    }
    if expected is None:
        emptied = actual.rows is not None and not rows  # by deletes: that nothing is left is worth saying
        return {key: _nameable(value) for key, value in named.items() if value or (key == "rows" and emptied)}
    for entry in expected.entries:
        if entry.key == "schema" and isinstance(entry.value, Mapping) and not _is_exact(expected):
            fresh["schema"] = {name: kinds[name] for name in entry.value.keys if name in kinds}
        elif entry.key == "rows" and isinstance(entry.value, Sequence):
            fresh["rows"] = _fresh_rows(entry.value, actual, _is_exact(expected))
        elif entry.key in named:
            fresh[entry.key] = named[entry.key]
        elif entry.key == "exact":
            fresh["exact"] = _is_exact(expected)
    return {key: _nameable(value) for key, value in fresh.items()}


def _fresh_rows(expected: Sequence, actual: TableOutcome, exact: bool) -> list[Plain]:
    rows = rows_of(actual.rows, actual.schema)
    matching, nodes = match_rows(expected, actual, exact), [n for n in expected.items if isinstance(n, Mapping)]
    columns = {name for node in nodes for name in node.keys}
    fresh = [_project(nodes[i], rows[j], exact) for i, j in matching.pairs]
    for j in matching.extra:
        some = {name: value for name, value in rows[j].items() if name in columns}
        fresh.append(_without_nulls(rows[j]) if exact or not any(v is not None for v in some.values()) else some)
    return fresh


def _project(expected: Node, actual: Plain, exact: bool) -> Plain:
    """The actual value with the fields that the expected one names."""
    if not isinstance(actual, dict):
        return actual
    if not isinstance(expected, Mapping) or exact:
        return _without_nulls(actual)
    return {e.key: _project(e.value, actual[e.key], exact) for e in expected.entries if e.key in actual}


def _is_exact(expected: Mapping) -> bool:
    return getattr(expected.get("exact"), "value", False) is True


def _without_nulls(row: dict[str, Plain]) -> dict[str, Plain]:
    return {name: value for name, value in row.items() if value is not None}


def _nameable(value: Plain) -> Plain:
    """A value without fields whose names a pipeline file cannot hold, since keys hold no references."""
    if isinstance(value, dict):
        return {name: _nameable(inner) for name, inner in value.items() if "${" not in name}
    return [_nameable(item) for item in value] if isinstance(value, list) else value


# ---- dead letters --------------------------------------------------------------------------------------------------


def _letters(expect: Mapping, entry: Entry | None, outcome: CaseOutcome, places: NodePlaces) -> Iterator[Edit]:
    facts = [dead_letter_facts(dead_letter) for dead_letter in outcome.dead_letters]
    if entry is None:
        if facts:
            yield places.add_entry(expect, "dead_letters", [_letter(one, None) for one in facts])
        return
    matching, nodes = (
        match_dead_letters(entry.value, outcome),
        entry.value.items if isinstance(entry.value, Sequence) else (),
    )
    if matching.is_complete:
        for i, j in matching.pairs:
            for key in matching.differences[i][j]:
                node = find(nodes[i], (key,))
                if node is not None:
                    yield places.replace(node, facts[j].get(key))
        return
    fresh = [_letter(facts[j], nodes[i]) for i, j in matching.pairs] + [_letter(facts[j], None) for j in matching.extra]
    yield places.replace_entry(entry, fresh)


def _letter(facts: dict[str, Plain], expected: Node | None) -> dict[str, Plain]:
    keys = (
        expected.keys if isinstance(expected, Mapping) else ("topic", "partition", "offset", "stage", "code", "field")
    )
    return {key: facts[key] for key in keys if key in facts}

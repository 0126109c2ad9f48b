"""Compares the result of a case with the expectation; each difference has the position of the expectation.

In: a Case and its Outcome. Out: diagnostics; none if the case passes. Rows are compared in any order, by the named
columns. A row that fits no expectation is shown beside the most similar one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.config.tree import Mapping, Node, Scalar, Sequence, dotted, plain
from framework.config.units import partition_field, partition_text, sort_field, sort_text, unquoted
from framework.diagnose.counted import counted
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.diagnose.suggest import did_you_mean
from framework.record.model import DeadLetter
from framework.testing.case import Case
from framework.testing.execute import CaseOutcome, RunStop, TableOutcome
from framework.testing.matching import Matching, match
from framework.testing.values import Plain, ValueDifference, in_words, row_differences, rows_of, type_text

CODE = "FLOE-R401"


def compare(case: Case, outcome: CaseOutcome) -> list[Diagnostic]:
    """The differences, in the order of the file."""
    return list(Comparison(case, outcome).differences())


def dead_letter_facts(dead_letter: DeadLetter) -> dict[str, Plain]:
    """What an expectation may say of a dead letter."""
    facts = {
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "stage": dead_letter.stage,
        "code": dead_letter.code,
        "message": dead_letter.message,
        "field": dead_letter.field_path,
        "expected": dead_letter.expected,
        "actual": dead_letter.actual,
    }
    return {name: value for name, value in facts.items() if value is not None}


def stop_facts(stop: RunStop) -> dict[str, Plain]:
    """What an expectation may say of why a run stops."""
    return {name: value for name, value in vars(stop).items() if value is not None}


@dataclass(frozen=True)
class Comparison:
    case: Case
    outcome: CaseOutcome

    def differences(self) -> Iterator[Diagnostic]:
        expect, outcome = self.case.expect, self.outcome
        stops = expect.get("stops")
        if outcome.stop is not None:
            yield from self._stopped(outcome.stop, stops)
            return
        if stops is not None:
            yield self._at(stops.span, "the run does not stop", "stops")
        if isinstance(tables := expect.get("tables"), Mapping):
            yield from self._tables(tables)
        yield from self._letters(expect.get("dead_letters"))
        for name, count in (("dropped", outcome.dropped), ("filtered", outcome.filtered)):
            node = expect.get(name)
            if isinstance(node, Scalar) and node.value != count:
                yield self._at(
                    node.span, f"{counted(count, 'record is', 'records are')} {name}, expected {node.value}", name
                )

    def _at(self, span: Span, message: str, *path: str | int, hint: str | None = None) -> Diagnostic:
        return Diagnostic(CODE, message, span, path=dotted(("expect", *path)), hint=hint)

    def _stopped(self, stop: RunStop, expected: Node | None) -> Iterator[Diagnostic]:
        facts = stop_facts(stop)
        where = f" at {stop.topic}-{stop.partition}@{stop.offset}" if stop.offset is not None else ""
        if not isinstance(expected, Mapping):
            message = f"the run stops{where}: {stop.message} [{stop.code}]"
            yield self._at(self.case.entry.key_span, message, hint="to expect this, use `stops: {code: ...}`")
            return
        for entry in _unlike(expected, facts):
            was = in_words(facts.get(entry))
            span = (expected.get(entry) or expected).span
            yield self._at(
                span, f"the run stops with {entry} {was}, expected {in_words(plain(expected)[entry])}", "stops"
            )

    # ---- tables ------------------------------------------------------------------------------------------------

    def _tables(self, tables: Mapping) -> Iterator[Diagnostic]:
        reached = {name for name, table in self.outcome.tables.items() if table.rows is not None}
        for entry in tables.entries:
            expected, actual = entry.value, self.outcome.tables.get(entry.key)
            if entry.key.startswith("x-") or not isinstance(expected, Mapping):
                continue
            rows = expected.get("rows")
            if actual is None:
                if isinstance(rows, Sequence) and not rows.items and expected.keys == ("rows",):
                    continue
                hint = did_you_mean(entry.key, reached - set(tables.keys))
                yield self._at(entry.key_span, f"no record reaches the table {entry.key}", "tables", hint=hint)
                continue
            yield from self._table(entry.key, expected, actual)
        for name in sorted(reached - set(tables.keys)):
            table = self.outcome.tables[name]
            message = f"the table {name} is not expected, and {_count(rows_of(table.rows, table.schema))}"
            yield self._at((self.case.expect.entry("tables") or self.case.entry).key_span, message, "tables")

    def _table(self, name: str, expected: Mapping, actual: TableOutcome) -> Iterator[Diagnostic]:
        exact = expected.get("exact")
        is_exact = isinstance(exact, Scalar) and exact.value is True
        schema, partition, rows = expected.get("schema"), expected.get("partition_by"), expected.get("rows")
        if schema is not None:
            yield from self.schema(name, schema, actual, is_exact)
        if partition is not None:
            yield from self.partition(name, partition, actual)
        if (order := expected.get("sort_by")) is not None:
            yield from self.order(name, order, actual)
        if (identifiers := expected.get("identifier_fields")) is not None:
            yield from self.identifiers(name, identifiers, actual)
        if isinstance(rows, Sequence):
            yield from self._rows(name, rows, actual, is_exact)

    def schema(self, name: str, expected: Node, actual: TableOutcome, exact: bool) -> Iterator[Diagnostic]:
        """Where a table's columns are not as expected."""
        kinds = column_types(actual)
        entries = expected.entries if isinstance(expected, Mapping) else ()
        for entry in entries:
            if entry.key not in kinds:
                hint = did_you_mean(entry.key, kinds)
                yield self._at(entry.key_span, f"{name} has no column `{entry.key}`", "tables", name, hint=hint)
            elif _compact(plain(entry.value)) != _compact(kinds[entry.key]):
                message = f"{name}: `{entry.key}` is {kinds[entry.key]}, expected {plain(entry.value)}"
                yield self._at(entry.value.span, message, "tables", name, "schema", entry.key)
        for column in kinds if exact else ():
            if column not in {entry.key for entry in entries}:
                message = f"{name} has the column `{column}` ({kinds[column]}), which is not expected"
                yield self._at(expected.span, message, "tables", name, "schema")

    def partition(self, name: str, expected: Node, actual: TableOutcome) -> Iterator[Diagnostic]:
        """Where a table's partition fields are not as expected."""
        if actual.partition_by is None:
            yield self._at(
                expected.span, f"{name} is under `given`, so this file does not decide its partitions", "tables", name
            )
            return
        fields = [partition_field(text) for text in plain(expected)]
        wanted = tuple(partition_text(field) if field else "?" for field in fields)
        if wanted != actual.partition_by:
            fields_text = in_words(list(actual.partition_by))
            is_partitioned = f"is partitioned by {fields_text}" if actual.partition_by else "has no partitions"
            message = f"{name} {is_partitioned}"
            yield self._at(expected.span, f"{message}, expected {in_words(list(wanted))}", "tables", name)

    def order(self, name: str, expected: Node, actual: TableOutcome) -> Iterator[Diagnostic]:
        """Where a table's sort order is not as expected."""
        if actual.sort_by is None:
            yield self._at(
                expected.span, f"{name} is under `given`, so this file does not decide its sort order", "tables", name
            )
            return
        orders = [sort_field(text) for text in plain(expected)]
        wanted = tuple(sort_text(order) if order else "?" for order in orders)
        if wanted != actual.sort_by:
            is_sorted = f"is sorted by {in_words(list(actual.sort_by))}" if actual.sort_by else "is not sorted"
            message = f"{name} {is_sorted}, expected {in_words(list(wanted))}"
            yield self._at(expected.span, message, "tables", name)

    def identifiers(self, name: str, expected: Node, actual: TableOutcome) -> Iterator[Diagnostic]:
        """Where the columns that identify a table's rows are not as expected."""
        found = sorted(actual.schema.identifier_field_names())
        wanted = sorted(map(unquoted, plain(expected)))
        if wanted != found:
            said = f"has rows identified by {in_words(found)}" if found else "has no identifier fields"
            message = f"{name} {said}, expected {in_words(wanted)}"
            yield self._at(expected.span, message, "tables", name)

    def _rows(self, name: str, expected: Sequence, actual: TableOutcome, exact: bool) -> Iterator[Diagnostic]:
        found, nodes = rows_of(actual.rows, actual.schema), _mappings(expected)
        matching = match_rows(expected, actual, exact)
        for i, j in matching.pairs:
            for one in matching.differences[i][j]:
                yield self._value(name, i, one, actual)
        for i in matching.missing:
            message = f"row {i + 1} is not in {name}, which has {counted(len(found), 'row')}"
            yield self._at(nodes[i].span, message, "tables", name, "rows", i)
        for j in matching.extra:
            message = f"{name} has a row that is not expected: {in_words(_without_nulls(found[j]))}"
            yield self._at(expected.span, message, "tables", name, "rows")

    def _value(self, name: str, row: int, one: ValueDifference, actual: TableOutcome) -> Diagnostic:
        if one.missing:
            hint = did_you_mean(one.path, column_types(actual)) if "." not in one.path else None
            return self._at(one.span, f"{name} has no column `{one.path}`", "tables", name, "rows", row, hint=hint)
        expected, was = in_words(one.expected), in_words(one.actual)
        if expected == was:  # text that looks like the value, or the other way round
            was += f" ({type(one.actual).__name__})"
        message = f"row {row + 1} of {name}: `{one.path}` is {was}, expected {expected}"
        return self._at(one.span, message, "tables", name, "rows", row)

    # ---- dead letters ------------------------------------------------------------------------------------------

    def _letters(self, expected: Node | None) -> Iterator[Diagnostic]:
        """Without `dead_letters` there must be none: a test must not pass while its records go elsewhere."""
        nodes = _mappings(expected)
        facts = [dead_letter_facts(dead_letter) for dead_letter in self.outcome.dead_letters]
        matching = match_dead_letters(expected, self.outcome)
        for i, j in matching.pairs:
            for key in matching.differences[i][j]:
                message = f"dead letter {i + 1}: `{key}` is {in_words(facts[j].get(key))}"
                wanted = nodes[i].get(key) or nodes[i]
                yield self._at(wanted.span, f"{message}, expected {in_words(plain(wanted))}", "dead_letters", i)
        for i in matching.missing:
            message = f"dead letter {i + 1} is missing; there {_are(len(facts))}"
            yield self._at(nodes[i].span, message, "dead_letters", i)
        for j in matching.extra:
            one = facts[j]
            message = f"{one['topic']}-{one['partition']}@{one['offset']} becomes a dead letter: {one['message']} [{one['code']}]"
            yield self._at(expected.span if expected else self.case.entry.key_span, message, "dead_letters")


def match_rows(expected: Sequence, actual: TableOutcome, exact: bool) -> Matching[ValueDifference]:
    """Which expected row is which row of the table."""
    found, nodes = rows_of(actual.rows, actual.schema), _mappings(expected)
    differences = [[row_differences(node, row, actual.schema, exact) for row in found] for node in nodes]
    return match(differences, [len(node.entries) for node in nodes], len(found))


def match_dead_letters(expected: Node | None, outcome: CaseOutcome) -> Matching[str]:
    """Which expected dead letter is which one that came; the differences are names of facts."""
    facts, nodes = [dead_letter_facts(dead_letter) for dead_letter in outcome.dead_letters], _mappings(expected)
    unlike = [[_unlike(node, one) for one in facts] for node in nodes]
    return match(unlike, [len(node.entries) for node in nodes], len(facts))


def column_types(table: TableOutcome) -> dict[str, str]:
    """The columns of a table and their Iceberg types as text."""
    return {field.name: type_text(field.field_type) for field in table.schema.fields}


def _unlike(expected: Mapping, facts: dict[str, Plain]) -> list[str]:
    """The keys of which an expectation says something else; a message is expected in part."""
    unlike = []
    for key, value in plain(expected).items():
        same = str(value) in str(facts.get(key, "")) if key == "message" else facts.get(key) == value
        if not same and not key.startswith("x-"):
            unlike.append(key)
    return unlike


def _mappings(node: Node | None) -> list[Mapping]:
    return [item for item in node.items if isinstance(item, Mapping)] if isinstance(node, Sequence) else []


def _compact(text: object) -> str:
    return str(text).replace(" ", "").lower()


def _without_nulls(row: dict[str, Plain]) -> dict[str, Plain]:
    return {name: value for name, value in row.items() if value is not None}


def _count(rows: list[dict[str, Plain]]) -> str:
    if not rows:  # its keys are deleted
        return "has no rows left"
    return f"has {counted(len(rows), 'row')}: {in_words(_without_nulls(rows[0]))}" + (", ..." if len(rows) > 1 else "")


def _are(number: int) -> str:
    return "is one" if number == 1 else f"are {number or 'none'}"

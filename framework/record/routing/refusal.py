"""A record that the policy of its table refuses, as the failure of that record.

In: an Answer of framework.table.policy, and what the record lacks. Out: RecordFailure, in the same words on every way
that a record can take.
"""

from __future__ import annotations

import json

from framework.config.spec import RouteCondition
from framework.record.failure import RecordFailure
from framework.table.owner import OWNED
from framework.table.policy.answers import PolicyAnswer
from framework.table.policy.names import ColumnCandidates

MISSING_VALUE = "FLOE-D305"


def refused(failure: RecordFailure, answer: PolicyAnswer) -> RecordFailure:
    """The failure, to be treated as the answer says, with why the table is not changed where a change would have let
    the record in."""
    failure.policy = answer.errors
    if answer.frozen:
        failure.message = f"{failure.message}; it is not changed now: {answer.frozen}"
    return failure


def not_now(table: str, reason: str) -> RecordFailure:
    """The failure of a record whose table cannot be written for a while."""
    message = f"the table {table!r} cannot be written now: {reason}"
    return RecordFailure("route", "FLOE-D205", message, expected="a table", actual=table)


def of_another_pipeline(table: str, reason: str) -> RecordFailure:
    """The failure of a record that leads to a table of another pipeline, which the reason names."""
    message = f"the table {table!r} is not this pipeline's: {reason}"
    return RecordFailure("route", OWNED, message, expected="a table of this pipeline", actual=table)


def never_equal(condition: RouteCondition, value: object) -> RecordFailure:
    """The failure of a record that says what deletes a row, in a kind of value that `delete_when` never equals."""
    message = (
        f"{condition.field}: the record has {json.dumps(value, default=str)}, and `delete_when` compares it with "
        f"{json.dumps(condition.equals)}, which it never equals"
    )
    return RecordFailure(
        "route",
        "FLOE-D207",
        message,
        field_path=condition.field,
        expected=json.dumps(condition.equals),
        actual=json.dumps(value, default=str),
    )


def no_table(table: str, answer: PolicyAnswer) -> RecordFailure:
    """The failure of a record whose table is not there and may not be created."""
    message = f"the table {table!r} does not exist and may not be created"
    return refused(RecordFailure("route", "FLOE-D204", message, expected="an existing table"), answer)


def no_column(name: str, table: str, answer: PolicyAnswer) -> RecordFailure:
    """The failure of a record with a field that the table lacks and may not gain."""
    message = f"{name}: {table} has no such column and its columns are frozen"
    return refused(RecordFailure("convert", "FLOE-D307", message, field_path=name), answer)


def no_such_name(asked: ColumnCandidates, table: str, answer: PolicyAnswer) -> RecordFailure:
    """The failure of a record with a field whose name no column of the table can have."""
    path = ".".join(asked.path)
    message = f"{path or 'a field without a name'}: {table} cannot have such a column: {asked.why}"
    return refused(RecordFailure("convert", "FLOE-D313", message, field_path=path), answer)


def no_value(path: str, answer: PolicyAnswer) -> RecordFailure:
    """The failure of a row in typed columns that has no value where one must be."""
    message = f"{path} is required and the row has no value for it"
    return refused(RecordFailure("convert", MISSING_VALUE, message, field_path=path), answer)

"""One record made to fit one table as the table's policy says: its row, or what the table must change first, or why
not.

In: a record, the shape of a table and its rules. Out: Fitted, or RecordFailure with what the policy says of such a
record. Keeps invariant 9: a value is in its column exactly, in a column of its own, left out because the policy says
so, or the record is an error. All that a record asks of a table is asked at once, so that a batch is written again once
at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from framework.record.convert.converter import holds_nothing
from framework.record.convert.nested import StructConverter
from framework.record.failure import RecordFailure
from framework.record.fit.field_path import (
    PathStep,
    Steps,
    columns_of,
    moved,
    observed_along,
    required_and_missing,
    steps_to,
    value_at,
    without,
)
from framework.record.fit.infer_types import merge_fields, observe_record, observe_value, settle_fields
from framework.record.fit.table_shape import TableShape
from framework.record.model import ObservedType
from framework.record.routing.refusal import MISSING_VALUE, no_column, no_such_name, refused
from framework.record.strict_json import JsonValue
from framework.table.policy.answers import NOTHING_TO_LEAVE_OUT, Act
from framework.table.policy.names import NOTHING
from framework.table.policy.rules import TableRules

Place = tuple[str | int, ...]
_UNFIT = frozenset({"FLOE-D301", "FLOE-D302", "FLOE-D303", "FLOE-D304", "FLOE-D309"})


@dataclass(frozen=True)
class Fitted:
    """`row` has a value for each column; it is None when the table must change first: `new` are fields it has no column
    for, `wider` columns that must be widened, `optional` the paths of columns that must become optional."""

    row: dict[str, object] | None
    new: dict[str, ObservedType]
    wider: dict[str, ObservedType]
    optional: frozenset[tuple[str, ...]]


def fit(
    record: dict[str, JsonValue], own: dict[str, JsonValue], table: str, shape: TableShape, rules: TableRules
) -> Fitted:
    """Fit one record; `own` is the record without fields that are named like floe's metadata columns."""
    asked = NOTHING
    if shape.without_column(own) or not all(map(_is_flat, own.values())):
        asked = shape.lacking(observe_record(own), rules.policy)
    answer = rules.missing_column()
    if asked.refused and answer.act is not Act.LEAVE_OUT:
        raise no_such_name(asked, table, rules.unusable_name())
    lacking = asked.fields
    if lacking and answer.act is Act.REFUSE:
        raise no_column(next(iter(lacking)), table, answer)
    if shape.metadata:
        record = {name: value for name, value in record.items() if shape.is_own(name)}
    fitting = _Fitting(shape, rules, record, record)
    row = fitting.row()
    new = dict(lacking) if answer.act is Act.CHANGE else {}
    merge_all_fields(new, fitting.new.values())
    wider: dict[str, ObservedType] = {}
    merge_all_fields(wider, fitting.wider.values())
    needs = new or wider or fitting.optional
    return Fitted(None if needs else row, new, wider, frozenset(fitting.optional))


def _is_flat(value: JsonValue) -> bool:
    """Whether no field can be in a value."""
    return not isinstance(value, dict) and not (isinstance(value, list) and any(map(_is_nested, value)))


def _is_nested(value: JsonValue) -> bool:
    return isinstance(value, (dict, list))


def merge_all_fields(into: dict[str, ObservedType], wanted: Iterable[tuple[str, ObservedType]]) -> None:
    for name, kind in wanted:
        merge_fields(into, {name: kind})


@dataclass
class _Fitting:
    """Converts the record, and after each failure the record without, or with another place for, the value that failed.

    `new` and `wider` are what the table must gain, by the place of the value that asks for it: when a value around it
    is moved or left out as a whole, what was asked for inside is asked no more.
    """

    shape: TableShape
    rules: TableRules
    original: dict[str, JsonValue]
    record: dict[str, JsonValue]
    new: dict[Place, tuple[str, ObservedType]] = field(default_factory=dict)
    wider: dict[Place, tuple[str, ObservedType]] = field(default_factory=dict)
    optional: set[tuple[str, ...]] = field(default_factory=set)
    _relaxed: bool = False
    _discarded: dict[Place, RecordFailure] = field(default_factory=dict)
    _moved: set[Place] = field(default_factory=set)

    def row(self) -> dict[str, object]:
        while True:
            root = self.shape.relaxed if self._relaxed else self.shape.own
            try:
                return root.fields(self.record, "")
            except RecordFailure as failure:
                self._refuse_at_once(failure)
                steps = None if failure.field_path is None else steps_to(self.record, failure.field_path, root)
                if not steps or not (failure.code == MISSING_VALUE or failure.code in _UNFIT):
                    raise
                (self._missing if failure.code == MISSING_VALUE else self._unfit)(failure, steps)

    def _refuse_at_once(self, failure: RecordFailure) -> None:
        """Whether a value that does not fit is refused can mostly be determined without its place, which costs much to
        find."""
        if failure.code not in _UNFIT or self._discarded or self._is_nothing(failure):
            return
        is_key = failure.field_path in self.shape.keys
        answer = self.rules.unfit_value(failure.wider is not None and not is_key, can_move=not is_key)
        if answer.act is Act.REFUSE:
            raise refused(failure, answer)

    def _missing(self, failure: RecordFailure, steps: Steps) -> None:
        """A required value is missing: nullability, unless it is missing because it was taken out here."""
        if _keys(steps) in self.wider:
            self._relaxed = True  # the row is of no use any more: go on only to learn what else is needed
            return
        if _keys(steps) in self._discarded:
            self._discard_around(self._discarded[_keys(steps)], steps[:-1])
            return
        columns = {columns_of(place) for place in required_and_missing(self.record, self.shape.own)}
        answer = self.rules.missing_value(can_relax=columns.isdisjoint(self.shape.always_required))
        if answer.act is Act.CHANGE:
            self.optional.update(columns)
            self._relaxed = True
        elif answer.act is Act.LEAVE_OUT:
            self._discard(failure, steps[:-1])
        else:
            raise refused(failure, answer)

    def _unfit(self, failure: RecordFailure, steps: Steps) -> None:
        """A value does not fit its column: data_type."""
        if _keys(steps) in self._discarded:  # the key of a map, which cannot be null
            self._discard(failure, steps[:-1])
            return
        if self._is_nothing(failure):
            self._discard(failure, steps)
            return
        # A key column is what it is: its type never changes, and no value stands beside it.
        is_key = steps[0].column in self.shape.keys
        can_widen = failure.wider is not None and not is_key
        answer = self.rules.unfit_value(can_widen, can_move=not is_key)
        if answer.act is Act.BESIDE:
            if self._move(failure, steps):
                return
            answer = self.rules.unfit_value(can_widen, can_move=False)
        if answer.act is Act.CHANGE:
            assert failure.wider is not None
            self.wider[_keys(steps)] = observed_along(steps, failure.wider)
            self.record = without(self.record, steps)
        elif answer.act is Act.LEAVE_OUT:
            self._discard(failure, steps)
        else:
            raise refused(failure, answer)

    def _is_nothing(self, failure: RecordFailure) -> bool:
        """Whether the value that does not fit is `[]` or `{}`, which would have asked for no column either."""
        return failure.is_empty and self.rules.leaves_empty_out

    def _discard(self, failure: RecordFailure, steps: Steps) -> None:
        """Leave the value out; `_missing` goes on with what is around it where it must not be null."""
        if not steps:
            raise refused(failure, NOTHING_TO_LEAVE_OUT)
        self._forget_inside(steps)
        self._discarded[_keys(steps)] = failure
        self.record = without(self.record, steps)

    def _discard_around(self, failure: RecordFailure, steps: Steps) -> None:
        """A value was left out where none may be missing: what is around it is left out, too. `[]` and `{}` take
        nothing else with them: where null is forbidden they are values that do not fit."""
        if self._is_nothing(failure) and not (steps and holds_nothing(value_at(self.original, steps))):
            answer = self.rules.unfit_value(can_widen=False, can_move=False)
            if answer.act is Act.REFUSE:
                raise refused(failure, answer)
        self._discard(failure, steps)

    def _move(self, failure: RecordFailure, steps: Steps) -> bool:
        """Give the innermost field that holds the value a column of its own beside its column, named after what it is;
        False where it cannot have one."""
        while steps[-1].kind != "field":
            steps = steps[:-1]
        if _keys(steps) in self._moved:
            return False
        value = value_at(self.original, steps)
        observed = settle_fields({"": observe_value(value)}, self.rules.policy)[""]
        kind = observed if isinstance(observed, str) else "string"  # structures as their JSON text
        above, last = steps[:-1], steps[-1]
        name = f"{last.column}_{kind.partition('(')[0] if isinstance(observed, str) else 'json'}"
        parent = above[-1].converter if above else self.shape.root
        around = value_at(self.record, above) if above else self.record
        assert isinstance(parent, StructConverter)
        assert isinstance(around, dict)
        folded = parent.fold(name)
        if any(parent.fold(key) == folded and around[key] is not None for key in around):
            return False
        place = PathStep("field", name, name, None)
        child = next((c for c in parent.children if parent.fold(c.name) == folded), None)
        if child is None:
            top, wanted = observed_along((*above, place), kind)
            if not self.shape.lacking({top: wanted}, self.rules.policy).fields:
                return False
            answer = self.rules.missing_column()
            if answer.act is Act.REFUSE:
                raise refused(failure, answer)
        self._forget_inside(steps)
        if child is None:
            self.new[_keys(steps)] = (top, wanted)
        self.record = moved(self.record, steps, name, value)
        self._moved.add((*_keys(above), name))
        return True

    def _forget_inside(self, steps: Steps) -> None:
        place = _keys(steps)
        for asked in (self.new, self.wider):
            for inner in [each for each in asked if each[: len(place)] == place]:
                del asked[inner]


def _keys(steps: Steps) -> Place:
    return tuple(step.key for step in steps)

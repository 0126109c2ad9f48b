"""One record made to fit one table as the table's policy says: its row, or what the table must change first, or why not.

In: a record, the shape of a table and its policy. Out: Fitted, or RecordFailure with what the policy says of such a record.
Keeps invariant 9: a value is in its column exactly, in a column of its own, left out because the policy says so, or the
record is an error. All that a record asks of a table is asked at once, so that a batch is written again once at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from framework.config.spec import EmptyValues, ErrorPolicy, EvolveMode, TablePolicy
from framework.record.convert.converter import Converter
from framework.record.convert.nested import ListConverter, MapConverter, StructConverter, fold
from framework.record.convert.table_shape import TableShape
from framework.record.failure import RecordFailure
from framework.record.field_path import Step, Steps, moved, observed_along, steps_to, value_at, without
from framework.record.json.strict import JsonValue
from framework.record.model import ObservedType
from framework.record.observe import merge_fields, missing_fields, observe_record, observe_value, settle_fields
from framework.table.admit import admitted_fields

Place = tuple[str | int, ...]
NO_COLUMN = "FLOE-D307"
_MISSING = "FLOE-D305"
_UNFIT = frozenset({"FLOE-D301", "FLOE-D302", "FLOE-D303", "FLOE-D304", "FLOE-D309"})
_LENIENT = (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.DISCARD_VALUE, EvolveMode.EVOLVE)
_ERRORS = {EvolveMode.DEAD_LETTER: ErrorPolicy.DEAD_LETTER, EvolveMode.FAIL: ErrorPolicy.FAIL}


@dataclass(frozen=True)
class Fitted:
    """`row` has a value for each column; it is None when the table must change first: `new` are fields it has no column
    for, `wider` columns that must be widened, `optional` the paths of columns that must become optional."""

    row: dict[str, object] | None
    new: dict[str, ObservedType]
    wider: dict[str, ObservedType]
    optional: frozenset[tuple[str, ...]]


def refused(failure: RecordFailure, word: EvolveMode) -> RecordFailure:
    """The failure, to be treated as a word of the policy says; `freeze` leaves that to `errors.policy`."""
    failure.policy = _ERRORS.get(word)
    return failure


def leaves_empty_out(policy: TablePolicy) -> bool:
    """Whether `[]` and `{}` are null in a column of another kind: the policy is not to refuse whatever does not fit. `evolve` is
    no word of a file here: so the source of `transform.sql` leaves them out, whose columns never change."""
    return policy.values.empty is EmptyValues.DISCARD and policy.evolve.data_type in _LENIENT


def because(failure: RecordFailure, frozen: str) -> RecordFailure:
    """The failure, with why the table is not changed now, where a change would have let the record in."""
    if frozen and (failure.code in (NO_COLUMN, _MISSING) or failure.code in _UNFIT):
        failure.message = f"{failure.message}; it is not changed now: {frozen}"
    return failure


def no_column(name: str, table: str, word: EvolveMode) -> RecordFailure:
    """The failure of a record with a field that the table lacks and may not gain."""
    message = f"{name}: {table} has no such column and its columns are frozen"
    return refused(RecordFailure("convert", NO_COLUMN, message, field_path=name), word)


def fit(
    record: dict[str, JsonValue], own: dict[str, JsonValue], table: str, shape: TableShape, policy: TablePolicy
) -> Fitted:
    """Fit one record; `own` is the record without fields that are named like floe's metadata columns."""
    lacking: dict[str, ObservedType] = {}
    if not all(shape.has_column(name) and _is_flat(item) for name, item in own.items()):
        lacking = admitted_fields(missing_fields(observe_record(own), shape.root), policy)
    word = policy.evolve.columns
    if lacking and word not in (EvolveMode.EVOLVE, EvolveMode.DISCARD_VALUE):
        raise no_column(next(iter(lacking)), table, word)
    if shape.metadata:
        record = {name: value for name, value in record.items() if shape.is_own(name)}
    fitting = _Fitting(shape, policy, record, record)
    row = fitting.row()
    new = lacking if word is EvolveMode.EVOLVE else {}
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

    `new` and `wider` are what the table must gain, by the place of the value that asks for it: when a value around it is moved
    or left out as a whole, what was asked for inside is asked no more.
    """

    shape: TableShape
    policy: TablePolicy
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
                if not steps or not (failure.code == _MISSING or failure.code in _UNFIT):
                    raise
                (self._missing if failure.code == _MISSING else self._unfit)(failure, steps)

    def _refuse_at_once(self, failure: RecordFailure) -> None:
        """Whether a value that does not fit is refused can mostly be told without its place, which costs much to find."""
        if failure.code not in _UNFIT or self._discarded or self._is_nothing(failure):
            return
        word = self.policy.evolve.data_type
        if word is EvolveMode.WIDEN and failure.wider is None:
            word = self.policy.evolve.otherwise
        if word not in (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.DISCARD_VALUE):
            raise refused(failure, word)

    def _missing(self, failure: RecordFailure, steps: Steps) -> None:
        """A required value is missing: nullability, unless it is missing because it was taken out here."""
        if _keys(steps) in self.wider:
            self._relaxed = True  # the row is of no use any more: go on only to learn what else is needed
            return
        if _keys(steps) in self._discarded:
            self._discard(self._discarded[_keys(steps)], steps[:-1])
            return
        word = self.policy.evolve.nullability
        if word is EvolveMode.RELAX:
            places = list(_lacking(self.record, self.shape.own, ()))
            if not any(_columns(place) in self.shape.always_required for place in places):
                self.optional.update(_columns(place) for place in places)
                self._relaxed = True
                return
            word = self.policy.evolve.otherwise
        if word is EvolveMode.DISCARD_VALUE:
            self._discard(failure, steps[:-1])
            return
        raise refused(failure, word)

    def _unfit(self, failure: RecordFailure, steps: Steps) -> None:
        """A value does not fit its column: data_type."""
        evolve, word = self.policy.evolve, self.policy.evolve.data_type
        if _keys(steps) in self._discarded:  # the key of a map, which cannot be null
            self._discard(failure, steps[:-1])
            return
        if self._is_nothing(failure):
            self._discard(failure, steps)
            return
        if word in (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN) and failure.wider is not None:
            self.wider[_keys(steps)] = observed_along(steps, failure.wider)
            self.record = without(self.record, steps)
            return
        if word is EvolveMode.NEW_COLUMN and self._move(steps):
            return
        if word in (EvolveMode.WIDEN, EvolveMode.NEW_COLUMN):
            word = evolve.otherwise
        if word is EvolveMode.DISCARD_VALUE:
            self._discard(failure, steps)
            return
        raise refused(failure, word)

    def _is_nothing(self, failure: RecordFailure) -> bool:
        """Whether the value that does not fit is `[]` or `{}`, which would have asked for no column either."""
        return failure.is_empty and leaves_empty_out(self.policy)

    def _discard(self, failure: RecordFailure, steps: Steps) -> None:
        """Leave the value out; `_missing` goes on with what is around it where it must not be null."""
        if not steps:
            raise refused(failure, EvolveMode.FREEZE)
        self._forget_inside(steps)
        self._discarded[_keys(steps)] = failure
        self.record = without(self.record, steps)

    def _move(self, steps: Steps) -> bool:
        """Give the innermost field that holds the value a column of its own beside its column, named after what it is; False
        where it cannot have one."""
        while steps[-1].kind != "field":
            steps = steps[:-1]
        if _keys(steps) in self._moved or self.policy.evolve.columns is not EvolveMode.EVOLVE:
            return False
        value = value_at(self.original, steps)
        observed = settle_fields({"": observe_value(value)}, self.policy)[""]
        kind = observed if isinstance(observed, str) else "string"  # structures as their JSON text
        above, last = steps[:-1], steps[-1]
        name = f"{last.column}_{kind.partition('(')[0] if isinstance(observed, str) else 'json'}"
        parent = above[-1].converter if above else self.shape.root
        around = value_at(self.record, above) if above else self.record
        assert isinstance(parent, StructConverter)
        assert isinstance(around, dict)
        insensitive = parent.insensitive
        if any(fold(key, insensitive) == fold(name, insensitive) and around[key] is not None for key in around):
            return False
        place = Step("field", name, name, None)
        child = next((c for c in parent.children if fold(c.name, insensitive) == fold(name, insensitive)), None)
        if child is None:
            top, wanted = observed_along((*above, place), kind)
            if not admitted_fields({top: wanted}, self.policy):
                return False
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


def _columns(steps: Steps) -> tuple[str, ...]:
    return tuple(step.column for step in steps)


def _lacking(value: JsonValue, converter: Converter, above: Steps) -> Iterator[Steps]:
    """The places of a record where a value is required and missing."""
    if isinstance(converter, StructConverter) and isinstance(value, dict):
        present = {fold(key, converter.insensitive): key for key, item in value.items() if item is not None}
        for child in converter.children:
            key = present.get(fold(child.name, converter.insensitive))
            step = Step("field", key or child.name, child.name, child.converter, child.required)
            yield from _lacking_at(step, None if key is None else value[key], above)
    elif isinstance(converter, ListConverter) and isinstance(value, list):
        for i, item in enumerate(value):
            step = Step("element", i, "element", converter.element, converter.element_required)
            yield from _lacking_at(step, item, above)
    elif isinstance(converter, MapConverter) and isinstance(value, dict):
        for key, item in value.items():
            yield from _lacking_at(Step("value", key, "value", converter.item, converter.item_required), item, above)


def _lacking_at(step: Step, item: JsonValue, above: Steps) -> Iterator[Steps]:
    if item is None:
        if step.required:
            yield (*above, step)
    elif step.converter is not None:
        yield from _lacking(item, step.converter, (*above, step))

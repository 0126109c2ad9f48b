"""Where in a record a value is: the path of a failure as steps that can be followed, and records with one value
changed.

In: a record, the converter of its table, and a failure's path text. Out: steps, copies of the record, and what the
value at a place asks of the table. A record is never changed in place: the same record may go to several tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from framework.record.convert.converter import Converter
from framework.record.convert.nested import ListConverter, MapConverter, StructConverter
from framework.record.strict_json import JsonValue
from framework.table.model import ObservedType


@dataclass(frozen=True)
class PathStep:
    """One step into a record: `key` is the record's own key or index, `column` the table's name where it is a field.
    `converter` is the one of the value there, None where the table has no such field."""

    kind: str  # field | element | value
    key: str | int
    column: str
    converter: Converter | None
    required: bool = False


Steps = tuple[PathStep, ...]


def steps_to(record: dict[str, JsonValue], path: str, root: StructConverter) -> Steps | None:
    """The steps that a failure's path text (`a.b[3].c`, `m['k'].x`) stands for; None when it cannot be determined."""
    return _into_struct(record, path, root)  # never the record itself: an empty path is a column without a name


def _steps(value: JsonValue, rest: str, converter: Converter) -> Steps | None:
    if not rest:
        return ()
    if isinstance(converter, StructConverter) and (value is None or isinstance(value, dict)):
        return _into_struct(value or {}, rest.removeprefix("."), converter)
    if isinstance(converter, ListConverter) and isinstance(value, list):
        number, bracket, further = rest[1:].partition("]")
        if not rest.startswith("[") or not bracket or not number.isdecimal() or int(number) >= len(value):
            return None
        step = PathStep("element", int(number), "element", converter.element, converter.element_required)
        return _then(step, value[int(number)], further, converter.element)
    if isinstance(converter, MapConverter) and isinstance(value, dict):
        for key, item in value.items():
            if rest.startswith(f"[{key!r}]"):
                step = PathStep("value", key, "value", converter.item, converter.item_required)
                return _then(step, item, rest[len(f"[{key!r}]") :], converter.item)
    return None


def _into_struct(value: dict[str, JsonValue], rest: str, converter: StructConverter) -> Steps | None:
    # Names may hold dots and brackets, so the longest name that leads on is tried first.
    for child in sorted(converter.children, key=lambda child: -len(child.name)):
        further = rest[len(child.name) :]
        if not rest.startswith(child.name) or (further and further[0] not in ".["):
            continue
        folded = converter.fold(child.name)
        present = (k for k, v in value.items() if v is not None and converter.fold(k) == folded)
        key = next(present, child.name)
        step = PathStep("field", key, child.name, child.converter, child.required)
        found = _then(step, value.get(key), further, child.converter)
        if found is not None:
            return found
    return None


def _then(step: PathStep, value: JsonValue, rest: str, converter: Converter) -> Steps | None:
    further = _steps(value, rest, converter)
    return None if further is None else (step, *further)


def value_at(record: dict[str, JsonValue], steps: Sequence[PathStep]) -> JsonValue:
    """The value at the end of the steps; None when it is missing."""
    value: Any = record
    for step in steps:
        value = value.get(step.key) if isinstance(value, dict) else value[step.key]
        if value is None:
            return None
    return value  # type: ignore[no-any-return]


def without(record: dict[str, JsonValue], steps: Sequence[PathStep]) -> dict[str, JsonValue]:
    """A copy of the record with null at the end of the steps."""
    return _changed(record, steps, None, None)  # type: ignore[return-value]


def moved(record: dict[str, JsonValue], steps: Sequence[PathStep], name: str, value: JsonValue) -> dict[str, JsonValue]:
    """A copy of the record with null at the end of the steps and the value in a field of that name beside it."""
    return _changed(record, steps, name, value)  # type: ignore[return-value]


def _changed(value: Any, steps: Sequence[PathStep], name: str | None, item: JsonValue) -> JsonValue:
    step, further = steps[0], steps[1:]
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if further:
        copy[step.key] = _changed(copy[step.key], further, name, item)
    else:
        copy[step.key] = None
        if name is not None:
            copy[name] = item
    return copy  # type: ignore[no-any-return]


def observed_along(steps: Sequence[PathStep], kind: ObservedType) -> tuple[str, ObservedType]:
    """A type at the end of the steps as a top-level field's observed type."""
    observed = kind
    for step in reversed(steps[1:]):
        if step.kind == "field":
            observed = ["struct", [[step.column, observed]]]
        else:
            observed = ["list", observed] if step.kind == "element" else ["map", "string", observed]
    return steps[0].column, observed


def columns_of(steps: Sequence[PathStep]) -> tuple[str, ...]:
    """The path of the column at the end of the steps."""
    return tuple(step.column for step in steps)


def required_and_missing(value: object, converter: Converter, above: Steps = ()) -> Iterator[Steps]:
    """The places in a value where one is required and missing; maps may be objects or lists of pairs."""
    if isinstance(converter, StructConverter) and isinstance(value, dict):
        present = {converter.fold(key): key for key, item in value.items() if item is not None}
        for child in converter.children:
            key = present.get(converter.fold(child.name))
            step = PathStep("field", key or child.name, child.name, child.converter, child.required)
            yield from _required_at(step, None if key is None else value[key], above)
    elif isinstance(converter, ListConverter) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _required_at(
                PathStep("element", i, "element", converter.element, converter.element_required), item, above
            )
    elif isinstance(converter, MapConverter) and isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else [pair for pair in value if isinstance(pair, tuple)]
        for key, item in pairs:
            yield from _required_at(
                PathStep("value", key, "value", converter.item, converter.item_required), item, above
            )


def _required_at(step: PathStep, item: object, above: Steps) -> Iterator[Steps]:
    if item is None:
        if step.required:
            yield (*above, step)
    elif step.converter is not None:
        yield from required_and_missing(item, step.converter, (*above, step))

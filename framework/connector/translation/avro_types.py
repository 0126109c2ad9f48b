"""Which types of Avro become the same column and value in the sink and in floe, and what the sink makes of the others.

In: a schema of Avro as plain values. Out: nothing, or the first field that differs and how. The sink reads Avro through
Connect's own types, of which there are fewer. A slow test compares each type of the list with the converter and the sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAME = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes", "null"})
_SAME_LOGICAL = {"date": "int", "time-millis": "int", "timestamp-millis": "long"}
_LOGICAL = {
    "decimal": "the sink makes `decimal(38, s)` of a decimal, and floe one of its own digits",
    "time-micros": "the sink writes a time in microseconds as a number",
    "timestamp-micros": "the sink writes a timestamp in microseconds as a number",
    "timestamp-nanos": "the sink writes a timestamp in nanoseconds as a number",
    "local-timestamp-millis": "the sink writes a local timestamp as a number",
    "local-timestamp-micros": "the sink writes a local timestamp as a number",
    "local-timestamp-nanos": "the sink writes a local timestamp as a number",
    "uuid": "the sink writes a UUID as text",
    "duration": "the sink writes a duration as bytes",
}


def difference(schema: Any) -> tuple[str, str] | None:
    """The first field of a record's schema that the sink writes otherwise, as a dotted path, and how; None where all are
    the same.

    Raises:
        ValueError: the schema is none of a record.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ValueError("it is no schema of an Avro record")
    return _of(schema, "", (), {})


def _of(kind: Any, path: str, above: tuple[str, ...], known: dict[str, Any]) -> tuple[str, str] | None:
    if isinstance(kind, list):
        return _of_union(kind, path, above, known)
    if isinstance(kind, str):
        if kind in _SAME:
            return None
        name = kind.rpartition(".")[2]
        if name in above:
            return path, "a type that holds itself is another column in floe"
        if name not in known:
            raise ValueError(f"it names the type `{kind}`, which it does not define")
        return _of(known[name], path, above, known)
    if not isinstance(kind, Mapping):
        raise ValueError("it is no schema of Avro")
    if (problem := _said_by_attributes(kind)) is not None:
        return path, problem
    name = str(kind.get("name", "")).rpartition(".")[2]
    if name and known.setdefault(name, kind) is not kind:
        return path, f"two types are called `{name}`, and they are not distinguished here"
    inner = kind.get("type")
    if inner == "record":
        found = (_of_field(each, path, (*above, name), known) for each in kind["fields"])
        return next((each for each in found if each is not None), None)
    if inner in ("array", "map"):
        return _of(kind["items" if inner == "array" else "values"], path, above, known)
    if inner == "fixed":
        return path, "the sink makes `binary` of a fixed, and floe `fixed[n]`"
    return None if inner == "enum" else _of(inner, path, above, known)


def _said_by_attributes(kind: Mapping[str, Any]) -> str | None:
    """What Connect makes of a type by its attributes, where that is not the type itself."""
    logical = kind.get("logicalType")
    if logical is not None and _SAME_LOGICAL.get(str(logical)) != kind.get("type"):
        return _LOGICAL.get(str(logical), f"the logical type `{logical}` is not compared with the sink")
    connect = kind.get("connect.type") or kind.get("connect.internal.type")
    if connect or (logical is None and str(kind.get("connect.name", "")).startswith("org.apache.kafka.connect.data.")):
        return "Connect has given it a type of its own (`connect.*`)"
    return None


def _of_field(
    field: Mapping[str, Any], path: str, above: tuple[str, ...], known: dict[str, Any]
) -> tuple[str, str] | None:
    where = f"{path}.{field['name']}".lstrip(".")
    if field.get("default") is not None and isinstance(field["type"], list) and "null" in field["type"]:
        return where, "Connect may write the field's default where the record has null"
    return _of(field["type"], where, above, known)


def _of_union(kinds: list[Any], path: str, above: tuple[str, ...], known: dict[str, Any]) -> tuple[str, str] | None:
    others = [kind for kind in kinds if kind != "null"]
    if len(kinds) == 1:
        return path, "the sink makes an object of a union of one type"
    if len(others) != 1:
        return path, "a union of several types beside null is not compared with the sink"
    return _of(others[0], path, above, known)

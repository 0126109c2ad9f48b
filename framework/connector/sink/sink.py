"""Which rows the sink adds to which tables.

In: a connector's settings and records. Out: for each record its row and the tables that get it, or why none does.
Records carry no schema: the values are JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from framework.connector.sink.model import SinkRecord, Stops, Unknown, Value, parsed
from framework.connector.sink.transforms import transformed

# Without classes in classes, escapes of Java's own, flags, and what only looks around.
_PLAIN_REGEX = re.compile(
    r"(?:[^\\\[(]|\\[dDwW.\\/|()*+?$^{}\[\]-]|\((?!\?)|\(\?(?::|[is]*\))|\[\^?[^\\\[\]&]+\])*\Z", re.DOTALL
)
# Java's `.` stops at other line ends than Python's.
_PLAIN_TEXT = re.compile(r"[^\n\r\x85\u2028\u2029\ud800-\udfff]*\Z")


@dataclass(frozen=True)
class Written:
    """What became of one record: its row and the tables that got it. `stops` says why the task ended there.

    Args:
        replaces: the old row of the key goes; `deletes`: and no new one comes.
    """

    row: dict[str, Value]
    tables: tuple[str, ...]
    stops: str | None = None
    is_unrouted: bool = False
    replaces: bool = False
    deletes: bool = False


def written(settings: Mapping[str, str], record: SinkRecord, value: bytes | None) -> Written:
    """What the sink writes of one record; `value` are its bytes.

    Raises:
        Unknown: this interpreter does not know.
    """
    converter = settings.get("value.converter", "org.apache.kafka.connect.json.JsonConverter")
    is_plain = settings.get("value.converter.schemas.enable", "true") == "false" or "value.converter" not in settings
    if not (converter.endswith(".JsonConverter") and is_plain):
        raise Unknown(f"the converter {converter}")
    try:
        found = transformed(settings, SinkRecord(**{**record.__dict__, "value": parsed(value)}))
        if found is None or found.value is None:
            return Written({}, ())
        if not isinstance(found.value, dict):
            raise Stops("the sink writes objects only")
        tables, is_unrouted = _tables(settings, found.value)
    except Stops as stops:
        return Written({}, (), stops=str(stops))
    change = _change(settings, found.value)
    is_upsert_mode = settings.get("iceberg.tables.upsert-mode-enabled") == "true"
    upserts = _is_tabular(settings) and is_upsert_mode and not settings.get("iceberg.tables.cdc-field")
    return Written(found.value, tables, None, is_unrouted, upserts or change in ("U", "D"), change == "D")


def key_of(settings: Mapping[str, str], table: str) -> list[str]:
    """The columns by which the sink finds an old row."""
    default = settings.get("iceberg.tables.default-id-columns", "")
    text = settings.get(f"iceberg.table.{table}.id-columns", default)
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_tabular(settings: Mapping[str, str]) -> bool:
    """Of the two sinks the one that changes rows."""
    return settings.get("connector.class", "").startswith("io.tabular.")


def _change(settings: Mapping[str, str], value: dict[str, Value]) -> str:
    path = settings.get("iceberg.tables.cdc-field")
    if not path or not _is_tabular(settings):
        return "I"
    found: Value = value
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    text = "" if found is None else str(found).strip().upper()
    return text[:1] if text[:1] in ("U", "D") else "I"


def _tables(settings: Mapping[str, str], value: dict[str, Value]) -> tuple[tuple[str, ...], bool]:
    listed = [name.strip() for name in settings.get("iceberg.tables", "").split(",") if name.strip()]
    field = settings.get("iceberg.tables.route-field")
    is_dynamic = settings.get("iceberg.tables.dynamic-enabled", "false").lower() == "true"
    if field is None:
        return tuple(listed), False
    found: Value = value
    for name in field.split("."):
        if found is None:
            break
        if not isinstance(found, dict):
            raise Stops(f"{field} leads through what is no object")
        found = found.get(name)
    if found is None:
        return (), True
    text = _text(found)
    if is_dynamic:
        return (text.lower(),), False
    matching = tuple(
        table
        for table in listed
        if (regex := settings.get(f"iceberg.table.{table}.route-regex")) is not None and _matches(regex, text)
    )
    return matching, not matching


def _matches(regex: str, text: str) -> bool:
    """Java's `matches`; Python means the same by plain expressions, and of plain texts only."""
    if _PLAIN_REGEX.match(regex) is None or _PLAIN_TEXT.match(text) is None:
        raise Unknown(f"what `{regex}` matches of {text!r}")
    try:
        return re.fullmatch(regex, text, re.ASCII) is not None
    except re.error:
        raise Unknown(f"what `{regex}` matches") from None


def _text(value: Value) -> str:
    """Java's `toString`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    raise Unknown(f"the name that {type(value).__name__} gives a table")


# ---- columns ----------------------------------------------------------------------------------------------------


def column_type(value: Value) -> str | None:
    """The Iceberg type that the sink infers from a value; None where it infers none."""
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((int, "long"), (float, "double"), (str, "string"), (datetime, "timestamptz")):
        if isinstance(value, kind):
            return name
    if isinstance(value, list):
        inner = column_type(value[0]) if value else None
        return None if inner is None else f"list<{inner}>"
    if isinstance(value, dict):
        fields = {name: column_type(inner) for name, inner in value.items()}
        parts = [f"{_name(name)}: {kind}" for name, kind in fields.items() if kind is not None]
        return f"struct<{', '.join(parts)}>" if parts else None
    return None


def _name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name}`"


def columns(rows: list[dict[str, Value]]) -> dict[str, str]:
    """The columns that the sink makes for rows: of each name the type of its first value, objects taken together."""
    found = together(rows)
    return {name: kind for name, value in found.items() if (kind := column_type(value)) is not None}


def together(rows: list[dict[str, Value]]) -> dict[str, Value]:
    """A row that has every field of the rows, with the first value of each."""
    found: dict[str, Value] = {}
    for row in rows:
        _merge(found, row)
    return found


def _merge(into: dict[str, Value], row: dict[str, Value]) -> None:
    for name, value in row.items():
        if isinstance(value, dict):
            inner = into.setdefault(name, {})
            if isinstance(inner, dict):
                _merge(inner, value)
        elif value is not None and not (value == [] and name in into) and into.get(name) in (None, []):
            into[name] = value

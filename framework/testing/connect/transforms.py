"""What each transform does to one record without a schema, as its Java code does it.

In: a transform's options and a record. Out: the record behind it, or None for one that is dropped. A transform that is
not here is unknown, and so is what the sink writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from framework.testing.connect.model import SinkRecord, Stops, Unknown, Value

Options = Mapping[str, str]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def transformed(settings: Mapping[str, str], record: SinkRecord) -> SinkRecord | None:
    """The record behind all transforms of a connector. Raises Stops, Unknown."""
    for name in _list(settings.get("transforms", "")):
        prefix = f"transforms.{name}."
        options = {key[len(prefix) :]: value for key, value in settings.items() if key.startswith(prefix)}
        if not _is_taken(settings, options, record):
            continue
        kind = re.split(r"[.]", options.get("type", ""))[-1]
        if kind.endswith("$Key") or kind in _NOTHING:
            continue
        if kind == "Filter":
            return None
        known = _KNOWN.get(kind.replace("$Value", ""))
        if known is None:
            raise Unknown(f"the transform {options.get('type')}")
        found = known(options, record)
        if found is None:
            return None
        record = found
    return record


_NOTHING = ("ValueToKey", "SetSchemaMetadata$Value", "InsertHeader", "DropHeaders")


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _is_taken(settings: Mapping[str, str], options: Options, record: SinkRecord) -> bool:
    name = options.get("predicate")
    if not name:
        return True
    kind = settings.get(f"predicates.{name}.type", "").split(".")[-1]
    if kind == "RecordIsTombstone":
        found = record.value is None
    elif kind == "TopicNameMatches":
        found = re.fullmatch(settings[f"predicates.{name}.pattern"], record.topic) is not None
    else:
        raise Unknown(f"the predicate {kind}")
    return found != (options.get("negate", "false").lower() == "true")


def _map(value: Value, what: str) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise Stops(f"{what} needs an object, not {type(value).__name__}")
    return value


def _extract(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    names = [options["field"]]
    if options.get("field.syntax.version", "V1") == "V2":
        names = options["field"].split(".")
    value = _map(record.value, "ExtractField")
    for name in names[:-1]:
        inner = value.get(name)
        if not isinstance(inner, dict):
            return replace(record, value=None)
        value = inner
    return replace(record, value=value.get(names[-1]))


def _replace(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    exclude = _list(options.get("exclude", options.get("blacklist", "")))
    include = _list(options.get("include", options.get("whitelist", "")))
    renames = dict(pair.split(":") for pair in _list(options.get("renames", "")))
    value = {}
    for name, inner in _map(record.value, "ReplaceField").items():
        if name not in exclude and (not include or name in include):
            value[renames.get(name, name)] = inner
    return replace(record, value=value)


def _insert(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    value = dict(_map(record.value, "InsertField"))

    def name(option: str) -> str | None:
        found = options.get(option)
        return found.rstrip("!?") if found else None

    if field := name("topic.field"):
        value[field] = record.topic
    if field := name("partition.field"):
        value[field] = record.partition
    if field := name("offset.field"):
        value[field] = record.offset
    if (field := name("timestamp.field")) and record.timestamp_ms is not None:
        value[field] = record.timestamp_ms
    if (field := name("static.field")) and "static.value" in options:
        value[field] = options["static.value"]
    return replace(record, value=value)


def _mask(options: Options, record: SinkRecord) -> SinkRecord:
    value = dict(_map(record.value, "MaskField"))
    for name in _list(options["fields"]):
        value[name] = _masked(value.get(name), options.get("replacement"))
    return replace(record, value=value)


def _masked(value: Value, replacement: str | None) -> Value:
    if value is None:
        return None
    if isinstance(value, datetime):
        if replacement is not None:
            raise Stops("a replacement is for text and numbers")
        return _EPOCH
    if replacement is None:
        return type(value)()  # "", 0, 0.0, False, [] or {}
    if isinstance(value, str):
        return replacement
    if isinstance(value, (bool, list, dict)):
        raise Stops("a replacement is for text and numbers")
    try:
        return int(replacement) if isinstance(value, int) else float(replacement)
    except ValueError:
        raise Stops(f"{replacement} is not a number") from None


def _copy(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    value = dict(_map(record.value, "CopyValue"))
    value[options["target.field"]] = value.get(options["source.field"])
    return replace(record, value=value)


def _flatten(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    delimiter, flat = options.get("delimiter", "."), {}

    def walk(outer: dict[str, Value], prefix: str) -> None:
        for name, value in outer.items():
            full = f"{prefix}{delimiter}{name}" if prefix else name
            if isinstance(value, dict):
                walk(value, full)
            else:
                flat[full] = value

    walk(_map(record.value, "Flatten"), "")
    return replace(record, value=flat)


def _cast(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    value = dict(_map(record.value, "Cast"))
    for pair in _list(options["spec"]):
        name, kind = pair.split(":")
        if value.get(name) is not None:
            value[name] = _as(value[name], kind)
    return replace(record, value=value)


def _as(value: Value, kind: str) -> Value:
    if isinstance(value, (dict, list)):
        raise Stops("Cast takes no objects and lists")
    try:
        if kind in ("int32", "int64"):
            number = int(value)
            bits = 32 if kind == "int32" else 64
            return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        if kind == "float64":
            return float(value)
        if kind == "boolean":
            return value.lower() == "true" if isinstance(value, str) else bool(value)
        if kind == "string" and not isinstance(value, float):
            return str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:
        raise Stops(f"{value} is no {kind}") from None
    raise Unknown(f"Cast of {type(value).__name__} to {kind}")


def _timestamp(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    if options["target.type"] != "Timestamp":
        raise Unknown(f"TimestampConverter to {options['target.type']}")
    value = dict(_map(record.value, "TimestampConverter"))
    found = value.get(options["field"])
    if found is not None:
        value[options["field"]] = _moment(found, options)
    return replace(record, value=value)


def _moment(value: Value, options: Options) -> datetime:
    if isinstance(value, str):
        return _parsed(value, options.get("format", ""))
    if isinstance(value, bool) or not isinstance(value, int):
        raise Stops(f"TimestampConverter takes no {type(value).__name__}")
    precision = options.get("unix.precision", "milliseconds")
    milliseconds = {
        "seconds": value * 1000,
        "milliseconds": value,
        "microseconds": _cut(value, 1000),
        "nanoseconds": _cut(value, 1_000_000),
    }[precision]
    if not -62_135_596_800_000 <= milliseconds < 253_402_300_800_000:
        raise Stops("a year that no reader of tables has")
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _cut(value: int, by: int) -> int:
    """Java's division, towards zero."""
    return value // by if value >= 0 else -(-value // by)


def _parsed(text: str, form: str) -> datetime:
    """Java's SimpleDateFormat in UTC, for formats of digits, quoted letters and a zone."""
    expression, names = "", []
    for part in re.finditer(r"'([^']+)'|([A-Za-z])\2*|(.)", form):
        if part[2]:
            names.append(part[2])
            expression += r"([+-]\d\d:?\d\d|Z)" if part[2] in "XZ" else r"(\d+)"
        else:
            expression += re.escape(part[1] or part[3])
    found = re.match(expression, text)
    if not form or found is None:
        raise Stops(f"{text} is not of the form {form}")
    parts = dict(zip(names, found.groups(), strict=True))
    if set(parts) - set("yMdHmsXZ"):
        raise Unknown(f"the format {form}")
    zone = next((parts[name] for name in "XZ" if name in parts), "Z").replace(":", "")
    numbers = [
        int(parts.get(name, first)) for name, first in (("y", 1970), ("M", 1), ("d", 1), ("H", 0), ("m", 0), ("s", 0))
    ]
    shift = timedelta() if zone == "Z" else timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[3:]))
    return datetime(numbers[0], *numbers[1:], tzinfo=timezone.utc) - shift  # type: ignore[misc,arg-type]


def _router(options: Options, record: SinkRecord) -> SinkRecord:
    regex = options["regex"]
    if re.fullmatch(regex, record.topic) is None:
        return record
    replacement = re.sub(r"\$(\d)", r"\\g<\1>", options["replacement"])
    return replace(record, topic=re.sub(regex, replacement, record.topic, count=1))


def _metadata(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    value, prefix = dict(_map(record.value, "KafkaMetadataTransform")), options.get("field_name", "_kafka_metadata")
    found: dict[str, Value] = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    if record.timestamp_ms is not None:
        found["timestamp"] = record.timestamp_ms
    if external := options.get("external_field"):
        name, text = external.split(",")
        found[name] = text
    if options.get("nested", "false") == "true":
        value[prefix] = found
    else:
        value |= {f"{prefix}_{name}": inner for name, inner in found.items()}
    return replace(record, value=value)


def _dms(options: Options, record: SinkRecord) -> SinkRecord | None:
    if record.value is None:
        return record
    value = _map(record.value, "DmsTransform")
    data, about = value.get("data"), value.get("metadata")
    if not isinstance(data, dict) or not isinstance(about, dict):
        return None
    if about.get("operation") is None:
        raise Stops("metadata has no operation")
    operation = {"update": "U", "delete": "D"}.get(str(about["operation"]), "I")
    source = ".".join("null" if about.get(name) is None else str(about[name]) for name in ("schema-name", "table-name"))
    change = {"op": operation, "ts": about.get("timestamp"), "source": source}
    return replace(record, value={**data, "_cdc": change})


def _debezium(options: Options, record: SinkRecord) -> SinkRecord | None:
    if record.value is None:
        return record
    value = _map(record.value, "DebeziumTransform")
    if value.get("op") is None:
        raise Stops("the record has no op")
    row = value.get("before") if value["op"] == "d" else value.get("after")
    if not isinstance(row, dict):
        return None
    source = _map(value.get("source"), "DebeziumTransform")
    database = source["schema"] if "schema" in source else source.get("db")
    if database is None or source.get("table") is None:
        raise Stops("source names no table")
    pattern = options.get("cdc.target.pattern") or "{db}.{table}"
    change = {
        "op": {"u": "U", "d": "D"}.get(str(value["op"]), "I"),
        "ts": value.get("ts_ms"),
        "offset": record.offset,
        "source": f"{database}.{source['table']}",
        "target": pattern.replace("{db}", str(database)).replace("{table}", str(source["table"])),
    }
    return replace(record, value={**row, "_cdc": change})


def _header_from(options: Options, record: SinkRecord) -> SinkRecord:
    if options["operation"] != "move":
        return record
    gone = _list(options["fields"])
    return replace(
        record, value={name: inner for name, inner in _map(record.value, "HeaderFrom").items() if name not in gone}
    )


def _same(options: Options, record: SinkRecord) -> SinkRecord:
    """Debezium's transforms pass on what has no schema."""
    return record


_KNOWN: Mapping[str, Callable[[Options, SinkRecord], SinkRecord | None]] = {
    "ByLogicalTableRouter": _same,
    "Cast": _cast,
    "CopyValue": _copy,
    "DebeziumTransform": _debezium,
    "DmsTransform": _dms,
    "ExtractField": _extract,
    "ExtractNewRecordState": _same,
    "Flatten": _flatten,
    "HeaderFrom": _header_from,
    "InsertField": _insert,
    "KafkaMetadataTransform": _metadata,
    "MaskField": _mask,
    "RegexRouter": _router,
    "ReplaceField": _replace,
    "TimestampConverter": _timestamp,
}

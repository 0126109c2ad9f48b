"""What each transform does to one record without a schema, as its Java code does it.

In: a transform's options and a record. Out: the record behind it, or None for one that is dropped. A transform that is
not here is unknown, and so is what the sink writes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import zip_longest

from framework.connector.sink.model import SinkRecord, Stops, Unknown, Value

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
        if kind in _OBJECTS_ONLY:
            _map(record.value, kind)
        if kind.startswith("SetSchemaMetadata") and record.value is not None:
            raise Stops("SetSchemaMetadata needs a value with a schema")
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
_OBJECTS_ONLY = ("ValueToKey", "HeaderFrom$Value")  # these look at the value, whatever they do with it


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
        if inner is None:
            return replace(record, value=None)
        value = _map(inner, "ExtractField")
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
            name = renames.get(name, name)
            if name in value:
                raise Unknown(f"which of two fields ReplaceField keeps as {name}")
            value[name] = inner
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
            elif full in flat:
                raise Unknown(f"which of two fields Flatten keeps as {full}")
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
        value[name] = None if value.get(name) is None else _as(value[name], kind)
    return replace(record, value=value)


def _as(value: Value, kind: str) -> Value:
    if isinstance(value, (dict, list)):
        raise Stops("Cast takes no objects and lists")
    if kind in ("int32", "int64"):
        return _whole(value, 32 if kind == "int32" else 64)
    if kind == "float64":
        return _double(value)
    if kind == "boolean":
        return value.lower() == "true" if isinstance(value, str) else _whole(value, 64) != 0
    if kind == "string" and not isinstance(value, float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise Unknown(f"Cast of {type(value).__name__} to {kind}")


def _whole(value: Value, bits: int) -> int:
    """Java's whole number of so many bits: text must fit, a double is held at the bounds, a longer number is cut."""
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if isinstance(value, float):
        return 0 if math.isnan(value) else int(max(least, min(most, value)))
    if not isinstance(value, str):
        return (int(value) - least) % (1 << bits) + least
    if re.fullmatch(r"[+-]?\d+", value) is None or not least <= int(value) <= most:
        raise Stops(f"{value} is no number of {bits} bits")
    return int(value)


def _double(value: Value) -> float:
    if not isinstance(value, str):
        return float(value)
    if re.fullmatch(r"[\x00-\x20]*[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[\x00-\x20]*", value):
        return float(value.strip("".join(map(chr, range(33)))))
    if re.search(r"NaN|Infinity|[0-9.][dDfF]|0[xX]", value):
        raise Unknown(f"how Java reads the number {value}")
    raise Stops(f"{value} is no number")


def _timestamp(options: Options, record: SinkRecord) -> SinkRecord:
    if record.value is None:
        return record
    if options["target.type"] != "Timestamp":
        raise Unknown(f"TimestampConverter to {options['target.type']}")
    value = dict(_map(record.value, "TimestampConverter"))
    found = value.get(options["field"])
    value[options["field"]] = None if found is None else _moment(found, options)
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


_ZONES = {"X": r"(Z|[+-]\d\d)", "XX": r"(Z|[+-]\d{4})", "XXX": r"(Z|[+-]\d\d:\d\d)", "Z": r"([+-]\d{4})"}
_GREGORIAN = datetime(1582, 10, 15, tzinfo=timezone.utc)


def _parsed(text: str, form: str) -> datetime:
    """Java's SimpleDateFormat in UTC, for formats of digits, quoted letters and a zone. What stands behind the date is
    passed over, and numbers out of their range are counted on: 30 February is 1 March."""
    expression, names = _expression(form)
    if not set(names) <= set("yMdHmsXZ"):
        raise Unknown(f"the format {form}")
    found = re.match(expression, text)
    if not form or found is None:
        is_named_zone = "Z" in names and re.search(r"[A-Za-z]{2,}", text)
        if is_named_zone or re.search(r"-[ \t]*-|:[ \t]*-", text) or ("-" in text and "-" not in form):
            raise Unknown(f"how {text} is read by {form}")  # names of zones, and numbers below zero
        raise Stops(f"{text} is not of the form {form}")
    parts = dict(zip(names, found.groups(), strict=True))
    zone = next((parts[name] for name in "XZ" if name in parts), "Z").replace(":", "").ljust(5, "0")
    firsts = (("y", 1970), ("M", 1), ("d", 1), ("H", 0), ("m", 0), ("s", 0))
    year, month, day, hour, minute, second = (int(parts.get(name, first)) for name, first in firsts)
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    shift = timedelta() if zone[0] == "Z" else timedelta(hours=int(zone[:3]), minutes=int(zone[0] + zone[3:]))
    try:
        moment = datetime(year, month, 1, tzinfo=timezone.utc)
        moment += timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second) - shift
    except (ValueError, OverflowError):
        raise Stops("a year that no reader of tables has") from None
    if moment < _GREGORIAN:
        raise Unknown("dates of the Julian calendar")
    return moment


def _expression(form: str) -> tuple[str, list[str]]:
    """The regular expression of a format, and the letter of each of its groups."""
    expression, names = "", []
    parts = list(re.finditer(r"'([^']+)'|(([A-Za-z])\3*)|(.)", form))
    for part, following in zip_longest(parts, parts[1:]):
        if part[2] is None:
            expression += re.escape(part[1] or part[4])
            continue
        names.append(part[3])
        # A number that another one follows at once has as many digits as letters.
        touches = following is not None and following[2] is not None and following[3] not in "XZ"
        digits = rf"\d{{{len(part[2])}}}" if touches else r"\d+"
        expression += r"[ \t]*" + (_ZONES.get(part[2], r"(\b\B)") if part[3] in "XZ" else f"({digits})")
    return expression, names


def _router(options: Options, record: SinkRecord) -> SinkRecord:
    return _rerouted(record, options["regex"], options["replacement"])


def _logical_table(options: Options, record: SinkRecord) -> SinkRecord:
    return _rerouted(record, options["topic.regex"], options["topic.replacement"])


def _rerouted(record: SinkRecord, regex: str, replacement: str) -> SinkRecord:
    if re.fullmatch(regex, record.topic) is None:
        return record
    if re.search(r"\\|\$(?!\d)|\$\d\d", replacement):
        raise Unknown(f"the replacement {replacement}")
    try:
        topic = re.sub(regex, re.sub(r"\$(\d)", r"\\g<\1>", replacement), record.topic, count=1)
    except (re.error, IndexError):
        raise Stops(f"{replacement} names a group that {regex} does not have") from None
    return replace(record, topic=topic)


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


def _new_record_state(options: Options, record: SinkRecord) -> SinkRecord | None:
    """It passes on what has no schema, and drops tombstones."""
    return None if record.value is None else record


_KNOWN: Mapping[str, Callable[[Options, SinkRecord], SinkRecord | None]] = {
    "ByLogicalTableRouter": _logical_table,
    "Cast": _cast,
    "CopyValue": _copy,
    "DebeziumTransform": _debezium,
    "DmsTransform": _dms,
    "ExtractField": _extract,
    "ExtractNewRecordState": _new_record_state,
    "Flatten": _flatten,
    "HeaderFrom": _header_from,
    "InsertField": _insert,
    "KafkaMetadataTransform": _metadata,
    "MaskField": _mask,
    "RegexRouter": _router,
    "ReplaceField": _replace,
    "TimestampConverter": _timestamp,
}

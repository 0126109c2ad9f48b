"""What each transform of Apache Kafka and of the sink makes of the records.

In: a step and the shape of the records before it. Out: the shape after it. Only what gives the same rows as the sink is
translated; the rest is refused, by the name of the property. Connect's rules for records without a schema hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from framework.config.values.type_text import Structure
from framework.connector.translation.transforms.cdc import debezium, dms, new_record_state
from framework.connector.translation.transforms.chain import ConnectTransform
from framework.connector.translation.transforms.record_shape import (
    RecordColumn,
    RecordShape,
    changed,
    inside,
    is_struct,
    literal,
    named,
)
from framework.connector.translation.transforms.timestamps import timestamp
from framework.connector.translation.transforms.topics import (
    applies,
    left_of,
    logical_table,
    regex_router,
    routed_by_time,
)

_NUMBERS = {"int": "0", "long": "0L", "float": "0F", "double": "0D"}
_CASTS = {
    "int32": ("int", "INT"),
    "int64": ("long", "BIGINT"),
    "float64": ("double", "DOUBLE"),
    "string": ("string", "STRING"),
    "boolean": ("boolean", "BOOLEAN"),
}
# From which types a cast of SQL gives what Connect's gives, or stops at the value.
_CAST_FROM = {
    "int32": ("int", "long", "boolean", "string"),
    "int64": ("int", "long", "boolean", "string"),
    "float64": ("int", "long", "float", "double", "string"),
    "string": ("int", "long", "boolean", "string"),
    "boolean": ("boolean", "int", "long"),
}
_NO_EFFECT = ("DropHeaders", "InsertHeader", "SetSchemaMetadata", "ValueToKey")
_METADATA_TYPES = {"topic": "string", "partition": "int", "offset": "long", "timestamp": "long"}


def apply(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    """The records behind a transform.

    Raises:
        Untranslatable: what the transform does has no words in a pipeline file.
    """
    if step.kind == "HoistField":
        step.refuse("type", "it makes a row of a record without a value, and floe drops such records")
    if step.kind == "Filter" and step.predicate is not None and step.predicate.kind == "TopicNameMatches":
        return left_of(step, shape)
    if not applies(step, shape):
        return shape
    if step.kind == "Filter":
        step.refuse("type", "it drops every record", "take the transform out")
    if step.kind == "SetSchemaMetadata" and not step.is_of_key and not shape.has_schema:
        step.refuse("type", "Connect stops at every record, since the values have no schema", "take the transform out")
    if step.is_of_key or step.kind in _NO_EFFECT:
        return shape  # The sink writes neither keys nor headers nor the names of schemas.
    return _TRANSFORMS[step.kind](step, shape)


def _extract(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    columns = shape.known(step)
    path = [step.options.get("field", "")]
    if step.options.get("field.syntax.version", "V1").upper() == "V2":
        path = path[0].split(".")
    where = list(shape.where)
    for name in path:
        column = next((one for one in columns if one.name == name), None)
        if column is None:
            step.refuse(
                "field", f"no record has the field `{name}` there", "correct the field, or add it to `--fields`"
            )
        if not is_struct(column.kind):
            step.refuse("field", f"`{name}` is no object, and the sink writes only objects")
        if column.sql is None:
            step.refuse("field", column.why)
        columns, where = tuple(inside(column)), [*where, f"{column.sql} IS NOT NULL"]
    return replace(shape, columns=columns, where=tuple(where))


def _replace(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    columns = shape.known(step)
    without, only = set(step.listed("exclude", "blacklist")), set(step.listed("include", "whitelist"))
    renames = {}
    for pair in step.listed("renames"):
        old, _, new = pair.partition(":")
        if not old or not new or ":" in new:
            step.refuse("renames", f"`{pair}` is not `old:new`")
        renames[old] = new
    kept = [one for one in columns if one.name not in without and (not only or one.name in only)]
    found = tuple(named(step, one, renames.get(one.name, one.name)) for one in kept)
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        step.refuse("renames", f"two fields would be `{twice}`, and which of them Connect keeps is chance")
    return replace(shape, columns=found)


def _insert(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    added = []
    for what in ("topic", "partition", "offset", "timestamp"):
        if name := step.options.get(f"{what}.field", "").rstrip("!?"):
            added.append(metadata_column(step, f"{what}.field", what, name, shape))
    name, value = step.options.get("static.field", "").rstrip("!?"), step.options.get("static.value")
    if name and value is not None:
        shape.known(step)
        added.append(RecordColumn(name, "string", literal(value)))
    return shape.put(*added)


def metadata_column(step: ConnectTransform, option: str, what: str, name: str, shape: RecordShape) -> RecordColumn:
    """A column of Kafka's own: floe has it under one name, and not in SQL."""
    own = f"_kafka_{what}"
    if what == "topic" and shape.topics is not None:
        names = set(shape.topics.values())
        if shape.columns is not None and len(names) == 1 and None not in names:
            return RecordColumn(name, "string", literal(str(*names)), topics=shape.topics)
    is_own_topic = what != "topic" or not shape.is_rerouted
    if name == own and what != "timestamp" and is_own_topic:
        return RecordColumn(name, _METADATA_TYPES[what], metadata=what)
    why = f"floe's column of the record's {what} is `{own}`, not `{name}`"
    if what == "timestamp":
        why = f"the sink writes milliseconds as a number, and floe's `{own}` is a timestamp"
    elif not is_own_topic:
        why = f"the sink writes the topic's name as transforms made it, and floe's `{own}` is the topic that is read"
    column = RecordColumn(
        name, _METADATA_TYPES[what], key=step.key(option), why=why, topics=shape.topics if what == "topic" else None
    )
    if shape.columns is None and column.topics is None:
        step.refuse(option, why, f"name it `{own}` in the connector and in the table" if what != "timestamp" else "")
    return column


def _kafka_metadata(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    prefix = step.options.get("field_name", "_kafka_metadata")
    if step.flag("nested"):
        step.refuse("nested", "floe's columns of a record's position are at the top of the table", "set it to false")
    if prefix != "_kafka" and shape.columns is None:
        step.refuse(
            "field_name",
            f"floe's columns are `_kafka_topic` and so on, not `{prefix}_topic`",
            "set it to `_kafka`, and rename the table's columns",
        )
    found = [metadata_column(step, "type", what, f"{prefix}_{what}", shape) for what in _METADATA_TYPES]
    if external := step.options.get("external_field"):
        name, _, value = external.partition(",")
        shape.known(step)
        found.append(RecordColumn(f"{prefix}_{name}", "string", literal(value)))
    return shape.put(*found)


def _mask(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    replacement = step.options.get("replacement")
    fields = [shape.one(step, "fields", name) for name in step.listed("fields")]
    return shape.put(*(_masked(step, one, replacement) for one in fields))


def _masked(step: ConnectTransform, column: RecordColumn, replacement: str | None) -> RecordColumn:
    value = _mask_value(column.kind, replacement)
    if value is None:
        step.refuse("fields", f"what it makes of `{column.name}` depends on the value", "exclude the field instead")
    return changed(step, column, column.kind, f"CASE WHEN {column.sql} IS NOT NULL THEN {value} END")


def _mask_value(kind: Structure, replacement: str | None) -> str | None:
    if kind == "string":
        return literal(replacement or "")
    if kind == "boolean":
        return "false" if replacement is None else None
    if isinstance(kind, str) and kind in _NUMBERS:
        if replacement is None:
            return _NUMBERS[kind]
        whole = replacement.lstrip("-").isdigit() and len(replacement) < 10
        return f"{int(replacement)}{_NUMBERS[kind][1:]}" if whole else None
    return None


def _copy(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    source, target = step.options.get("source.field", ""), step.options.get("target.field", "")
    column = shape.one(step, "source.field", source)
    return shape.put(replace(named(step, column, target), field=None))


def _cast(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    found = []
    for pair in step.listed("spec"):
        name, _, kind = pair.rpartition(":")
        if not name:
            step.refuse("spec", "it casts the whole value, and the sink writes only objects")
        column = shape.one(step, "spec", name)
        if kind not in _CASTS or column.kind not in _CAST_FROM[kind]:
            reported = column.kind if isinstance(column.kind, str) else "an object or a list"
            step.refuse("spec", f"Connect makes {kind} of `{name}` ({reported}) in a way that floe does not have")
        own, sql = _CASTS[kind]
        cast = str(column.sql) if column.kind == own else f"CAST({column.sql} AS {sql})"
        found.append(changed(step, column, own, cast))
    return shape.put(*found)


def _flatten(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    columns, delimiter = shape.known(step), step.options.get("delimiter", ".")
    if "." in delimiter:
        step.refuse("delimiter", "a dot in a column's name would be a path in floe", "set it to `_`")

    def flat(column: RecordColumn, prefix: str) -> list[RecordColumn]:
        name = f"{prefix}{delimiter}{column.name}" if prefix else column.name
        if isinstance(column.kind, list) and column.kind[0] == "map":
            step.refuse("type", f"the keys of `{name}` would become columns, and no file can list them")
        if not is_struct(column.kind):
            return [replace(column, name=name)]
        return [leaf for one in inside(column) for leaf in flat(one, name)]

    found = tuple(leaf for column in columns for leaf in flat(column, ""))
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        step.refuse("delimiter", f"two fields would be `{twice}`", "choose another delimiter")
    return replace(shape, columns=found)


def _header_from(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    if step.options.get("operation") != "move":
        return shape
    moved = set(step.listed("fields"))
    return replace(shape, columns=tuple(one for one in shape.known(step) if one.name not in moved))


def _json_to_map(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    step.refuse(
        "type",
        "it makes text of all values in objects, and floe keeps their types",
        "declare `map<string, string>` under `source.schema` in a file of your own",
    )


def _mongo(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    step.refuse("type", "floe does not parse the documents inside Debezium's MongoDB messages; they stay text")


_TRANSFORMS: Mapping[str, Callable[[ConnectTransform, RecordShape], RecordShape]] = {
    "ByLogicalTableRouter": logical_table,
    "Cast": _cast,
    "CopyValue": _copy,
    "DebeziumTransform": debezium,
    "DmsTransform": dms,
    "ExtractField": _extract,
    "ExtractNewRecordState": new_record_state,
    "Flatten": _flatten,
    "HeaderFrom": _header_from,
    "InsertField": _insert,
    "JsonToMapTransform": _json_to_map,
    "KafkaMetadataTransform": _kafka_metadata,
    "MaskField": _mask,
    "MongoDebeziumTransform": _mongo,
    "RegexRouter": regex_router,
    "ReplaceField": _replace,
    "TimestampConverter": timestamp,
    "TimestampRouter": routed_by_time,
}

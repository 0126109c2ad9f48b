"""Named types of Avro schemas: a type is defined once, where it is first met, and later has its name alone.

In: the schema of a manifest as Avro says it. Out: the same schema with each name defined once, as Avro's specification
asks for (a table with two decimals or two uuids among its partition fields has one name twice), or with each name
replaced by its definition, as PyIceberg reads it. PyIceberg 0.12 writes the definition twice, which fastavro and others
refuse, and does not read a name, so that it cannot read what Spark writes of such a table.
"""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

# What no type may be called, as Avro's specification says.
_RESERVED = frozenset(
    [
        "null",
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "bytes",
        "string",
        "record",
        "enum",
        "array",
        "map",
        "union",
        "fixed",
    ]
)
_HOLD_TYPES = ("type", "items", "values")


def defined_once(schema: Any) -> Any:
    """The schema with a later definition of a known name replaced by the name."""
    return _mapped(schema, {}, inline=False)


def defined_everywhere(schema: Any) -> Any:
    """The schema with each name replaced by its definition. Only types without types in them have names that repeat:
    records within records would grow without a bound, and PyIceberg refuses their names as before."""
    return _mapped(schema, {}, inline=True)


def _mapped(schema: Any, known: dict[str, Any], inline: bool) -> Any:
    if isinstance(schema, str):
        return known.get(schema, schema) if inline else schema
    if isinstance(schema, list):
        return [_mapped(each, known, inline) for each in schema]
    if schema.get("type") == "fixed":
        name = schema.get("name")
        if not inline and name in known:
            return name
        if name not in _RESERVED:
            known[name] = schema
        return schema
    made = {key: _mapped(each, known, inline) if key in _HOLD_TYPES else each for key, each in schema.items()}
    if "fields" in made:
        made["fields"] = [_mapped(each, known, inline) for each in made["fields"]]
    return made


def _schema_of(self: AvroFileHeader) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(defined_everywhere(json.loads(self.meta["avro.schema"])))


# For whoever reads a manifest in this process, PyIceberg's own scans included. Goes when PyIceberg resolves names, which
# `test_pyiceberg_does_not_know_names_of_avro` notices.
AvroFileHeader.get_schema = _schema_of  # type: ignore[method-assign]

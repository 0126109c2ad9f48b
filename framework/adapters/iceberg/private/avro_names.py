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

_NAMED = ("fixed", "enum", "record")


def defined_once(schema: Any) -> Any:
    """The schema with a later definition of a known name replaced by the name."""
    return _mapped(schema, {}, inline=False)


def defined_everywhere(schema: Any) -> Any:
    """The schema with each name replaced by its definition. Records do not hold themselves in Iceberg's schemas."""
    return _mapped(schema, {}, inline=True)


def _mapped(schema: Any, known: dict[str, Any], inline: bool) -> Any:
    if isinstance(schema, str):
        return known.get(schema, schema) if inline else schema
    if isinstance(schema, list):
        return [_mapped(each, known, inline) for each in schema]
    name = schema.get("name") if schema.get("type") in _NAMED else None
    if not inline and name in known:
        return name
    made = dict(schema)
    if isinstance(made.get("fields"), list):
        made["fields"] = [{**each, "type": _mapped(each["type"], known, inline)} for each in made["fields"]]
    for inner in ("items", "values", "type"):
        if inner in made and not (inner == "type" and isinstance(made[inner], str)):
            made[inner] = _mapped(made[inner], known, inline)
    if inline and isinstance(made["type"], str) and made["type"] in known:
        made = {**made, "type": known[made["type"]]}
    if name is not None:
        known[name] = made
    return made


def _schema_of(self: AvroFileHeader) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(defined_everywhere(json.loads(self.meta["avro.schema"])))


# For whoever reads a manifest in this process, PyIceberg's own scans included. Goes when PyIceberg resolves names, which
# `test_pyiceberg_does_not_know_names_of_avro` notices.
AvroFileHeader.get_schema = _schema_of  # type: ignore[method-assign]

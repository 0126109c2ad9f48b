"""Formats that bring their types with them: a value is what its schema's type can hold, or its record is a dead letter."""

from __future__ import annotations

from typing import Any

import pytest

from framework.config.spec import ErrorPolicy, FormatSpec, FormatType
from framework.record.wire import Schemas
from tests.format_samples import avro_bytes, avro_schema, framed, land, record_of, records


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "int", "logicalType": "date"}, 2_932_896, True),
        ({"type": "int", "logicalType": "date"}, 2_932_897, False),
        ({"type": "int", "logicalType": "date"}, -719_163, False),
        ({"type": "long", "logicalType": "timestamp-millis"}, 253_402_300_800_000, False),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1 << 62, False),
        ({"type": "long", "logicalType": "timestamp-micros"}, 9_223_372_036_825_200_000, False),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, -(1 << 63), False),
        ({"type": "long", "logicalType": "time-micros"}, 86_400_000_000, False),
        ({"type": "array", "items": {"type": "int", "logicalType": "date"}}, [2_932_897], False),
        ({"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}}, {"a": 1 << 62}, False),
        (
            record_of({"name": "x", "type": {"type": "int", "logicalType": "date"}}, name="shop.In"),
            {"x": 1 << 30},
            False,
        ),
    ],
)
def test_avro_beyond_the_calendar(schema: Any, value: Any, fits: bool) -> None:
    """A day or a moment outside of the years 1 to 9999 is a dead letter with a reason, at any depth; its neighbours are rows."""
    outer = record_of({"name": "id", "type": "int"}, {"name": "v", "type": ["null", schema]})
    spec = FormatSpec(FormatType.AVRO, registry="main")
    values = [framed(1, avro_bytes(outer, {"id": i, "v": v})) for i, v in enumerate((None, value, None))]
    landed = land(records(values), spec, {1: avro_schema(outer)})
    assert [letter.offset for letter in landed.letters] == ([] if fits else [1])
    assert landed.result.rows["ns.t"].column("id").to_pylist() == ([0, 1, 2] if fits else [0, 2])


OUTER = record_of(
    {"name": "id", "type": ["null", "int"]}, {"name": "v", "type": ["null", {"type": "int", "logicalType": "date"}]}
)
RAW = record_of({"name": "id", "type": ["null", "int"]}, {"name": "v", "type": ["null", "int"]})


@pytest.mark.parametrize("errors", [ErrorPolicy.DEAD_LETTER, ErrorPolicy.DROP])
def test_refused_records_of_typed_formats_shape_nothing(errors: ErrorPolicy) -> None:
    """Where all records of a typed format are refused there is no table; where its table is there, no new column."""
    spec = FormatSpec(FormatType.AVRO, registry="main")
    bad = framed(1, avro_bytes(RAW, {"id": 1, "v": 2_932_897}))
    wider = record_of(*OUTER["fields"], {"name": "new", "type": "int"})
    raw_wider = record_of(*RAW["fields"], {"name": "new", "type": "int"})
    also_bad = framed(2, avro_bytes(raw_wider, {"id": 1, "v": 2_932_897, "new": 1}))
    good = framed(1, avro_bytes(RAW, {"id": 1, "v": 1}))
    schemas: Schemas = {1: avro_schema(OUTER), 2: avro_schema(wider)}
    for values, columns in (([bad], None), ([bad, also_bad], None), ([good, also_bad], ["id", "v"])):
        landed = land(records(values), spec, schemas, errors=errors)
        assert ("ns.t" in landed.tables.targets) is (columns is not None)
        if columns is not None:
            assert [field.name for field in landed.schema.fields] == columns
            assert landed.result.written == 1

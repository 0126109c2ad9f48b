"""CPU seconds per million records that decoding and converting cost, for each format, on one core and in memory.

Run: `python benchmarks/format_cost.py [--records N]`. The same ten fields in every format; medians of five blocks each.
Ratios are to plain JSON in the same run, since a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from framework.config.spec import Encoding, Envelope, FieldHint, FormatSpec, FormatType
from framework.record.formats.wire import Schemas
from framework.record.model import RecordBlock
from testbed.format_samples import avro_bytes, avro_schema, framed, land, record_of, records, serialized

FIELDS = [("id", "long"), ("user", "string"), ("amount", "double"), ("ok", "boolean"), ("city", ["null", "string"]),
          ("at", {"type": "long", "logicalType": "timestamp-millis"}), ("kind", "string"), ("n", "int"),
          ("price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}), ("url", "string")]  # fmt: skip
PROTO = {"id": 3, "user": 9, "amount": 1, "ok": 8, "city": 9, "at": 3, "kind": 9, "n": 5, "price": 9, "url": 9}
HINTS = [FieldHint("at", "timestamptz", unit="ms"), FieldHint("price", "decimal(12, 2)")]
Made = tuple[RecordBlock, FormatSpec, Schemas, list[FieldHint]]


def value(i: int) -> dict[str, Any]:
    return {"id": i, "user": f"user{i}", "amount": i * 1.5, "ok": True, "city": "Berlin", "at": 1_700_000_000_000 + i,
            "kind": "click", "n": i % 1000, "price": "12.34", "url": f"https://example.com/path/{i}"}  # fmt: skip


def plain(count: int) -> Made:
    return records([json.dumps(value(i)).encode() for i in range(count)]), FormatSpec(), {}, HINTS


def avro(count: int) -> Made:
    schema = record_of(*({"name": name, "type": kind} for name, kind in FIELDS))
    wire = record_of(*({"name": n, "type": k if not isinstance(k, dict) else k["type"]} for n, k in FIELDS))
    data = [framed(1, avro_bytes(wire, value(i) | {"price": b"\x04\xd2"})) for i in range(count)]
    return records(data), FormatSpec(FormatType.AVRO, registry="main"), {1: avro_schema(schema)}, []


def protobuf(count: int) -> Made:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(PROTO.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    schema = serialized(descriptor_pb2.FileDescriptorSet(file=[file]))
    data = [order(**value(i)).SerializeToString() for i in range(count)]
    return records(data), FormatSpec(FormatType.PROTOBUF, schema=schema), {}, HINTS


def debezium(count: int) -> Made:
    events = [{"op": "c", "before": None, "after": value(i), "ts_ms": 1, "source": {"lsn": i}} for i in range(count)]
    return records([json.dumps(one).encode() for one in events]), FormatSpec(envelope=Envelope.DEBEZIUM), {}, HINTS


def debezium_with_schema(count: int) -> Made:
    kinds = {"long": "int64", "double": "double", "boolean": "boolean", "string": "string", "int": "int32"}
    fields: list[dict[str, Any]] = []
    for name, kind in FIELDS:
        one: dict[str, Any] = {"field": name, "type": kinds.get(str(kind), "string"), "optional": True}
        if name == "at":
            one |= {"type": "int64", "name": "io.debezium.time.Timestamp"}
        if name == "price":
            named = "org.apache.kafka.connect.data.Decimal"
            one |= {"type": "bytes", "name": named, "parameters": {"scale": "2", "connect.decimal.precision": "12"}}
        fields.append(one)
    image = [{"type": "struct", "field": name, "fields": fields, "optional": True} for name in ("before", "after")]
    schema = {"type": "struct", "fields": [*image, {"type": "string", "field": "op"}]}
    price = base64.b64encode(b"\x04\xd2").decode()
    data = [
        json.dumps(
            {"schema": schema, "payload": {"before": None, "after": value(i) | {"price": price}, "op": "c"}}
        ).encode()
        for i in range(count)
    ]
    return records(data), FormatSpec(envelope=Envelope.DEBEZIUM), {}, []


def raw(count: int) -> Made:
    spec = FormatSpec(FormatType.RAW, encoding=Encoding.TEXT)
    return records([json.dumps(value(i)).encode() for i in range(count)]), spec, {}, []


FORMATS: dict[str, Callable[[int], Made]] = {
    "json": plain, "avro": avro, "protobuf": protobuf, "raw text": raw, "debezium json": debezium,
    "debezium json with schema": debezium_with_schema,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    count = parser.parse_args().records
    pa.set_cpu_count(1)
    base = 0.0
    print(f"{'format':<28}{'CPU s per million':>18}{'of JSON':>10}")
    for name, make in FORMATS.items():
        block, spec, schemas, hints = make(count)
        tables = land(block, spec, schemas, hints=hints).tables
        times = []
        for _ in range(5):
            started = time.process_time()
            landed = land(block, spec, schemas, hints=hints, tables=tables)
            times.append(time.process_time() - started)
            assert landed.result.written == count, landed.letters[:1]
        seconds = statistics.median(times) * 1e6 / count
        base = base or seconds
        print(f"{name:<28}{seconds:>18.1f}{seconds / base:>10.2f}", flush=True)


if __name__ == "__main__":
    main()

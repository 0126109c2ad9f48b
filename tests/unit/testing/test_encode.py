"""Values of tests in YAML become records of the file's format, or a fault at their place."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2

from framework.testing.suite import FileReport, run_file
from testbed.format_samples import serialized
from tests.unit.config.in_memory import TARGET, load

AVRO = """\
source:
  kafka: {topics: [orders]}
  format:
    type: avro
    registry: main
    schema: |
      {"type": "record", "name": "shop.Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": null},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": null},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "raw", "type": ["null", "bytes"], "default": null},
        {"name": "who", "type": ["null", {"type": "record", "name": "Who", "fields": [{"name": "n", "type": "string"}]}]}]}
  key: {type: avro, registry: main, schema: '"string"', column: order_key}
"""
REGISTRY = TARGET.replace("connections:\n", "connections:\n  registry: {main: {url: 'http://registry'}}\n")


def run(tests: str, more: str = AVRO) -> FileReport:
    return run_file(load(f"{more}tests:\n{tests}", files={"targets/local.yaml": REGISTRY}))


def reported(tests: str, more: str = AVRO) -> list[str]:
    report = run(tests, more)
    assert report.findings == ()
    return [one.message for case in report.cases for one in case.differences]


def test_avro_values_are_readable_and_exact() -> None:
    """Moments, days, decimals, bytes and records are written as people write them, and land exactly."""
    case = """\
  - name: a
    input:
      - key_value: k1
        value:
          id: 1
          price: 12.10
          at: "2024-02-29T12:00:00.001+01:00"
          day: "2024-02-29"
          tags: [x]
          raw: {base64: /w==}
          who: {n: me}
      - {value: {id: 2, price: "-0.05", who: null}}
      - {value: null}
      - {raw: "x"}
    expect:
      tables:
        shop.orders:
          schema: {id: long, price: "decimal(10, 2)", at: timestamptz, order_key: string}
          rows:
            - {id: 1, price: 12.1, at: "2024-02-29T11:00:00.001Z", day: "2024-02-29", tags: [x], raw: "base64:/w==",
               who: {n: me}, order_key: k1}
            - {id: 2, price: -0.05, at: null, tags: [], order_key: null}
      dropped: 1
      dead_letters: [{code: FLOE-D111, offset: 3}]
"""
    assert reported(case) == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{id: x, price: 1, who: null}", "`x` is no long"),
        ("{id: 1, price: 1.005, who: null}", "more than 2 digits"),
        ("{id: 1, price: 1, nope: 2, who: null}", "has no field `nope`"),
        ("{id: 1, who: null}", "the field `price` of shop.Order has no value"),
        ("{id: 99999999999999999999, price: 1, who: null}", "cannot be encoded"),
        ("[1]", "the record shop.Order is expected here"),
        ('{id: 1, price: 1, at: "noon", who: null}', "`noon` is no timestamp-millis"),
    ],
)
def test_a_value_that_the_schema_does_not_allow(value: str, says: str) -> None:
    """It is a finding at its place in the file, and no test is run."""
    report = run(f"  - {{name: a, input: [{{value: {value}}}], expect: {{}}}}\n")
    (finding,) = report.findings
    assert finding.code == "FLOE-R406"
    assert says in finding.message
    assert report.cases == ()


def test_without_a_schema() -> None:
    """A test may state the schema that the registry has elsewhere; with none anywhere it says so."""
    more = "source: {kafka: {topics: [orders]}, format: {type: avro, registry: main}}\n"
    case = "  - {name: a, %sinput: [{value: 5}], expect: {tables: {shop.orders: {rows: [{value: 5}]}}}}\n"
    assert "gives no schema" in run(case % "", more).findings[0].message
    assert reported(case % "given: {value_schema: '\"int\"'}, ", more) == []


@pytest.mark.parametrize("registry", ["", "registry: main, "])
def test_protobuf_values(registry: str) -> None:
    """Protobuf values are written as its JSON form."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    schema = serialized(descriptor_pb2.FileDescriptorSet(file=[file]))
    more = f"""\
source: {{kafka: {{topics: [orders]}}, format: {{type: protobuf, {registry}message: shop.Order, schema: {schema}}}}}
"""
    rows = "expect: {tables: {shop.orders: {rows: [{id: 9007199254740993}]}}}"
    case = f"  - {{name: a, input: [{{value: {{id: 9007199254740993}}}}], {rows}}}\n"
    assert reported(case, more) == []
    assert "nope" in run(case.replace("{id: 9", "{nope: 9", 1), more).findings[0].message


def test_raw_and_debezium_values() -> None:
    """Raw values are text or bytes; Debezium's envelopes are JSON."""
    raw = "source: {kafka: {topics: [orders]}, format: {type: raw, encoding: text, column: line}}\n"
    case = "  - {name: a, input: [{value: hello}, {value: {base64: aGk=}}], expect: {tables: {shop.orders: {rows: [%s]}}}}\n"
    assert reported(case % "{line: hello}, {line: hi}", raw) == []
    debezium = "source: {kafka: {topics: [orders]}, format: {type: json, envelope: debezium}}\n"
    case = """\
  - name: a
    input: [{value: {op: u, before: null, after: {id: 1}, ts_ms: 1000, source: {lsn: 5, version: x}}}]
    expect: {tables: {shop.orders: {rows: [{id: 1, __op: u, __ts_ms: "1970-01-01T00:00:01Z", __source_lsn: 5}]}}}
"""
    assert reported(case, debezium) == []

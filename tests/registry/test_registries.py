"""What floe asks of schema registries, on a real one (Apicurio) and on the small one that faster tests use.

Both keep the same promises, so that what is tested with the small one holds for a real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from framework.adapters.registry import Registry
from framework.config.spec import FormatSpec, FormatType
from framework.connector.translation.translate import import_connector
from framework.errors import RetriableError, SetupError
from framework.ops.doctor import registry as doctor_registry
from framework.record.formats.wire import UnknownSchema, WriterSchema
from testbed.format_samples import avro_bytes, framed, land, record_of, records, serialized
from testbed.servers.apicurio import ApicurioRegistry
from testbed.servers.registry import RegistryServer

DRAFT = "http://json-schema.org/draft-07/schema#"
MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
Server = ApicurioRegistry | RegistryServer


@pytest.fixture(scope="module", params=["small", pytest.param("real", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made: Server = (
        RegistryServer() if request.param == "small" else ApicurioRegistry(tmp_path_factory.mktemp("registry"))
    )
    yield made
    made.stop()


def client(server: Server, **settings: str) -> Registry:
    return Registry({"url": server.url, "timeout.ms": "10000", "unknown.schema.patience.ms": "0", **settings})


def as_value(schema: WriterSchema | UnknownSchema) -> Any:
    assert isinstance(schema, WriterSchema), schema
    return schema.kind, json.loads(schema.text), [(name, json.loads(text)) for name, text in schema.references]


def test_schemas_by_id(server: Server) -> None:
    """An id names what was registered under it, Avro and JSON Schema alike; the same schema keeps its id."""
    order = record_of({"name": "id", "type": "long", "doc": "its number"})
    ref, _ = server.register("orders-value", json.dumps(order))
    assert server.register("orders-value", json.dumps(order))[0] == ref
    kind = {"$schema": DRAFT, "type": "object"}
    other, _ = server.register("clicks-value", json.dumps(kind), "JSON")
    found = client(server).schemas([ref, other])
    assert as_value(found[ref]) == ("AVRO", order, [])
    assert as_value(found[other]) == ("JSON", kind, [])


@pytest.mark.failure("F89")
def test_a_node_that_lags_behind_hides_no_schema(server: Server) -> None:
    """Nodes of a registry follow one log, each on its own: what one has not is asked of the others before it is unknown, and
    what references name too. A node that does not answer makes nothing known or unknown."""
    server.register("money-behind", json.dumps(MONEY))
    needs = [{"name": "shop.Money", "subject": "money-behind", "version": 1}]
    ref, _ = server.register(
        "behind-value", json.dumps(record_of({"name": "of", "type": "shop.Money"})), references=needs
    )
    behind, ended = RegistryServer(), RegistryServer()
    ended.stop()
    try:
        for urls in ([behind.url, server.url], [behind.url, ended.url, server.url]):
            found = client(server, url=",".join(urls)).schemas([ref, 987_654])
            assert isinstance(found[ref], WriterSchema), urls
            assert isinstance(found[987_654], UnknownSchema), urls
    finally:
        behind.stop()


def test_references_come_with_what_needs_them(server: Server) -> None:
    """A schema that refers to another one is decoded with it."""
    server.register("money", json.dumps(MONEY))
    order = record_of({"name": "price", "type": "shop.Money"})
    needs = [{"name": "shop.Money", "subject": "money", "version": 1}]
    ref, _ = server.register("priced-value", json.dumps(order), references=needs)
    found = client(server).schemas([ref])
    assert as_value(found[ref]) == ("AVRO", order, [("shop.Money", MONEY)])
    whole = record_of({"name": "price", "type": MONEY})
    landed = land(
        records([framed(ref, avro_bytes(whole, {"price": {"cents": 12}}))]),
        FormatSpec(FormatType.AVRO, registry="main"),
        found,
    )
    assert landed.rows == [{"price": {"cents": 12}}]


def test_references_may_have_references(server: Server) -> None:
    """A schema two references away comes as well, each before what needs it; Avro reads its records with them."""
    currency = {"type": "enum", "name": "Currency", "namespace": "shop", "symbols": ["EUR", "USD"]}
    price = record_of({"name": "cents", "type": "long"}, {"name": "in", "type": "shop.Currency"}, name="shop.Price")
    server.register("currency", json.dumps(currency))
    needs = [{"name": "shop.Currency", "subject": "currency", "version": 1}]
    server.register("price", json.dumps(price), references=needs)
    order = record_of({"name": "price", "type": "shop.Price"})
    needs = [{"name": "shop.Price", "subject": "price", "version": 1}]
    ref, _ = server.register("nested-value", json.dumps(order), references=needs)
    found = client(server).schemas([ref])
    names = [("shop.Currency", currency), ("shop.Price", price)]
    assert as_value(found[ref]) == ("AVRO", order, names)
    inner = {**price, "fields": [price["fields"][0], {"name": "in", "type": currency}]}
    whole = record_of({"name": "price", "type": inner})
    data = framed(ref, avro_bytes(whole, {"price": {"cents": 12, "in": "USD"}}))
    landed = land(records([data]), FormatSpec(FormatType.AVRO, registry="main"), found)
    assert landed.rows == [{"price": {"cents": 12, "in": "USD"}}]


def test_json_schema_comes_with_its_references(server: Server) -> None:
    """A JSON Schema that refers to another by its name comes with it."""
    money = {"$schema": DRAFT, "type": "object", "properties": {"cents": {"type": "integer"}}}
    order = {"$schema": DRAFT, "type": "object", "properties": {"price": {"$ref": "money.json"}}}
    server.register("money-json", json.dumps(money), "JSON")
    needs = [{"name": "money.json", "subject": "money-json", "version": 1}]
    ref, _ = server.register("order-json-value", json.dumps(order), "JSON", needs)
    found = client(server).schemas([ref])[ref]
    assert as_value(found) == ("JSON", order, [("money.json", money)])


def test_subjects_may_follow_any_strategy(server: Server) -> None:
    """Schemas that producers registered by topic, by record and by both are read beside each other in one topic."""
    kinds = {
        "strategies-value": record_of({"name": "id", "type": "long"}, name="shop.ByTopic"),
        "shop.ByRecord": record_of({"name": "who", "type": "string"}, name="shop.ByRecord"),
        "strategies-shop.ByBoth": record_of({"name": "is_new", "type": "boolean"}, name="shop.ByBoth"),
    }
    values: list[dict[str, Any]] = [{"id": 1}, {"who": "ann"}, {"is_new": True}]
    refs = [server.register(subject, json.dumps(kind))[0] for subject, kind in kinds.items()]
    wire = [framed(ref, avro_bytes(kind, value)) for ref, kind, value in zip(refs, kinds.values(), values, strict=True)]
    landed = land(records(wire), FormatSpec(FormatType.AVRO, registry="main"), client(server).schemas(refs))
    assert landed.codes == []
    assert [{name: cell for name, cell in row.items() if cell is not None} for row in landed.rows] == values


def test_a_schema_outlives_its_subject(server: Server) -> None:
    """Records name their schema by its id for as long as they are kept: an id is answered after its subject is deleted, as
    registries do until it is deleted for good; then it is unknown, and no error of the registry."""
    ref, _ = server.register("ended-value", json.dumps(record_of({"name": "ended", "type": "long"})))
    server.delete("ended-value")
    assert as_value(client(server).schemas([ref])[ref])[0] == "AVRO"
    assert "ended-value" not in client(server).subjects()


def test_schemas_by_guid(server: Server) -> None:
    """Where a registry gives GUIDs, they name the same schema; where it gives none, no GUID is known, and records that
    name one are judged."""
    ref, guid = server.register("guid-value", json.dumps(record_of({"name": "g", "type": "long"})))
    asked = guid or "5f6e0a8c-0000-4000-8000-0123456789ab"
    found = client(server).schemas([ref, asked])
    assert found[asked] == found[ref] if guid else isinstance(found[asked], UnknownSchema)
    with pytest.raises(SetupError, match="the schema registry cannot be used"):
        client(server, url=server.url + "/nowhere").schemas([asked])


def test_protobuf_comes_compiled(server: Server) -> None:
    """A protobuf schema comes compiled, with the files it imports, so that a record of it can be read."""
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["money.proto"]
    )
    order.message_type.add(name="Order").field.add(name="price", number=1, type=11, label=1, type_name=".shop.Money")
    server.register("money.proto", serialized(money), "PROTOBUF")
    needs = [{"name": "money.proto", "subject": "money.proto", "version": 1}]
    ref, _ = server.register("paid-value", serialized(order), "PROTOBUF", needs)
    found = client(server).schemas([ref])
    data = bytes([0]) + ref.to_bytes(4, "big") + bytes([0]) + bytes([0x0A, 0x02, 0x08, 0x0C])
    landed = land(records([data]), FormatSpec(FormatType.PROTOBUF, registry="main"), found)
    assert landed.codes == []
    assert landed.rows == [{"price": {"cents": 12}}]


def test_protobuf_that_does_not_come_compiled_is_reported(server: Server) -> None:
    """A registry that gives the source of a schema, as some do of what was registered as source, makes each record a
    dead letter that says so."""
    source = 'syntax = "proto3"; package shop; message Plain { int64 id = 1; }'
    if isinstance(server, RegistryServer):
        pytest.skip("the small registry gives what it was given")
    ref, _ = server.register("plain-value", source, "PROTOBUF")
    found = client(server).schemas([ref])
    spec = FormatSpec(FormatType.PROTOBUF, registry="main")
    landed = land(records([framed(ref, b"\0\x08\x01")]), spec, found)
    assert landed.codes == [(0, "FLOE-D116")]
    assert "not compiled" in landed.letters[0].message


def test_what_a_registry_has_not_is_reported(server: Server) -> None:
    """An id that was never given is no error of the registry: the record that names it is judged."""
    found = client(server).schemas([987_654])[987_654]
    assert isinstance(found, UnknownSchema)
    assert found.reason


def test_doctor_lists_subjects(server: Server) -> None:
    """`floe doctor` sees that the registry answers, and what it holds."""
    server.register("seen-value", '"int"')
    (finding,) = doctor_registry.examine("main", lambda: {"url": server.url})
    assert finding.state.value == "ok"
    assert "subject" in finding.message


def test_another_address_is_no_registry(server: Server) -> None:
    """A path that no registry answers under is told as such."""
    with pytest.raises(SetupError, match="the schema registry cannot be used"):
        Registry({"url": server.url + "/nowhere"}).subjects()


def test_an_outage_ends(server: Server) -> None:
    """While it is down nothing is judged; afterwards everything that was registered is there under its id."""
    ref, _ = server.register("kept-value", '"long"')
    asking = client(server)
    server.stop()
    with pytest.raises(RetriableError) as reported:
        asking.schemas([ref])
    assert reported.value.code == "FLOE-R141"
    server.start()
    assert as_value(asking.schemas([ref])[ref])[:2] == ("AVRO", "long")


def test_an_imported_sink_asks_its_registry(server: Server) -> None:
    """The target and the format of an imported sink read what a producer wrote: the address of Confluent's converter as it
    is, that of Apicurio's at the interface that floe speaks."""
    order = record_of({"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]})
    ref, _ = server.register("imported-value", json.dumps(order))
    values = [{"id": 1, "note": "first"}, {"id": 2, "note": None}]
    sink = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": "orders",
        "iceberg.tables": "shop.orders",
    }
    confluent = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": server.url,
    }
    apicurio = {
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "value.converter.apicurio.registry.url": server.url.replace("/apis/ccompat/v7", "/apis/registry/v3"),
        "value.converter.apicurio.registry.as-confluent": "true",
    }
    for converter in (confluent, apicurio):
        imported = import_connector("orders", {**sink, **converter}, allow_partial=True)
        settings = imported.target["connections"]["registry"]["main"]
        kind = imported.pipeline["source"]["format"]
        found = Registry({**settings, "unknown.schema.patience.ms": "0"}).schemas([ref])
        landed = land(
            records([framed(ref, avro_bytes(order, value)) for value in values]),
            FormatSpec(FormatType(kind["type"]), registry=kind["registry"]),
            found,
        )
        assert landed.rows == values

"""Schemas come from a registry over HTTP: exactly once a process, waited for a while, and never guessed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from threading import Timer

import pytest
from google.protobuf import descriptor_pb2

from framework.adapters.registry import Registry, registry_of, retry_for_s_of, with_less_time
from framework.errors import RetriableError, SetupError
from framework.record.formats.wire import UnknownSchema, WriterSchema
from testbed.format_samples import serialized
from testbed.servers.registry import RegistryServer

INT = '"int"'


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    started = RegistryServer()
    yield started
    started.stop()


def client(server: RegistryServer, **settings: str) -> Registry:
    return Registry({"url": server.url, "timeout.ms": "2000", "unknown.schema.patience.ms": "0", **settings})


def test_schemas_by_id_and_guid_are_asked_for_once(server: RegistryServer) -> None:
    """An id and a GUID name the same schema; each is asked for once."""
    ref, guid = server.register("orders-value", INT)
    registry = client(server)
    expected = {ref: WriterSchema("AVRO", INT), guid: WriterSchema("AVRO", INT)}
    assert registry.schemas([ref, guid]) == expected
    asked = len(server.state.requests)
    assert registry.schemas([ref, guid]) == expected
    assert len(server.state.requests) == asked


def test_references_come_before_what_needs_them(server: RegistryServer) -> None:
    """References are followed, each after those it refers to itself, and once where two paths lead to it."""
    server.register("a", '{"a": 1}')
    server.register("b", '{"b": 1}', references=[{"name": "A", "subject": "a", "version": 1}])
    both = [{"name": "A", "subject": "a", "version": 1}, {"name": "B", "subject": "b", "version": 1}]
    ref, _ = server.register("c", '{"c": 1}', references=both[::-1])
    found = client(server).schemas([ref])[ref]
    assert isinstance(found, WriterSchema)
    assert found.references == (("A", '{"a": 1}'), ("B", '{"b": 1}'))


def test_protobuf_comes_compiled(server: RegistryServer) -> None:
    """Protobuf schemas and their references are asked for in their compiled form."""
    common = descriptor_pb2.FileDescriptorProto(name="common.proto", syntax="proto3")
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3", dependency=["common.proto"])
    server.register("common", serialized(common), "PROTOBUF")
    needs = [{"name": "common.proto", "subject": "common", "version": 1}]
    ref, _ = server.register("orders-value", serialized(file), "PROTOBUF", needs)
    found = WriterSchema("PROTOBUF", serialized(file), (("common.proto", serialized(common)),))
    assert client(server).schemas([ref]) == {ref: found}


def test_an_unknown_schema_is_waited_for_and_then_reported(server: RegistryServer) -> None:
    """An id that the registry has not is asked for again for the patience given, then at most once in a minute."""
    registry = client(server, **{"unknown.schema.patience.ms": "600"})
    started = time.monotonic()
    found = registry.schemas([7])[7]
    assert isinstance(found, UnknownSchema)
    assert time.monotonic() - started >= 0.6
    asked = len(server.state.requests)
    assert asked >= 2
    registry.schemas([7])
    assert len(server.state.requests) == asked


def test_a_thousand_unknown_schemas_are_waited_for_together_and_once_in_a_minute(server: RegistryServer) -> None:
    """Garbage names a new id in each record: the patience is spent once, not for each of them, and one that the
    registry has is found all the same."""
    registry = client(server, **{"unknown.schema.patience.ms": "600"})
    known, _ = server.register("orders-value", INT)
    started = time.monotonic()
    found = registry.schemas([*range(1_000, 1_300), known])
    assert isinstance(found[known], WriterSchema)
    assert sum(isinstance(answer, UnknownSchema) for answer in found.values()) == 300
    waited = time.monotonic() - started
    assert waited >= 0.6
    asked = len(server.state.requests)
    registry.schemas(range(2_000, 2_300))
    assert len(server.state.requests) == asked + 300, "each is asked for once, and none is waited for"


def test_one_that_is_registered_meanwhile_is_found(server: RegistryServer) -> None:
    """A schema that comes while others are waited for is there."""
    registry = client(server, **{"unknown.schema.patience.ms": "3000"})
    first, _ = server.register("a-value", INT)
    Timer(0.7, lambda: server.register("b-value", '"long"')).start()
    found = registry.schemas([first, first + 1])
    assert found == {first: WriterSchema("AVRO", INT), first + 1: WriterSchema("AVRO", '"long"')}


def test_a_reference_that_is_gone_makes_the_schema_unknown(server: RegistryServer) -> None:
    """A schema that refers to a missing one cannot be used, and the message says which is missing."""
    ref, _ = server.register("c", INT, references=[{"name": "A", "subject": "gone", "version": 3}])
    found = client(server).schemas([ref])[ref]
    assert isinstance(found, UnknownSchema)
    assert "gone version 3" in found.reason


def test_no_answer_is_an_error_that_may_be_tried_again(server: RegistryServer) -> None:
    """A registry that is down or answers 503 judges no record: the batch waits, and goes on when it is back."""
    ref, _ = server.register("orders-value", INT)
    registry = client(server)
    server.state.status = 503
    with pytest.raises(RetriableError, match="503") as reported:
        registry.schemas([ref])
    assert reported.value.code == "FLOE-R141"
    server.stop()
    with pytest.raises(RetriableError, match="no connection"):
        registry.schemas([ref])
    server.state.status = 0
    server.start()
    assert registry.schemas([ref]) == {ref: WriterSchema("AVRO", INT)}


def test_another_address_answers_for_one_that_is_down(server: RegistryServer) -> None:
    """Of several addresses the next is asked when one does not answer."""
    ref, _ = server.register("orders-value", INT)
    registry = Registry({"url": f"http://127.0.0.1:9, {server.url}/"})
    assert registry.schemas([ref]) == {ref: WriterSchema("AVRO", INT)}


def test_refusals_stop_and_tell_no_secret() -> None:
    """Wrong credentials and an address that is no registry are set-up errors; no message holds the password."""
    server = RegistryServer("floe:swordfish")
    try:
        ref, _ = server.register("orders-value", INT)
        right = client(server, **{"basic.auth.user.info": "floe:swordfish"})
        assert right.schemas([ref]) == {ref: WriterSchema("AVRO", INT)}
        with pytest.raises(SetupError) as reported:
            client(server, **{"basic.auth.user.info": "floe:wrong-one"}).schemas([ref])
        assert reported.value.code == "FLOE-E112"
        assert "wrong-one" not in str(reported.value)
        server.state.status = 404
        with pytest.raises(SetupError, match="is that of a schema registry"):
            right.schemas([ref + 1])
    finally:
        server.stop()


def test_a_process_has_one_client_of_a_registry() -> None:
    """The same settings give the same client, so that its schemas are kept."""
    settings = {"url": "http://127.0.0.1:9"}
    assert registry_of(settings) is registry_of(json.loads(json.dumps(settings)))
    assert registry_of({}).schemas([]) == {}


def test_a_batch_that_is_tried_again_spends_its_patience_once(server: RegistryServer) -> None:
    """What a batch has waited counts in whichever process its next try runs, and schemas that are known stay known."""
    settings = {"url": server.url, "unknown.schema.patience.ms": "600"}
    known, _ = server.register("orders-value", INT)
    patient, tired = registry_of(settings), registry_of(with_less_time({"main": settings}, 0.7)["main"])
    assert patient is tired, "one registry a process, however patient"
    began = time.monotonic()
    assert isinstance(tired.schemas([7])[7], UnknownSchema)
    assert time.monotonic() - began < 0.5
    assert with_less_time({}, 1.0) == {}
    assert retry_for_s_of(with_less_time({"main": settings}, 0.2)["main"]) == pytest.approx(0.4)
    registry_of(settings).schemas([known])
    asked = len(server.state.requests)
    registry_of(with_less_time({"main": settings}, 1)["main"]).schemas([known])
    assert len(server.state.requests) == asked

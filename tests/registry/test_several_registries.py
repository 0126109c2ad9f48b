"""A pipeline whose keys and values come from different registries, one of them behind mutual TLS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.adapters.registry import PlanRegistries, with_learned
from framework.config.spec import FormatSpec, FormatType, KeySpec
from framework.errors import RetriableError, SetupError
from framework.record.formats.wire import OfKeys, UnknownSchema, WriterSchema
from testbed.format_samples import avro_bytes, framed, land, record_of, records
from testbed.record_samples import plan
from testbed.servers.certificates import Authority
from testbed.servers.registry import RegistryServer

VALUE = record_of({"name": "id", "type": "long"})
KEY = record_of({"name": "who", "type": "string"}, name="shop.Who")
AVRO = FormatSpec(FormatType.AVRO, registry="main")
KEYS = KeySpec(FormatSpec(FormatType.AVRO, registry="keys"), prefix="key_")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def plain() -> Iterator[RegistryServer]:
    server = RegistryServer()
    yield server
    server.stop()


@pytest.fixture
def mutual(authority: Authority) -> Iterator[RegistryServer]:
    """A registry that shows a certificate, and asks for one of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("registry"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    server = RegistryServer(tls=context)
    yield server
    server.stop()


def settings_of(server: RegistryServer, **more: str | Path) -> dict[str, str]:
    known = {"url": server.url, "timeout.ms": "3000", "unknown.schema.patience.ms": "0"}
    return known | {name: str(value) for name, value in more.items()}


def test_keys_and_values_have_registries_of_their_own(
    plain: RegistryServer, mutual: RegistryServer, authority: Authority
) -> None:
    """The same id means a schema of values in one registry and one of keys in the other, behind mutual TLS; each record is
    read with both, and one that names a schema which only the other registry has is a dead letter."""
    values = [plain.register(f"v{i}-value", json.dumps({**VALUE, "name": f"shop.V{i}"}))[0] for i in range(2)]
    mutual.state.schemas[1] = {"schemaType": "AVRO", "schema": json.dumps(KEY), "guid": "none"}
    certificate, key = authority.issue("floe")
    registries = {
        "main": settings_of(plain),
        "keys": settings_of(
            mutual,
            **{
                "ssl.ca.location": authority.certificate,
                "ssl.certificate.location": certificate,
                "ssl.key.location": key,
            },
        ),
    }
    rows = [framed(values[0], avro_bytes(VALUE, {"id": i})) for i in range(3)]
    keys: list[bytes | None] = [framed(1, avro_bytes(KEY, {"who": "ann"})), framed(2, b"\0"), None]
    block = records(rows, keys)
    decode = replace(plan().decode, format=AVRO, key=KEYS)
    found = PlanRegistries(registries, decode).schemas(block)
    assert values == [1, 2]
    assert isinstance(found[1], WriterSchema)
    assert isinstance(found[OfKeys(1)], WriterSchema)
    assert isinstance(found[OfKeys(2)], UnknownSchema)
    landed = land(block, AVRO, found, key=KEYS)
    assert landed.rows == [{"id": 0, "key_who": "ann"}, {"id": 2, "key_who": None}]
    assert landed.codes == [(1, "FLOE-D112")]
    assert PlanRegistries(registries, replace(decode, key=None)).schemas(block).keys() == {1}


def test_json_keys_have_a_registry_of_their_own(plain: RegistryServer) -> None:
    """JSON's values and keys, too."""
    other = RegistryServer()
    try:
        plain.register("v-value", '{"type": "object"}', "JSON")
        other.register("a-key", '"int"')
        other.register("k-key", '{"type": "object"}', "JSON")
        form, key = FormatSpec(registry="main"), KeySpec(FormatSpec(registry="keys"), prefix="key_")
        block = records([framed(1, b'{"id": 1}')] * 2, [framed(2, b'{"who": "ann"}'), framed(1, b'{"who": "bob"}')])
        decode = replace(plan().decode, format=form, key=key)
        found = PlanRegistries({"main": settings_of(plain), "keys": settings_of(other)}, decode).schemas(block)
        landed = land(block, form, found, key=key)
    finally:
        other.stop()
    assert landed.rows == [{"key_who": "ann", "id": 1}]
    assert landed.codes == [(1, "FLOE-D113")]


def test_a_registry_behind_mutual_tls_lets_in_whom_it_knows(
    mutual: RegistryServer, authority: Authority, tmp_path: Path
) -> None:
    """Without the authority the registry is not trusted; without a certificate, or with one of another authority, it does
    not let us in. Neither makes a record a dead letter."""
    mutual.state.schemas[1] = {"schemaType": "AVRO", "schema": '"int"', "guid": "none"}
    certificate, key = authority.issue("floe")
    stranger, strange_key = Authority(tmp_path / "other").issue("stranger")
    ca = {"ssl.ca.location": authority.certificate}
    decode = replace(plan().decode, format=AVRO)
    block = records([framed(1, b"\x02")])
    for settings in (
        {"ssl.certificate.location": certificate, "ssl.key.location": key},
        ca,
        {**ca, "ssl.certificate.location": stranger, "ssl.key.location": strange_key},
    ):
        with pytest.raises((SetupError, RetriableError)) as reported:
            PlanRegistries({"main": settings_of(mutual, **settings)}, decode).schemas(block)
        assert reported.value.code in ("FLOE-E112", "FLOE-R141")
    right = {**ca, "ssl.certificate.location": certificate, "ssl.key.location": key}
    assert PlanRegistries({"main": settings_of(mutual, **right)}, decode).schemas(block) == {
        1: WriterSchema("AVRO", '"int"')
    }


def test_a_run_tells_new_processes_what_others_have_learned(plain: RegistryServer) -> None:
    """What the run's tasks were told before is asked for by no process, also while the registry is away; only what there is
    is learned, and no more than may travel to each task."""
    first, _ = plain.register("a-value", json.dumps(VALUE))
    decode, registries = replace(plan().decode, format=AVRO), {"main": settings_of(plain)}
    block = records([framed(first, b"\x02"), framed(77, b"\x02")])
    told = PlanRegistries(registries, decode)
    found = told.schemas(block)
    assert told.learned == {first: found[first]}
    known = with_learned({}, told.learned)
    plain.stop()
    other = PlanRegistries({"main": {**registries["main"], "timeout.ms": "1000"}}, decode, known)
    assert other.schemas(records([framed(first, b"\x02")])) == {first: found[first]}
    assert other.learned == {}
    with pytest.raises(RetriableError):
        other.schemas(block)
    plain.start()
    bulky = {at: WriterSchema("AVRO", "x" * 100_000) for at in range(100, 110)}
    assert with_learned(known, bulky).keys() == {first, 100, 101}

"""The settings of a connector's converter: each has a home or a reason, and what decides a record is never passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.cli.main import run_main
from framework.connector.translation.avro_types import difference
from framework.connector.translation.converters import _DECIDE as DECIDE  # the list itself is what is tested
from framework.connector.translation.converters import converted, format_of, unreadable
from framework.connector.translation.read import with_worker
from framework.connector.translation.translate import import_connector
from framework.errors import ConfigError

KAFKA = "org.apache.kafka.connect."
SINK = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "orders",
    "iceberg.tables": "shop.orders",
}
AVRO = {**SINK, "value.converter": "io.confluent.connect.avro.AvroConverter"}
JSON = {**SINK, "value.converter": f"{KAFKA}json.JsonConverter", "value.converter.schemas.enable": "false"}
# What Confluent's and Apicurio's pages list for converters, with a value that a connector may have.
DOCUMENTED = {
    "schema.registry.url": "https://registry.shop.example",
    "basic.auth.credentials.source": "SASL_INHERIT",
    "basic.auth.user.info": "floe:hidden",
    "bearer.auth.credentials.source": "OAUTHBEARER",
    "bearer.auth.token": "hidden",
    "bearer.auth.logical.cluster": "lsrc-1",
    "schema.registry.ssl.truststore.location": "/etc/trust.jks",
    "schema.registry.ssl.keystore.password": "hidden",
    "proxy.host": "proxy",
    "auto.register.schemas": "true",
    "use.latest.version": "true",
    "value.subject.name.strategy": "io.confluent.kafka.serializers.subject.RecordNameStrategy",
    "schemas.cache.config": "1000",
    "connect.meta.data": "false",
    "enhanced.avro.schema.support": "true",
    "scrub.invalid.names": "true",
    "latest.compatibility.strict": "false",
    "rule.executors": "encrypt",
    "apicurio.registry.url": "https://registry.shop.example/apis/registry/v3",
    "apicurio.registry.as-confluent": "true",
    "apicurio.registry.id-handler": "io.apicurio.registry.serde.DefaultIdHandler",
    "apicurio.registry.use-id": "contentId",
    "apicurio.registry.auto-register.if-exists": "RETURN",
}


@pytest.mark.parametrize("base", [AVRO, JSON, SINK], ids=["avro", "json", "of the worker"])
@pytest.mark.parametrize("option", [*DOCUMENTED, "nobody.knows.this"])
def test_each_setting_has_a_home_or_is_named(base: dict[str, str], option: str) -> None:
    """Each setting of the values' converter is in the target, told with a reason, or left to do; no secret is copied."""
    key = f"value.converter.{option}"
    imported = import_connector("one", {**base, key: DOCUMENTED.get(option, "1")}, allow_partial=True)

    reported = {note.key for note in imported.notes} | set(imported.target_keys) | {todo.key for todo in imported.todos}
    assert key in reported
    assert "hidden" not in str(imported)


@pytest.mark.parametrize("option", DECIDE)
def test_a_setting_that_decides_what_a_record_is_is_refused(option: str) -> None:
    """What floe reads alike is taken; with any other value the setting is refused by name."""
    key = f"value.converter.{option}"
    alike, _ = DECIDE[option]

    assert converted({**AVRO, key: alike[0]}).refused == ()
    if len(alike) == 1 or alike[0] not in ("true", "false"):
        assert [problem.key for problem in converted({**AVRO, key: "something-else"}).refused] == [key]


@pytest.mark.parametrize(
    "converter",
    [
        "com.amazonaws.services.schemaregistry.kafkaconnect.jsonschema.JsonSchemaConverter",
        "com.amazonaws.services.schemaregistry.kafkaconnect.AWSKafkaAvroConverter",
        "com.blueapron.connect.protobuf.ProtobufConverter",
        "io.apicurio.registry.utils.converter.ExtJsonConverter",
        "com.example.AvroConverter",
        f"{KAFKA}storage.StringConverter",
        f"{KAFKA}converters.ByteArrayConverter",
        f"{KAFKA}converters.LongConverter",
        "AvroConverter",
    ],
)
def test_a_class_of_the_same_short_name_is_another_converter(converter: str) -> None:
    """A converter is known by its whole name; what reads other bytes is refused, also with --allow-partial."""
    assert format_of(converter) is None
    assert unreadable(converter) is not None
    with pytest.raises(ConfigError, match=r"`value\.converter`"):
        import_connector("one", {**SINK, "value.converter": converter}, allow_partial=True)


def test_ids_of_eight_bytes_are_reported() -> None:
    """Apicurio's converter writes longer ids by default; without a setting that says four bytes it is left to do."""
    apicurio = {**SINK, "value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}

    assert [problem.key for problem in converted(apicurio).refused] == ["value.converter"]
    assert converted({**apicurio, "value.converter.apicurio.registry.as-confluent": "true"}).refused == ()


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://a:8081,https://b:8081", "https://a:8081,https://b:8081"),
        ("https://a/apis/registry/v2", "https://a/apis/ccompat/v7"),
        ("https://floe:hidden@a", "${env:SCHEMA_REGISTRY_URL}"),
        ("${file:/etc/registry:url}", "${env:SCHEMA_REGISTRY_URL}"),
    ],
)
def test_the_address_of_a_registry(url: str, found: str) -> None:
    """The address is carried over: Apicurio's to its interface that floe speaks, one with a password as a reference."""
    assert converted({**AVRO, "value.converter.schema.registry.url": url}).registry == {"url": found}


def test_a_worker_gives_what_the_connector_does_not_say() -> None:
    """The worker's converter, its consumer's settings and its brokers are the connector's where it has none of its own;
    a converter's settings without its class are passed over, as in Connect."""
    worker = f"""
        bootstrap.servers=kafka-1:9092
        key.converter={KAFKA}storage.StringConverter
        value.converter={KAFKA}json.JsonConverter
        value.converter.schemas.enable=true
        consumer.auto.offset.reset=latest
        offset.flush.interval.ms=10000
    """
    found = with_worker({**SINK, "value.converter.schemas.enable": "false"}, worker, "worker.properties")

    assert found["value.converter.schemas.enable"] == "true"
    assert found["consumer.override.auto.offset.reset"] == "latest"
    assert found["iceberg.kafka.bootstrap.servers"] == "kafka-1:9092"
    assert "offset.flush.interval.ms" not in found
    with pytest.raises(ConfigError, match=r"value\.converter\.schemas\.enable"):
        import_connector("one", found)
    assert with_worker(JSON, worker, "worker.properties")["value.converter.schemas.enable"] == "false"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"topics.regex": "orders.*"}, "topics.regex"),
        ({"transforms": "a,a"}, "transforms"),
        ({"predicates": "a, a"}, "predicates"),
        ({"consumer.override.auto.offset.reset": "none"}, "consumer.override.auto.offset.reset"),
        ({"iceberg.tables.auto-create-enabled": "yes"}, "iceberg.tables.auto-create-enabled"),
        ({"iceberg.tables.dynamic-enabled": "1"}, "iceberg.tables.dynamic-enabled"),
        ({"errors.tolerance": "some"}, "errors.tolerance"),
    ],
)
def test_settings_with_which_no_connector_starts_make_no_file(settings: dict[str, str], key: str) -> None:
    """What Connect refuses, or what begins at no offset that a pipeline has, is refused by name."""
    with pytest.raises(ConfigError) as raised:
        import_connector("one", {**JSON, **settings}, allow_partial=True)

    assert f"`{key}`" in raised.value.message


@pytest.mark.parametrize("kind", ["ReplaceField", "ReplaceField$Row", "RegexRouter$Value", "Filter$Key"])
def test_a_class_that_is_not_there_is_refused(kind: str) -> None:
    """A transform without its form, or with one that Kafka does not have, is refused: Connect finds no such class."""
    settings = {**JSON, "transforms": "a", "transforms.a.type": f"{KAFKA}transforms.{kind}"}

    with pytest.raises(ConfigError, match=r"`transforms\.a\.type`: there is no class"):
        import_connector("one", settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("iceberg.control.topic", "a b"),
        ("topics", "orders, a b"),
        ("iceberg.tables.default-commit-branch", "a/b"),
        ("iceberg.tables.auto-create-props.write.object-storage.enabled", "2"),
    ],
)
def test_what_only_connect_allows_is_refused_by_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], key: str, value: str
) -> None:
    """Where the pipeline file would be wrong, the refusal names the connector's setting and not the file's key."""
    sink = tmp_path / "sink.json"
    sink.write_text(json.dumps({**JSON, "iceberg.tables.auto-create-enabled": "true", key: value}), encoding="utf-8")

    assert run_main(["import-connector", str(sink), "-o", str(tmp_path / "pipeline.yaml")]) == 2
    assert f"error[FLOE-R405] `{key}`: " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("field", "reported"),
    [
        ({"type": ["null", "int"], "default": None}, None),
        ({"type": ["null", "int"], "default": 7}, "default where the record has null"),
        ({"type": ["null", "int", "string"]}, "several types"),
        ({"type": {"type": "string", "logicalType": "date"}}, "date"),
        ({"type": {"type": "long", "connect.name": "org.apache.kafka.connect.data.Timestamp"}}, "connect"),
        ({"type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}}, None),
        ({"type": {"type": "int", "connect.type": "int16"}}, "connect"),
        ({"type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}}}, "fixed"),
        ({"type": {"type": "record", "name": "Order", "fields": []}}, "two types are called"),
        ({"type": ["null", "shop.Order"]}, "holds itself"),
    ],
)
def test_a_field_of_avro_that_the_sink_writes_otherwise_is_named(
    field: dict[str, object], reported: str | None
) -> None:
    """What Connect makes of a field by its type, its attributes or its default is refused with the field's path."""
    schema = {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "f", **field}],
    }

    found = difference(schema)

    assert (found is None) is (reported is None)
    if found is not None and reported is not None:
        assert found[0] == "f"
        assert reported in found[1]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        "string",
        [],
        {"type": "record", "name": "A"},
        {"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]},
    ],
)
def test_what_is_no_schema_of_avro_makes_no_file(schema: object) -> None:
    """A file of something else, such as JSON Schema or one that lacks a type, is refused."""
    with pytest.raises(ConfigError, match="no schema of Avro"):
        import_connector("one", AVRO, value_schema=schema)


def test_an_avro_schema_of_like_types_makes_a_file_without_consent() -> None:
    """Where each type is alike in the sink and in floe the file is written, and says that it holds for this schema."""
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "string"}]}

    imported = import_connector("one", AVRO, value_schema=schema)

    assert imported.pipeline["source"]["format"] == {"type": "avro", "registry": "main"}
    assert not imported.todos
    assert any("this schema" in note.reason for note in imported.notes)

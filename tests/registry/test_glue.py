"""AWS Glue's schema registry as moto has it: records in its wire format, with keys that are never printed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from framework.adapters.registry import Registry
from framework.config.spec import FormatSpec, FormatType
from framework.errors import RetriableError, SetupError
from framework.ops.doctor import registry as doctor_registry
from framework.record.formats.wire import UnknownSchema, WriterSchema
from testbed.format_samples import avro_bytes, framed, land, record_of, records
from testbed.servers.s3 import S3Server, client_packages
from tests.conftest import Broker
from tests.project import Project, kill_group

pytestmark = pytest.mark.slow
ORDER = record_of({"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]})
CLICK = {"type": "object", "properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}}
NOBODYS = "5f6e0a8c-0000-4000-8000-0123456789ab"
ASKING = {"Effect": "Allow", "Action": "glue:GetSchemaVersion", "Resource": "*"}


class Glue:
    """The server, and a client of AWS's own beside floe's."""

    def __init__(self, server: S3Server) -> None:
        import boto3

        self.server = server
        self._made = boto3.session.Session().client(
            "glue",
            endpoint_url=server.endpoint,
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        self._made.create_registry(RegistryName="shop")

    def register(self, name: str, schema: Any, kind: str = "AVRO") -> str:
        made = self._made.create_schema(
            RegistryId={"RegistryName": "shop"}, SchemaName=name, DataFormat=kind, Compatibility="NONE",
            SchemaDefinition=json.dumps(schema),
        )  # fmt: skip
        return str(made["SchemaVersionId"])

    def settings(self, **more: str) -> dict[str, str]:
        known = {"type": "glue", "url": self.server.endpoint, "glue.region": "us-east-1", "timeout.ms": "5000"}
        keys = {"glue.access-key-id": "floe", "glue.secret-access-key": "swordfish"}
        return known | keys | {"unknown.schema.patience.ms": "0"} | more


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Glue]:
    server = S3Server(tmp_path_factory.mktemp("glue"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(client_packages()))
        yield Glue(server)
    server.stop()


def in_glue(version: str, payload: bytes, compressed: bool = False) -> bytes:
    """A record as AWS's serializers write it."""
    return (
        bytes([3, 5 if compressed else 0]) + UUID(version).bytes + (zlib.compress(payload) if compressed else payload)
    )


def test_avro_and_json_are_read(glue: Glue) -> None:
    """Records name the version of their schema by its UUID, compressed or not, beside each other; a version that Glue has
    not is a dead letter, and so is a record in Confluent's format."""
    avro = glue.register("orders", ORDER)
    asked = Registry(glue.settings())
    found = asked.schemas([avro, NOBODYS, 7])
    assert found[avro] == WriterSchema("AVRO", json.dumps(ORDER))
    assert isinstance(found[NOBODYS], UnknownSchema)
    values = [
        in_glue(avro, avro_bytes(ORDER, {"id": 1, "note": "plain"})),
        in_glue(avro, avro_bytes(ORDER, {"id": 2, "note": "pressed" * 50}), compressed=True),
        in_glue(NOBODYS, b""),
        framed(7, b""),
        bytes([3, 5]) + UUID(avro).bytes + b"no zlib",
        bytes([3, 1]) + UUID(avro).bytes,
        b"\3\0",
    ]
    landed = land(records(values), FormatSpec(FormatType.AVRO, registry="main"), found)
    assert landed.rows == [{"id": 1, "note": "plain"}, {"id": 2, "note": "pressed" * 50}]
    codes = [(2, "FLOE-D112"), (3, "FLOE-D112"), *((at, "FLOE-D111") for at in (4, 5, 6))]
    assert landed.codes == codes
    click = glue.register("clicks", CLICK, "JSON")
    payload = b'{"id": 1, "day": "2024-01-04"}'
    block = records([in_glue(click, payload), in_glue(click, payload, compressed=True)])
    landed = land(block, FormatSpec(registry="main"), asked.schemas([click]))
    assert landed.types == {"id": "long", "day": "date"}
    assert len(landed.rows) == 2


def test_a_small_record_stands_for_no_huge_one(glue: Glue) -> None:
    """What is compressed a thousandfold is a dead letter before it is a gigabyte."""
    avro = glue.register("bomb", '"bytes"')
    size = 20_000_000
    bomb = in_glue(avro, b"\x80\xb4\x89\x13" + bytes(size), compressed=True)
    assert len(bomb) * 500 < size
    landed = land(
        records([bomb]), FormatSpec(FormatType.AVRO, registry="main"), Registry(glue.settings()).schemas([avro])
    )
    assert landed.codes == [(0, "FLOE-D111")]
    assert "does not end within" in landed.letters[0].message


def test_doctor_lists_schemas(glue: Glue) -> None:
    """`floe doctor` asks Glue, too."""
    glue.register("seen", ORDER)
    (finding,) = doctor_registry.examine("main", glue.settings)
    assert finding.state.value == "ok", finding


def test_an_outage_is_waited_for(glue: Glue, tmp_path: Path) -> None:
    """Where nobody answers, no record is judged."""
    with pytest.raises(RetriableError) as reported:
        Registry(glue.settings(url="http://127.0.0.1:9")).schemas([NOBODYS])
    assert reported.value.code == "FLOE-R141"


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.iceberg
def test_a_pipeline_reads_with_glue(glue: Glue, broker: Broker, tmp_path: Path) -> None:
    """Tasks of Spark ask Glue with keys by reference, which stand in no line of the run and in no file of the project."""
    project = Project(tmp_path / "project", broker.bootstrap_servers)
    version, topic = glue.register("landed", ORDER), broker.new_topic("glue")
    settings = f'{{type: glue, url: "{glue.server.endpoint}", glue.region: us-east-1'
    settings += ', glue.access-key-id: "${secret:env:GLUE_KEY}", glue.secret-access-key: "${secret:env:GLUE_SECRET}"}'
    target = project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(target.read_text().replace("spark:\n", f"  registry:\n    main: {settings}\nspark:\n"))
    file = project.pipeline(
        "glue",
        f"""
        source: {{kafka: {{topics: [{topic}]}}, format: {{type: avro, registry: main}}}}
        routes: {{rules: [{{table: shop.glue}}], allow_tables: ["shop.*"]}}
        errors: {{policy: dead_letter, dead_letter_table: shop.glue_letters}}
        """,
    )
    rows = [in_glue(version, avro_bytes(ORDER, {"id": i, "note": None}), i % 2 == 0) for i in range(100)]
    broker.produce(topic, [*rows, in_glue(NOBODYS, b"")])
    keys = {"GLUE_KEY": "AKIAOFNOBODY", "GLUE_SECRET": "swordfish-and-chips"}
    process = project.start("run", file, "--until-caught-up", env={"PYTHONPATH": str(client_packages()), **keys})
    try:
        output, _ = process.communicate(timeout=200)
    finally:
        kill_group(process)
    assert process.returncode == 0, output
    assert sorted(project.table("shop.glue").column("id").to_pylist()) == list(range(100))
    [letter] = project.table("shop.glue_letters").to_pylist()
    assert letter["code"] == "FLOE-D112"
    written = [path.read_bytes() for path in project.root.rglob("*") if path.is_file()]
    assert written
    assert not any(key in output or any(key.encode() in each for each in written) for key in keys.values())


def test_a_refusal_tells_no_key(glue: Glue) -> None:
    """Keys that AWS does not know, or that may not ask, stop the run; neither key is in the message. With a policy for it
    alone, schemas are read. Last of the module: from here on the server asks for signatures."""
    avro = glue.register("kept", ORDER)
    users = glue.server.users({"reader": {"Version": "2012-10-17", "Statement": [ASKING]}, "nobody": {
        "Version": "2012-10-17", "Statement": [{**ASKING, "Action": "s3:*"}]}})  # fmt: skip
    glue.server.enforce()
    keys = {
        name: {"glue.access-key-id": found["s3.access-key-id"], "glue.secret-access-key": found["s3.secret-access-key"]}
        for name, found in users.items()
    }
    for wrong in (keys["nobody"], {**keys["reader"], "glue.secret-access-key": "swordfish-and-chips"}):
        with pytest.raises(SetupError) as reported:
            Registry(glue.settings(**wrong)).schemas([avro])
        assert reported.value.code == "FLOE-E112"
        assert not any(key in f"{reported.value}{reported.value.__cause__}" for key in wrong.values())
    assert isinstance(Registry(glue.settings(**keys["reader"])).schemas([avro])[avro], WriterSchema)

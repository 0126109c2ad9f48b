"""Iceberg's sink for Kafka Connect itself: its routing, its tables and its rows, written by its own classes in a JVM.

In: a connector's settings, the tables that exist, and records. Out: the tables with their schemas and the rows of the
files that the sink wrote, or why its task would end. No broker, no worker and no commit: a Hadoop catalog in a folder stands
for the catalog, since the sink asks it for tables only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError

from framework.connector.sink.model import SinkRecord, Stops
from testbed.servers.connect import ICEBERG_VERSION, Chain, Connect
from testbed.servers.maven import JARS_OF_PYSPARK, dependency, jars

APICURIO_CONVERTER_VERSION = "2.6.13.Final"
_WITHOUT_CLIENTS = '<exclude org="io.vertx"/><exclude org="com.microsoft.kiota"/>'
_CATALOG = {"iceberg.catalog.type": "hadoop"}  # any will do: the sink refuses to start without one


def sink_jars() -> Path:
    """The directory with Iceberg's sink and what it writes Parquet with; Hadoop's classes are those that PySpark has."""
    names = ("iceberg-kafka-connect", "iceberg-kafka-connect-events", "iceberg-data", "iceberg-parquet", "iceberg-orc")
    return jars(
        f"connect-sink-{ICEBERG_VERSION}", [dependency("org.apache.iceberg", name, ICEBERG_VERSION) for name in names]
    )


def avro_jars() -> Path:
    """The directory with a converter of Avro: Apicurio's, whose reading of Avro's types is Confluent's own, copied; that one
    is not on Maven Central."""
    return jars(
        f"connect-avro-{APICURIO_CONVERTER_VERSION}",
        [dependency("io.apicurio", "apicurio-registry-utils-converter", APICURIO_CONVERTER_VERSION, _WITHOUT_CLIENTS)],
    )


@dataclass(frozen=True)
class SinkTable:
    """One table behind the sink. `schema` is Iceberg's JSON; `rows` are in the order of the files, not of the records."""

    schema: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    partition_by: tuple[str, ...]


class Sink(Connect):
    """A JVM that holds the sink, too, until `close`."""

    def __init__(self) -> None:
        hadoop = [next(JARS_OF_PYSPARK.glob(f"hadoop-client-{part}-*.jar")) for part in ("api", "runtime")]
        super().__init__("".join(f":{each}" for each in (f"{sink_jars()}/*", *hadoop, f"{avro_jars()}/*")))
        self._iceberg: Any = self._jvm.org.apache.iceberg

    def read_avro(self, record: SinkRecord, schema: str, value: bytes) -> Any:
        """The record as the worker reads it. Raises Py4JJavaError."""
        avro = self._jvm.org.apache.avro
        parsed = avro.Schema.Parser().parse(schema)
        decoder = avro.io.DecoderFactory.get().binaryDecoder(value, None)
        datum = avro.generic.GenericDatumReader(parsed).read(None, decoder)
        found = self._jvm.io.apicurio.registry.utils.converter.avro.AvroData(1).toConnectData(parsed, datum)
        return self.record(record, found.schema(), found.value())

    def config(self, settings: Mapping[str, str]) -> Any:
        """The sink's own view of its settings.

        Raises:
            Stops: the connector does not start with these settings.
        """
        sink_settings = {key: text for key, text in settings.items() if not key.startswith("transforms")}
        try:
            return self._iceberg.connect.IcebergSinkConfig({**sink_settings, **_CATALOG})
        except Py4JJavaError as error:
            raise Stops(_cause(error)) from None

    @contextmanager
    def task(self, settings: Mapping[str, str], folder: Path, tables: Mapping[str, str]) -> Iterator[Task]:
        """A task of the sink over a catalog that holds these tables only.

        Args:
            tables: Iceberg's schema as JSON, by table.

        Raises:
            Stops: the connector does not start with these settings.
        """
        hadoop = self._jvm.org.apache.hadoop.conf.Configuration()
        catalog = self._iceberg.hadoop.HadoopCatalog(hadoop, folder.as_uri())
        for name, schema in tables.items():
            made = self._iceberg.SchemaParser.fromJson(schema)
            catalog.createTable(self._iceberg.catalog.TableIdentifier.parse(name), made)
        writer = self._iceberg.connect.data.SinkWriter(catalog, self.config(settings))
        yield Task(self, catalog, writer, self.chain(settings))
        catalog.close()

    def table(self, catalog: Any, name: Any, files: Sequence[str]) -> SinkTable:
        found = catalog.loadTable(name)
        schema = json.loads(self._iceberg.SchemaParser.toJson(found.schema()))
        rows = [row for file in files for row in _rows(file.removeprefix("file:"), _names(schema))]
        fields = [(_names(schema)[each.sourceId()], str(each.transform().toString())) for each in found.spec().fields()]
        return SinkTable(schema, tuple(rows), tuple(_partition(*field) for field in fields))


class Task:
    """One task: it takes records one after the other."""

    def __init__(self, sink: Sink, catalog: Any, writer: Any, chain: Chain) -> None:
        self._sink, self._catalog, self._writer, self._chain = sink, catalog, writer, chain

    def put(self, record: SinkRecord, value: bytes | None) -> None:
        """Writes one record.

        Raises:
            Stops: the task ends here.
        """
        try:
            found = self._chain.applied(record, value)
            if found is not None:
                self._writer.save([found])
        except Py4JJavaError as error:
            raise Stops(_cause(error)) from None

    def put_avro(self, record: SinkRecord, schema: str, value: bytes) -> None:
        """Writes one record of Avro, as the converter with its default settings reads it.

        Args:
            value: the bytes behind the id of the schema.

        Raises:
            Stops: the task ends here.
        """
        try:
            self._writer.save([self._chain.applied_to(self._sink.read_avro(record, schema, value))])
        except Py4JJavaError as error:
            raise Stops(_cause(error)) from None

    def written(self) -> dict[str, SinkTable]:
        """Each table that got a file, as it is now."""
        files: dict[str, tuple[Any, list[str]]] = {}
        for result in self._writer.completeWrite().writerResults():
            name = result.tableReference().identifier()
            _, known = files.setdefault(str(name.toString()), (name, []))
            known += [str(file.location()) for file in result.dataFiles()]
        return {name: self._sink.table(self._catalog, made, known) for name, (made, known) in files.items()}


def _partition(column: str, transform: str) -> str:
    """A field as a pipeline file writes it: `truncate[2]` as `truncate(2, name)`."""
    if transform == "identity":
        return column
    kind, _, argument = transform.rstrip("]").partition("[")
    return f"{kind}({f'{argument}, ' if argument else ''}{column})"


def _names(schema: Any) -> dict[int, str]:
    """The names of all fields by their ids: what files call them is not quite the same."""
    if isinstance(schema, dict):
        named = {schema["id"]: schema["name"]} if "id" in schema and "name" in schema else {}
        return named | {key: name for inner in schema.values() for key, name in _names(inner).items()}
    return {key: name for inner in schema for key, name in _names(inner).items()} if isinstance(schema, list) else {}


def _rows(file: str, names: Mapping[int, str]) -> list[dict[str, Any]]:
    table = pq.ParquetFile(file).read()
    columns = [(_name(field, names), _values(table.column(field.name), names)) for field in table.schema]
    return [{name: values[number] for name, values in columns} for number in range(table.num_rows)]


def _values(column: pa.ChunkedArray, names: Mapping[int, str]) -> list[Any]:
    try:
        return [_value(each, column.type, names) for each in column.to_pylist()]
    except (OverflowError, ValueError):  # years that Python does not have
        return list(column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64()).to_pylist())


def _name(field: pa.Field, names: Mapping[int, str]) -> str:
    return names[int(field.metadata[b"PARQUET:field_id"])]


def _value(value: Any, kind: pa.DataType, names: Mapping[int, str]) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {_name(field, names): _value(value[field.name], field.type, names) for field in kind}
    if pa.types.is_map(kind):
        return {key: _value(inner, kind.item_type, names) for key, inner in value}
    return [_value(each, kind.value_type, names) for each in value] if pa.types.is_list(kind) else value


def _cause(error: Py4JJavaError) -> str:
    """What is at the bottom of an exception: the sink says of most that a record cannot be converted."""
    found = error.java_exception
    while found.getCause() is not None:
        found = found.getCause()
    return str(found.toString())

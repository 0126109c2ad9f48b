"""Real tables in a real catalog (SQLite), and files written for them by PyIceberg itself."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.define import DEFAULT_PROPERTIES
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import CommitTable, ExaminedTable, PipelineProgress, TableProgress
from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.table.changes import CreateTable
from framework.table.partitions import spec_of
from tests.iceberg.spark_server import IcebergSpark

TOPIC = "control-topic-id"
POLICY = TablePolicy()
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
)


class Lake:
    """One catalog, seen through floe (`tables`) and through plain PyIceberg (`catalog`), which shares nothing with
    it."""

    def __init__(self, settings: dict[str, str], name: str = "default") -> None:
        self.settings, self.name = settings, name
        self.tables = IcebergTables.over({"default": IcebergCatalog(settings, name)})
        self.tables.check()

    @property
    def catalog(self) -> Catalog:
        """A catalog of PyIceberg's own class with nothing cached: what any other engine would see now."""
        return load_catalog(self.name, **self.settings)

    def plain(self, name: str) -> Table:
        return self.catalog.load_table(name)

    def create(
        self,
        name: str = "shop.orders",
        schema: Schema = SCHEMA,
        partition_by: Sequence[PartitionFieldSpec] = (),
        **properties: str,
    ) -> str:
        """Makes a table through floe; keyword `format_version` stands for the property `format-version`."""
        given = tuple(
            ("format-version" if key == "format_version" else key, value) for key, value in properties.items()
        )
        self.tables.create_table(CreateTable(name, schema.model_dump_json(), tuple(partition_by), given))
        return name

    def made_by_others(
        self, name: str, schema: Schema, partition_by: Sequence[PartitionFieldSpec], format_version: str = "2"
    ) -> str:
        """A table that floe may write and would not make: of partitions that Java cannot read."""
        catalog, _ = IcebergCatalog(self.settings, self.name).open()
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        properties = {**DEFAULT_PROPERTIES, "format-version": format_version}
        catalog.create_table(name, schema, partition_spec=spec_of(schema, partition_by), properties=properties)
        return name

    def view(self, name: str, branch: str = "main", topic: str = TOPIC) -> ExaminedTable:
        view = self.tables.load_view(name, branch, topic)
        assert view is not None
        return view

    def files(self, name: str, rows: Sequence[dict[str, object]]) -> tuple[DataFile, ...]:
        """Parquet files of the table's present schema and spec, written by PyIceberg, as an announcement names them."""
        table = self.plain(name)
        data = pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow())
        made = _dataframe_to_data_files(table.metadata, data, table.io, write_uuid=uuid.uuid4())
        return tuple(announced(file, table.metadata.default_spec_id) for file in made)

    def effect(
        self,
        name: str,
        files: Sequence[DataFile],
        offset: int,
        view: ExaminedTable | None = None,
        branch: str = "main",
        topic: str = TOPIC,
        commit_id: str | None = None,
    ) -> CommitTable:
        view = view or self.view(name, branch, topic)
        progress = TableProgress(topic, offset, {"p": PipelineProgress(offset, {"t": {"0": offset}}, {"t": "id"})})
        return CommitTable(name, view, commit_id or uuid.uuid4().hex, tuple(files), progress, valid_through_ms=1_000)

    def rows(self, name: str, branch: str | None = None) -> list[int]:
        """The ids in the table, sorted, as plain PyIceberg reads them."""
        table = self.plain(name)
        snapshot = table.metadata.snapshot_by_name(branch)
        scan = table.scan(snapshot_id=snapshot.snapshot_id) if branch and snapshot else table.scan()
        return sorted(scan.to_arrow()["id"].to_pylist())


def announced(file: object, spec_id: int) -> DataFile:
    """PyIceberg's DataFile as an announcement carries it."""
    return DataFile(
        path=file.file_path,  # type: ignore[attr-defined]
        record_count=file.record_count,  # type: ignore[attr-defined]
        file_size_bytes=file.file_size_in_bytes,  # type: ignore[attr-defined]
        spec_id=spec_id,
        partition=tuple(_single_value(value) for value in file.partition._data),  # type: ignore[attr-defined]
        column_sizes={str(key): value for key, value in file.column_sizes.items()},  # type: ignore[attr-defined]
        value_counts={str(key): value for key, value in file.value_counts.items()},  # type: ignore[attr-defined]
        null_value_counts={str(key): value for key, value in file.null_value_counts.items()},  # type: ignore[attr-defined]
        lower_bounds={str(key): _text(value) for key, value in file.lower_bounds.items()},  # type: ignore[attr-defined]
        upper_bounds={str(key): _text(value) for key, value in file.upper_bounds.items()},  # type: ignore[attr-defined]
        split_offsets=tuple(file.split_offsets or ()),  # type: ignore[attr-defined]
    )


def _text(bound: bytes) -> str:
    return base64.b64encode(bound).decode()


def _single_value(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, (uuid.UUID, Decimal)) else value


@pytest.fixture(scope="session")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergSpark]:
    """Iceberg's own Java runtime, started once for all tests that ask it."""
    spark = IcebergSpark(tmp_path_factory.mktemp("spark"))
    yield spark
    spark.stop()


@pytest.fixture
def lake(catalog_settings: dict[str, str]) -> Lake:
    return Lake(catalog_settings)


def metadata_files(table: Table) -> set[str]:
    """Names of the metadata JSON files that lie in the table's metadata folder."""
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    return {path.name for path in folder.glob("*.metadata.json")}

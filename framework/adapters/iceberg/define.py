"""Creates and alters tables: applies definitions decided elsewhere, only to the table state that they were decided
from.

In: `CreateTable` and `AlterTable` values. Out: a table that exists, or a schema that is current. Keeps invariant 4 for
definitions: a change is conditional on the table's uuid, its current schema and its highest column id, so that fifty
callers that add the same column make one change. An unknown outcome is read back (invariant 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)

from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.supported_tables import writable_versions
from framework.adapters.iceberg.views import definition_of
from framework.config.names.table_names import identifier_of
from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from framework.errors import FloeError, TableBlocked
from framework.table.changes import AlterTable, CreateTable
from framework.table.model import TableTarget
from framework.table.partitions import order_of, source_of, spec_of
from framework.table.readable import TableDefinition, new_faults

# For tables that we create, unless the pipeline file says otherwise. Iceberg's own defaults keep every metadata file,
# and let a hundred manifests gather, which are then read and rewritten within one commit.
DEFAULT_PROPERTIES = {
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "20",
    TableProperties.MANIFEST_MIN_MERGE_COUNT: "10",
}

# What a catalog says of a change that it will not make, rather than cannot make now.
_REFUSALS = (BadRequestError, ForbiddenError, UnauthorizedError, ValidationError)


def create(catalog: Catalog, change: CreateTable) -> None:
    """Make the table, and its namespace where needed. A table that is there already is success.

    PyIceberg and REST servers number the columns afresh, so the ids in `change.schema_json` say only which partition
    field belongs to which column: load the table afterwards to learn the ids to write with.

    Raises:
        TableBlocked: the definition cannot be made: an unsupported format version, transform or partition column.
        FloeError: FLOE-R140 the catalog refuses; FLOE-R132 it cannot, or its outcome cannot be read back.
    """
    properties = {**DEFAULT_PROPERTIES, **dict(change.properties)}
    version = properties.get(TableProperties.FORMAT_VERSION, "2")
    if version not in {str(each) for each in writable_versions(catalog)}:
        raise TableBlocked(
            f"table {change.table} cannot be created with Iceberg format version {version} through {type(catalog).__name__}",
            code="FLOE-R131",
            place=change.table,
            remedy='set tables.defaults.create.properties.format-version to "2" (or "1"); 3 needs a REST or SQL catalog',
        )
    schema = Schema.model_validate_json(change.schema_json)
    spec = partition_spec(change.table, schema, change.partition_by)
    order = sort_order(change.table, schema, change.sort_by)
    _check_readable(change.table, TableDefinition(schema, (spec,), (order,), int(version)), None)
    try:
        _ensure_namespace(catalog, Catalog.namespace_from(identifier_of(change.table)))
        catalog.create_table(
            identifier_of(change.table),
            schema,
            location=change.location,
            partition_spec=spec,
            sort_order=order,
            properties=properties,
        )
    except TableAlreadyExistsError:
        _check_exists(catalog, change.table, None)
    except TableBlocked:  # its namespace would put it where the target lets no table lie
        raise
    except Exception as error:  # each catalog has exceptions of its own
        # Invariant 7: another caller may have made the table, or this call has and its answer was lost.
        _check_exists(catalog, change.table, error)


def _check_exists(catalog: Catalog, table: str, cause: Exception | None) -> None:
    try:
        catalog.load_table(identifier_of(table))
    except TableBlocked:  # it is there, and lies where the target lets no table lie
        raise
    except Exception as error:  # each catalog has exceptions of its own
        if isinstance(error, NoSuchTableError) and isinstance(cause, _REFUSALS):
            raise _refused(table, "make", cause) from cause
        reason = str(cause or error).strip().splitlines()[0]
        raise FloeError(
            f"table {table} could not be created: {reason}",
            code="FLOE-R132",
            place=table,
            remedy="check that the catalog may create tables in this namespace and write to its warehouse location",
        ) from (cause or error)


def _ensure_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Create the namespace and those above it (REST servers want them first); others may do the same meanwhile."""
    for depth in range(1, len(namespace) + 1):
        part = namespace[:depth]
        if catalog.namespace_exists(part):
            continue
        try:
            catalog.create_namespace(part)
        except Exception:  # each catalog has its own for "exists"
            if not catalog.namespace_exists(part):
                raise


def partition_spec(table: str, schema: Schema, partition_by: Sequence[PartitionFieldSpec]) -> PartitionSpec:
    """The partition spec of a new table.

    Raises:
        TableBlocked: a column that the schema lacks, or a transform that does not fit its type.
    """
    for each in partition_by:
        _check_source(table, schema, each, "partitioned", "partition_by")
    return spec_of(schema, partition_by)


def sort_order(table: str, schema: Schema, sort_by: Sequence[SortFieldSpec]) -> SortOrder:
    """The sort order of a new table.

    Raises:
        TableBlocked: a column that the schema lacks, or a transform that does not fit its type.
    """
    for each in sort_by:
        _check_source(table, schema, each.by, "sorted", "sort_by")
    return order_of(schema, sort_by)


def _check_source(table: str, schema: Schema, each: PartitionFieldSpec, made: str, key: str) -> None:
    try:
        source_of(schema, each)
    except ValueError as error:
        raise TableBlocked(
            f"table {table} cannot be {made} by {each.transform} of {each.column}: {error}",
            code="FLOE-R133",
            place=table,
            remedy=f"name a column of the table and a transform that fits its type under create.{key}",
        ) from error


def _check_readable(table: str, wanted: TableDefinition, before: TableDefinition | None) -> None:
    """The last look at a definition before it is made, with all that the catalog knows of the table.

    Raises:
        TableBlocked: FLOE-R147, Iceberg's Java library could not read the table.
    """
    if found := new_faults(wanted, before):
        raise TableBlocked(
            f"table {table} is not {'changed' if before else 'created'}, since Spark could not read it any more: {found[0]}",
            code="FLOE-R147",
            place=table,
            remedy="leave the field out with evolve.exclude, or correct create.partition_by",
        )


def alter(catalog: Catalog, commits: TableCommits, change: AlterTable) -> bool:
    """Make `change.schema_json` the current schema.

    Returns:
        True when it is the current schema now, whoever made it so. False when what the change was decided from is no
        longer so: load the table and plan again.

    Raises:
        FloeError: FLOE-R134 the catalog cannot be asked or could not do it; FLOE-R140 it refuses.
    """
    wanted = Schema.model_validate_json(change.schema_json)
    try:
        table = catalog.load_table(identifier_of(change.table))
        metadata = table.metadata
        same = next((each for each in metadata.schemas if _same(each, wanted)), None)
        if same is not None and same.schema_id == metadata.current_schema_id:
            return str(metadata.table_uuid) == change.table_uuid
        before = definition_of(metadata)
        _check_readable(change.table, replace(before, schema=wanted), before)
        updates: tuple[TableUpdate, ...]
        if same is not None:  # a schema that the table had before comes back under its own id
            updates = (SetCurrentSchemaUpdate(schema_id=same.schema_id),)
        else:
            next_id = max(each.schema_id for each in metadata.schemas) + 1
            renumbered = Schema(*wanted.fields, schema_id=next_id, identifier_field_ids=wanted.identifier_field_ids)
            updates = (AddSchemaUpdate(schema_=renumbered), SetCurrentSchemaUpdate(schema_id=-1))
        requirements = (
            AssertTableUUID.model_validate({"uuid": change.table_uuid}),
            AssertCurrentSchemaId(current_schema_id=change.base_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=change.last_column_id),
        )
    except NoSuchTableError:
        return False
    except TableBlocked:  # it lies where the target lets no table lie, or could not be read any more
        raise
    except Exception as error:  # each catalog has exceptions of its own
        raise _unknown(change.table, error) from error
    try:
        commits.apply(table, requirements, updates)
    except Exception as error:  # invariant 7: conflict or lost answer, the table says which
        try:
            now = catalog.load_table(identifier_of(change.table)).metadata
        except NoSuchTableError:
            return False
        except Exception as second:  # unknown for now, which is said as it is
            raise _unknown(change.table, second) from error
        if str(now.table_uuid) == change.table_uuid and _same(now.schema(), wanted):
            return True
        as_it_was = (str(now.table_uuid), now.current_schema_id, now.last_column_id) == (
            change.table_uuid,
            change.base_schema_id,
            change.last_column_id,
        )
        if not as_it_was or isinstance(error, CommitFailedException):
            return False
        raise (
            _refused(change.table, "change", error) if isinstance(error, _REFUSALS) else _unknown(change.table, error)
        ) from error
    return True


def note_properties(
    catalog: Catalog, commits: TableCommits, table: str, found: TableTarget, properties: Mapping[str, str]
) -> bool:
    """Set properties by which floe remembers what a table is for. False when one of them has changed since `found` was
    loaded, or the table.

    Raises:
        FloeError: FLOE-R134 the catalog cannot be asked or could not do it; FLOE-R140 it refuses.
    """
    try:
        loaded = catalog.load_table(identifier_of(table))
        now = loaded.metadata.properties
        if any(now.get(key) != found.properties.get(key) for key in properties):
            return False
        commits.apply(
            loaded,
            (AssertTableUUID.model_validate({"uuid": found.table_uuid}),),
            (SetPropertiesUpdate(updates=dict(properties)),),
        )
    except (NoSuchTableError, CommitFailedException):
        return False
    except TableBlocked:  # it lies where the target lets no table lie
        raise
    except Exception as error:  # each catalog has exceptions of its own
        raise (_refused(table, "change", error) if isinstance(error, _REFUSALS) else _unknown(table, error)) from error
    return True


def _same(one: Schema, other: Schema) -> bool:
    return one.as_struct() == other.as_struct() and set(one.identifier_field_ids) == set(other.identifier_field_ids)


def _refused(table: str, verb: str, error: Exception) -> FloeError:
    return FloeError(
        f"the catalog refuses to {verb} table {table}: {(str(error).strip() or type(error).__name__).splitlines()[0]}",
        code="FLOE-R140",
        place=table,
        remedy="give these credentials the missing permission, or make the change by hand",
    )


def _unknown(table: str, error: Exception) -> FloeError:
    return FloeError(
        f"the definition of {table} could not be read or changed: {str(error).strip().splitlines()[0]}",
        code="FLOE-R134",
        place=table,
        remedy="check that the catalog answers; the change is then planned again",
    )

"""What a run would decide about offsets and tables, asked before it happens.

In: a plan and facts that were read from catalog and broker. Out: previews of the start and of each table. The
decisions are those of the run itself (`plan_creation`, `plan_evolution`, `decide_start`); nothing here touches the
world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from framework.adapters.iceberg.define import DEFAULT_PROPERTIES
from framework.commit.events.event_types import DataComplete, Heartbeat
from framework.commit.machine.progress.recorded import CREATED_PROPERTY
from framework.commit.offsets import PartitionFacts, PartitionKey, SafeOffset, check_announced, decide_start
from framework.config.spec import CreatePolicy, NameCase, PartitionFieldSpec, WritePolicy
from framework.config.units import partition_text
from framework.config.values.maintenance import MaintenanceMode, MaintenancePolicy
from framework.errors import TableBlocked
from framework.ops.preview.model import MUST_FIT, Action, PartitionStart, Problem, StartPreview, TablePreview
from framework.plan.model import Plan
from framework.runtime.tables.creation import plan_creation
from framework.runtime.tables.owner import check_owner, claim_of
from framework.table.changes import AddColumn, CreateTable, Refusal, WidenColumn
from framework.table.create import location_of, plan_create
from framework.table.evolve import plan_evolution
from framework.table.model import TableNeed, TableTarget
from framework.table.owner import OWNED
from framework.table.policy.rules import TableRules
from framework.table.policy.words import Aspect
from framework.table.schema.arrow import parse_schema
from framework.table.schema.observed import observed
from framework.table.schema.types import format_version
from framework.table.upsert.keys import key_of

# Creation that waits for a record to show what nobody has declared is no refusal.
_WAITS_FOR_DATA = ("FLOE-T103", "FLOE-T105", "FLOE-T107")


def preview_start(
    plan: Plan,
    facts: Mapping[PartitionKey, PartitionFacts],
    group: Mapping[PartitionKey, SafeOffset],
    link: DataComplete | Heartbeat | None,
) -> StartPreview:
    """Where the run will begin to read.

    Raises:
        StateDisagreement, DataLossError: what the run would be refused with.
    """
    chain, given_up = (link.ranges, link.given_up) if link is not None else (None, ())
    read = plan.read
    start = decide_start(plan.pipeline, group, facts, chain, read.starting_offsets, read.on_data_loss, given_up)
    check_announced(plan.pipeline, group, chain, plan.announce.control_topic)
    otherwise = "starting_offsets" if start.first_run else "new partition"
    return StartPreview(
        start.first_run,
        start.batch,
        tuple(
            PartitionStart(topic, partition, at, facts[topic, partition].log_end, by)
            for (topic, partition), at in sorted(start.positions.items())
            for by in [
                "given up before"
                if (topic, partition) in start.returned
                else "group"
                if (topic, partition) in group
                else otherwise
            ]
        ),
    )


# ---- tables ---------------------------------------------------------------------------------------------------------


def preview_table(plan: Plan, table: str, found: TableTarget | None) -> TablePreview:
    """What becomes of one table that the routes name, or that holds the dead letters."""
    return replace(_preview_table(plan, table, found), upserted_by=plan.write.tables.policy_for(table).write.key)


def holding_tables(plan: Plan, tables: Iterable[TablePreview]) -> Iterator[Problem]:
    """The upsert tables that the pipeline would wait for, since their rows cannot be replaced by key."""
    for table in tables:
        if table.action is not Action.REFUSE or not plan.write.tables.policy_for(table.table).write.is_upsert:
            continue
        if table.code == OWNED and not claim_of(plan, table.table).is_named:
            continue  # the pipeline goes on without the records that lead there
        reason = table.notes[0]
        if table.code != "FLOE-R144":
            reason = f"rows of table {table.table} cannot be replaced by key: {reason}"
        remedy = f"`floe explain {table.code}` says what to do"
        yield Problem("FLOE-R144", reason, remedy, TableBlocked.exit_code)


def _preview_table(plan: Plan, table: str, found: TableTarget | None) -> TablePreview:
    if found is None:
        pattern = plan.write.tables.policy_for(table).create.location
        own = "" if table == plan.write.dead_letter_table else location_of(pattern, table) or ""
        return replace(_missing(plan, table), location=own)
    properties = tuple(sorted(item for item in found.properties.items() if not item[0].startswith("floe.")))
    return replace(_existing(plan, table, found), location=found.location, properties=properties)


def _missing(plan: Plan, table: str) -> TablePreview:
    policy = plan.write.tables.policy_for(table)
    dead_letters = table == plan.write.dead_letter_table
    word = TableRules(policy).refusing_word(Aspect.TABLES)
    if not dead_letters and word is not None:
        why = f"it does not exist, and evolve.tables is {word.value}"
        return TablePreview(table, Action.REFUSE, notes=(why,), code="FLOE-D204")
    partition_by = tuple(partition_text(field) for field in policy.create.partition_by)
    properties = tuple(sorted({**DEFAULT_PROPERTIES, **dict(policy.create.properties)}.items()))
    change = plan_creation(plan, TableNeed(table, ()))
    if isinstance(change, Refusal):
        if change.code not in _WAITS_FOR_DATA:
            return TablePreview(table, Action.REFUSE, notes=(change.reason,), code=change.code)
        columns = tuple(name for name in _columns(_declared(plan, table, format_version(policy.create.properties))))
        waits = "its columns come from the data" if change.code == "FLOE-T103" else change.reason
        return TablePreview(table, Action.CREATE, columns, partition_by, properties, (waits,))
    if dead_letters:
        made = tuple(partition_text(field) for field in change.partition_by)
        properties = tuple(sorted({**DEFAULT_PROPERTIES, **dict(change.properties)}.items()))
        return TablePreview(
            table, Action.CREATE, _columns(change), made, properties, ("created at the first dead letter",)
        )
    return TablePreview(
        table, Action.CREATE, _columns(change), partition_by, properties, ("further columns come from the data",)
    )


def _existing(plan: Plan, table: str, found: TableTarget) -> TablePreview:
    try:
        check_owner(plan, found)
    except TableBlocked as error:
        return TablePreview(table, Action.REFUSE, notes=(error.message,), code=error.code)
    if table == plan.write.dead_letter_table:
        return TablePreview(table, Action.KEEP)
    policy = plan.write.tables.policy_for(table)
    notes = [*_left_as_it_is(plan, table, found), *_not_maintained(policy.maintenance, found)]
    if policy.write.is_upsert:
        key = key_of(replace(found, policy=policy))
        if isinstance(key, Refusal):
            return TablePreview(table, Action.REFUSE, notes=(key.reason, *notes), code=key.code)
        notes += [
            f"{name} is part of the key and optional: records without it are dead letters" for name in key.optional
        ]
    declared = _declared(plan, table, found.format_version)
    if declared is None:
        return TablePreview(table, Action.KEEP, notes=tuple(notes))
    need = TableNeed(table, tuple((f.name, observed(f.field_type)) for f in parse_schema(declared.schema_json).fields))
    change = plan_evolution(found, need)
    if isinstance(change, Refusal):
        path = ".".join(change.path)
        return TablePreview(table, Action.REFUSE, notes=(f"column {path}: {change.reason}", *notes), code=change.code)
    columns = []
    for each in change.changes if change is not None else ():
        if isinstance(each, AddColumn):
            columns.append(f"{'.'.join(each.path)} {_declared_words(declared, each)}")
        elif isinstance(each, WidenColumn):
            columns.append(f"{'.'.join(each.path)} {each.from_type} -> {each.to_type}")
    notes += _other_types(declared, found, policy.case is NameCase.INSENSITIVE)
    if columns:
        notes.insert(0, "when the first record with them comes")
    return TablePreview(table, Action.ALTER if columns else Action.KEEP, tuple(columns), notes=tuple(notes))


def _declared(plan: Plan, table: str, version: int) -> CreateTable | None:
    """A table of this format version with what the file declares and nothing else; None where it declares nothing."""
    policy = plan.write.tables.policy_for(table)
    made = CreatePolicy(properties=(("format-version", str(version)),))
    free = replace(policy, create=made, write=WritePolicy())
    change = plan_create(TableNeed(table, ()), free, plan.hints_of(table), plan.metadata_columns_of(table))
    return change if isinstance(change, CreateTable) else None


def _columns(change: CreateTable | None) -> tuple[str, ...]:
    if change is None:
        return ()
    return tuple(
        f"{field.name} {type_words(field.field_type)}{' required' if field.required else ''}"
        for field in parse_schema(change.schema_json).fields
    )


def _declared_words(declared: CreateTable, added: AddColumn) -> str:
    try:
        return type_words(parse_schema(declared.schema_json).find_type(".".join(added.path), case_sensitive=False))
    except ValueError:
        return added.type


def type_words(kind: IcebergType) -> str:
    """A type as a pipeline file declares it: without the ids of fields, which nobody wrote."""
    if isinstance(kind, StructType):
        inside = ", ".join(f"{field.name}: {type_words(field.field_type)}" for field in kind.fields)
        return f"struct<{inside}>"
    if isinstance(kind, ListType):
        return f"list<{type_words(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{type_words(kind.key_type)}, {type_words(kind.value_type)}>"
    return str(kind)


def _left_as_it_is(plan: Plan, table: str, found: TableTarget) -> Iterable[str]:
    """Settings of `create` that an existing table does not have: they say how a table is made, and it is made."""
    policy = plan.write.tables.policy_for(table)
    has = [_folded(field, policy.case) for field in _partition_fields(found)]
    wanted = [_folded(field, policy.case) for field in policy.create.partition_by]
    if wanted and has != wanted:
        yield f"it is partitioned by {', '.join(has) or 'nothing'}, not by {', '.join(wanted)}; it is left as it is"
    for key, value in policy.create.properties:
        present = found.properties.get(key)
        if key == "format-version":
            if found.format_version < int(value):  # an older one lacks what the newer one brings
                yield f"its format version is {found.format_version}, not {value}; it is left as it is"
        elif present != value:
            yield f"its property {key} is {present or 'not set'}, not {value}; it is left as it is"


def _not_maintained(policy: MaintenancePolicy, found: TableTarget) -> Iterable[str]:
    """An offer: a table that somebody else made may be maintained by somebody else, too, until a person says so."""
    if policy.mode is MaintenanceMode.AUTO and CREATED_PROPERTY not in found.properties:
        yield "floe did not create it and does not maintain it; `maintenance: {mode: always}` lets floe do so"


def _partition_fields(found: TableTarget) -> Iterable[PartitionFieldSpec]:
    schema = parse_schema(found.schema_json)
    for field in PartitionSpec.model_validate_json(found.spec_json).fields:
        column = schema.find_column_name(field.source_id) or "?"
        name, _, argument = str(field.transform).rstrip("]").partition("[")
        yield PartitionFieldSpec(column, name, int(argument) if argument else None)


def _folded(field: PartitionFieldSpec, case: NameCase) -> str:
    return partition_text(replace(field, column=field.column.lower()) if case is NameCase.INSENSITIVE else field)


def _other_types(declared: CreateTable, found: TableTarget, insensitive: bool) -> Iterable[str]:
    schema = parse_schema(found.schema_json)
    for field in parse_schema(declared.schema_json).fields:
        try:
            present = schema.find_field(field.name, case_sensitive=not insensitive)
        except ValueError:
            continue
        for path, has, wanted in _differing(present.name, present.field_type, field.field_type):
            yield f"column {path} is {type_words(has)}, the file declares {type_words(wanted)}{MUST_FIT}"


def _differing(path: str, has: IcebergType, wanted: IcebergType) -> Iterator[tuple[str, IcebergType, IcebergType]]:
    """What of a column has another type than it is declared with; fields of a struct that the file does not know are the
    records' own."""
    if isinstance(has, StructType) and isinstance(wanted, StructType):
        inside = {field.name.lower(): field for field in has.fields}
        for field in wanted.fields:
            if (known := inside.get(field.name.lower())) is not None:
                yield from _differing(f"{path}.{known.name}", known.field_type, field.field_type)
    elif isinstance(has, ListType) and isinstance(wanted, ListType):
        yield from _differing(f"{path}.element", has.element_type, wanted.element_type)
    elif isinstance(has, MapType) and isinstance(wanted, MapType):
        yield from _differing(f"{path}.key", has.key_type, wanted.key_type)
        yield from _differing(f"{path}.value", has.value_type, wanted.value_type)
    elif has != wanted:
        yield path, has, wanted

"""An Iceberg sink of Kafka Connect as a pipeline file, and as the target that it would run against.

In: the connector's settings. Out: plain values of both files, and a sentence for each key that fits into neither. What
a pipeline file cannot express (a Hadoop catalog, tables that only records know, most code that shapes records) is
refused by name: no file is better than one that fills tables differently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from framework.config.units import partition_field
from framework.connector.translation.avro_types import difference
from framework.connector.translation.converters import KEY as CONVERTER
from framework.connector.translation.converters import format_of
from framework.connector.translation.policies import errors, policies, without_times_of_text
from framework.connector.translation.routes import ConnectorRoutes, routes_of
from framework.connector.translation.settings_reader import Note, SettingsReader
from framework.connector.translation.target.keys import NAMES, is_passed_over, why_not
from framework.connector.translation.target.target import target_of
from framework.connector.translation.transforms.chain import check_names, step_names, step_of
from framework.connector.translation.transforms.record_shape import RecordShape, select, shape_of
from framework.connector.translation.transforms.values import apply
from framework.connector.translation.untranslatable import PARTIAL, Untranslatable, refused, same_regex
from framework.connector.translation.whole_sinks import check_whole
from framework.connector.translation.writes import Unsayable, Writes, writes_of
from framework.diagnose.suggest import did_you_mean

_TYPES_OF_SCHEMAS = (
    "types that Connect does not have, such as times in microseconds, are numbers to the sink and times to floe: compare "
    "the tables' columns"
)
_OF_THE_WORKER = (
    "the worker decides what a record is, and the values are read as JSON objects without a schema: give the worker's "
    "properties with `--worker`"
)
_NUMBERS_OF_TABULAR = (
    "this sink makes a column of type long of the first number without a fraction, of 3.0 too, and cuts later numbers to it; "
    "floe makes one of type double"
)
Values = dict[str, Any]


@dataclass(frozen=True)
class Todo:
    """What a person must add to the file: at which of its keys, for which property of the sink, and what it is."""

    place: str
    key: str
    message: str


@dataclass(frozen=True)
class Imported:
    """The pipeline file and the target file as plain values, what is not in them, the keys that only the target holds,
    and what is left to do."""

    pipeline: Values
    target: Values
    notes: tuple[Note, ...]
    target_keys: tuple[str, ...]
    todos: tuple[Todo, ...] = ()


def import_connector(
    name: str | None,
    settings: Mapping[str, str],
    tables: tuple[str, ...] = (),
    fields: Mapping[str, str] | None = None,
    deletes_when: str | None = None,
    allow_partial: bool = False,
    value_schema: Any = None,
) -> Imported:
    """The pipeline and target files of a sink.

    Args:
        tables: the tables that records may name, for dynamic routing; no setting of the sink says them.
        fields: all fields of the records and their types, for transforms that shape records.
        deletes_when: what the field of changes holds in a record that deletes.
        allow_partial: leave out what has no words, and say so in `todos`.
        value_schema: the schema of the records in a registry, of Avro.

    Raises:
        ConfigError: FLOE-R405, a setting that cannot be said in a pipeline file.
    """
    importer = _Import(
        dict(settings),
        given_tables=tables,
        fields=fields,
        deletes_when=deletes_when,
        allow_partial=allow_partial,
        value_schema=value_schema,
    )
    return importer.imported(name)


@dataclass
class _Import(SettingsReader):
    given_tables: tuple[str, ...] = ()
    fields: Mapping[str, str] | None = None
    deletes_when: str | None = None
    allow_partial: bool = False
    value_schema: Any = None
    todos: list[Todo] = field(default_factory=list)
    passed_over: set[str] = field(default_factory=set)

    def imported(self, name: str | None) -> Imported:
        self.take("connector.class")
        self.take("name")
        self._check_settings()
        shape = self._shape()
        source, sql, routed = self._source(shape), self._sql(shape), self._routed(shape)
        tables = routed.tables
        defaults, overrides = policies(self, tables)
        if self._has_inferred_columns(source, sql, defaults):
            # The sink makes a long of a whole number.
            defaults["values"] = {"whole_numbers": "long"}
            if self.settings.get("connector.class", "").startswith("io.tabular."):
                self.note("connector.class", _NUMBERS_OF_TABULAR, lost=True)
        self._add_writes(tables, defaults, overrides, sql)
        self._report_case(routed, sql, defaults)
        self._report_partition(source, defaults)
        if source["format"] == {"type": "json"} and sql is None:
            declared = frozenset(name.lower() for name in source.get("schema", ()))
            for policy in (defaults, *overrides):
                without_times_of_text(policy, declared)
        control = self.take("iceberg.control.topic") or "control-iceberg"
        # Connect writes Avro to its control topic, and floe refuses a control topic that holds what is not its own.
        self.note("iceberg.control.topic", f"`{control}` belongs to Connect; floe's commit log is `{control}-floe`")
        if (group := _group_of(name, self.settings)) is not None:
            self.note("name", f"the offsets of its source are those of group `{group}`")
        pipeline: Values = {
            "apiVersion": "floe/v1",
            "kind": "Pipeline",
            "metadata": {"name": re.sub(r"[^A-Za-z0-9_-]+", "-", name or "imported").strip("-_")[:100] or "imported"},
            "source": source,
            **({"transform": {"sql": sql}} if sql else {}),
            "routes": routed.values,
            "tables": {"defaults": defaults, **({"overrides": overrides} if overrides else {})},
            "errors": errors(self, tables),
            "commit": {"control_topic": f"{control}-floe"[:249]},
        }
        both = self.taken - {"value.converter"}  # it says the format here, and there that a registry is needed
        target = target_of({key: value for key, value in self.settings.items() if key not in both})
        for key, lost, reason in target.notes:
            self.note(key, reason, lost)
        for problem in target.refused:
            self.refuse("source", problem)
        reported = self.taken | target.used | {note.key for note in self.notes} | {todo.key for todo in self.todos}
        for key in self.settings:
            if key not in reported:
                self._explain(key)
        in_target = tuple(key for key in self.settings if key in target.used)
        return Imported(_as_written(pipeline), target.values, tuple(self.notes), in_target, tuple(self.todos))

    def _explain(self, key: str) -> None:
        """Why a key has no home; one that nobody knows is refused."""
        if (found := why_not(key)) is not None:
            self.note(key, found[1], found[0])
            return
        hint = did_you_mean(key, NAMES)
        remedy = f"{hint} If not, remove it, or: {PARTIAL}" if hint else f"remove it, or: {PARTIAL}"
        self.refuse(
            "source", Untranslatable(key, "neither Connect nor the sink has this key, as far as floe knows", remedy)
        )

    def refuse(self, place: str, problem: Untranslatable) -> None:
        """Refuses what has no words, or leaves it to do at a key of the file.

        Raises:
            ConfigError: FLOE-R405, and no part is to be left out.
        """
        if not self.allow_partial:
            raise problem.as_error()
        self.todos.append(Todo(place, problem.key, problem.message))

    def _routed(self, shape: RecordShape) -> ConnectorRoutes:
        routed = routes_of(self.settings, self.given_tables, shape)
        self.taken |= routed.taken
        for key, reason in routed.notes:
            self.note(key, reason)
        return routed

    def _report_case(self, routed: ConnectorRoutes, sql: str | None, defaults: Values) -> None:
        """The sink distinguishes upper from lower case everywhere but in the names of columns."""
        looks = any("field" in rule.get("when", {}) for rule in routed.values["rules"])
        if defaults["case"] == "insensitive" and (looks or sql is not None):
            message = "the sink's transforms and rules find a field in one spelling only, and floe's then in any"
            remedy = "if all records spell their fields alike, set it to false, or `--allow-partial` writes the file with a TODO"
            self.refuse("tables", Untranslatable("iceberg.tables.schema-case-insensitive", message, remedy))

    def _report_partition(self, source: Values, defaults: Values) -> None:
        """Where a table gets its columns from records, the sink makes a long of the partition's number."""
        adds = defaults["create"]["enabled"] or defaults["evolve"]["columns"] == "evolve"
        if adds and "partition" in source.get("metadata_columns", ()) and not self._has_schema:
            message = "the sink makes a column of type long for the partition, and floe one of type int"
            remedy = f"add the column to the tables and switch off the keys that create and evolve them, or: {PARTIAL}"
            self.refuse("tables", Untranslatable("transforms", message, remedy))

    def _has_inferred_columns(self, source: Values, sql: str | None, defaults: Values) -> bool:
        adds = defaults["create"]["enabled"] or defaults["evolve"]["columns"] == "evolve"
        return bool(adds and sql is None and source["format"] == {"type": "json"})

    def _check_settings(self) -> None:
        check_whole(self.settings)
        for key in self.settings:
            if is_passed_over(key, self.settings.get("connector.class", "")) and self.settings[key].lower() != "false":
                message = "the sink of this class has no such key and passes over it"
                self.refuse("tables", Untranslatable(key, message, f"remove it, or: {PARTIAL}"))
                self.taken.add(key)
                self.passed_over.add(key)

    # ---- source ------------------------------------------------------------------------------------------------

    def _shape(self) -> RecordShape:
        """The records behind all transforms; what cannot be said is refused, or left to do."""
        topics = self.settings.get("topics")
        listed = _listed(topics) if topics else None
        keys = [key for key in self.settings if key.startswith(("transforms.", "predicates."))]
        check_names(self.settings)
        names = step_names(self.settings)
        self.taken |= {key for key in keys if key.startswith(tuple(f"transforms.{name}." for name in names))}
        self.taken |= {"transforms", "predicates"} | {key for key in keys if key.startswith("predicates.")}
        known = self.fields is not None and not self._passes_unchanged(shape_of(None, listed, self._has_schema), names)
        try:
            shape = shape_of(self.fields if known else None, listed, self._has_schema)
        except ValueError as error:
            raise refused("--fields", str(error)) from None
        return self._transformed(shape, names)

    def _passes_unchanged(self, shape: RecordShape, names: list[str]) -> bool:
        """Whether the transforms leave the fields of the records alone, so that SQL is not needed."""
        try:
            for name in names:
                shape = apply(step_of(name, self.settings), shape)
        except Untranslatable:
            return False
        return all(column.metadata is not None for column in shape.added)

    def _transformed(self, shape: RecordShape, names: list[str]) -> RecordShape:
        for name in names:
            try:
                shape = apply(step_of(name, self.settings), shape)
            except Untranslatable as problem:
                self.refuse("source", problem)
            except ValueError as error:
                raise refused(f"transforms.{name}", str(error)) from None
        return shape

    def _source(self, shape: RecordShape) -> Values:
        kafka: Values = {"connection": "main"}
        topics, pattern = self.take("topics"), self.take("topics.regex")
        if topics:
            kafka["topics"] = list(shape.topics or ())
        elif pattern:
            kafka["topic_pattern"] = f"^(?:{_regex('topics.regex', pattern)})$"
        else:
            raise refused("topics", "neither `topics` nor `topics.regex` is given")
        key = "consumer.override.auto.offset.reset"
        kafka["starting_offsets"] = reset = (self.take(key) or "earliest").strip().lower()
        if reset not in ("earliest", "latest"):
            raise refused(key, f"a pipeline begins at `earliest` or `latest`, not at `{reset}`", "choose one of them")
        source: Values = {"kafka": kafka, "format": self._format()}
        declared: Values = {**(self.fields or {}), **shape.hints}
        if declared:
            source["schema"] = declared
        columns = [one.metadata for one in (*shape.added, *(shape.columns or ())) if one.metadata is not None]
        if columns:
            source["metadata_columns"] = columns
        return source

    def _format(self) -> Values:
        """The format of a converter that uses a schema registry; the registry is the target's `main`."""
        converter = self.settings.get("value.converter", "")
        kind = format_of(converter)
        if kind is None:
            if not converter:
                self.note(CONVERTER, _OF_THE_WORKER, lost=True)
            return {"type": "json"}
        self.taken.add("value.converter")
        if not any(key.endswith(".registry.url") for key in self.settings if key.startswith(f"{CONVERTER}.")):
            self.note(
                "value.converter", "the target must declare the registry as `connections.registry.main`", lost=True
            )
        for key in ("iceberg.tables.schema-force-optional", "iceberg.tables.replace-null-with-default"):
            if self.settings.get(key, "false").strip().lower() == "true":
                message = "which fields may be null, and what stands for null, is the schema's word in floe"
                self.refuse("tables", Untranslatable(key, message, PARTIAL))
        self._compare_types(kind)
        return {"type": kind, "registry": "main"}

    def _compare_types(self, kind: str) -> None:
        """Whether the records' schema has types only that the sink and floe write alike."""
        partial = "`--allow-partial` writes the file, with a TODO: compare the tables with those of the sink before it takes over"
        if self.value_schema is None or kind != "avro":
            self.note(CONVERTER, _TYPES_OF_SCHEMAS, lost=True)
            message = (
                "the schema of the records is in a registry, so no test can prove that the rows are those of the sink"
            )
            remedy = f"give it with `--value-schema orders.avsc`, or: {partial}" if kind == "avro" else partial
            self.refuse("source", Untranslatable(CONVERTER, message, remedy))
            return
        try:
            found = difference(self.value_schema)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise refused(
                "--value-schema", f"the file is no schema of Avro: {error}", "give that of the topic's values"
            ) from None
        if found is not None:
            self.refuse("source", Untranslatable(CONVERTER, f"`{found[0]}` of the schema: {found[1]}", partial))
            return
        self.note(CONVERTER, "each type of this schema is alike in both; ask again when the topic has another schema")

    @property
    def _has_schema(self) -> bool:
        return format_of(self.settings.get("value.converter", "")) is not None

    def _sql(self, shape: RecordShape) -> str | None:
        """The SELECT that gives the columns that the sink writes."""
        for column in shape.added:
            if column.metadata is None and column.sql is None:
                self.refuse("source", Untranslatable(column.key, column.why, PARTIAL))
        for column in shape.columns or ():
            if column.metadata is None and column.sql is None:
                self.refuse("source", Untranslatable(column.key, column.why, PARTIAL))
                shape = replace(shape, columns=tuple(one for one in shape.columns or () if one is not column))
        try:
            return select(shape, self.fields or {})
        except Untranslatable as problem:
            raise problem.as_error() from None
        except ValueError as error:
            raise refused("transforms", str(error)) from None

    def _add_writes(self, tables: list[str], defaults: Values, overrides: list[Values], sql: str | None) -> None:
        """`write` of the policies of a sink that upserts, or that follows a field of changes."""
        settings = {key: value for key, value in self.settings.items() if key not in self.passed_over}
        writes = writes_of(settings, tables, self.deletes_when)
        if isinstance(writes, Unsayable):
            raise refused(writes.key, writes.message, writes.remedy)
        if sql is not None and (writes.defaults or writes.tables):
            raise refused("transforms", "they shape records, and floe cannot do that before rows are upserted")
        self.taken |= writes.taken
        for caveat in writes.caveats:
            self.refuse("tables", caveat)
        for key, reason in writes.notes:
            self.note(key, reason, lost=True)
        if writes.defaults or writes.tables:
            self._report_moves(writes, tables, defaults, overrides)
        if writes.defaults:
            defaults["write"] = writes.defaults
        for table, write in writes.tables:
            override = next((one for one in overrides if one["match"] == table), None)
            if override is None:
                overrides.append(override := {"match": table})
            override["write"] = write

    def _report_moves(self, writes: Writes, tables: list[str], defaults: Values, overrides: list[Values]) -> None:
        """The sink's deletes by key hold in one partition alone."""
        own = {override["match"]: override for override in overrides}
        for table in tables:
            identify = {**writes.defaults, **dict(writes.tables).get(table, {})}["key"]
            create = {**defaults["create"], **own.get(table, {}).get("create", {})}
            found = map(partition_field, create.get("partition_by", ()))
            if any(field is not None and field.column not in identify for field in found):
                key = f"iceberg.table.{table}.partition-by"
                key = key if key in self.settings else "iceberg.tables.default-partition-by"
                message = (
                    "the sink looks for the old row in the partition of the new one alone, and floe finds it anywhere"
                )
                remedy = (
                    "partition by columns of the key; if no row ever moves to another partition, `--allow-partial` writes the "
                    "file, with a TODO to check that"
                )
                self.refuse("tables", Untranslatable(key, message, remedy))


def _regex(key: str, pattern: str) -> str:
    """A pattern of Java's that floe runs too. Raises ConfigError."""
    try:
        return same_regex(key, pattern, of_topics=True)
    except Untranslatable as problem:
        raise problem.as_error() from None


def _as_written(value: Any) -> Any:
    """A value as it must stand in a file where `${` begins a reference; text that begins a template cannot stand
    there."""
    if isinstance(value, dict):
        return {key: _as_written(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        raise refused(value, "the text would be read as a template", "write it differently")
    return value.replace("${", "$${") if isinstance(value, str) else value


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _group_of(name: str | None, settings: Mapping[str, str]) -> str | None:
    """The consumer group whose offsets belong to what the sink has committed; None where only Connect knows its name.
    Tabular's sink has a group of its own, and Connect's may stand elsewhere."""
    is_tabular = settings.get("connector.class", "").startswith("io.tabular.")
    key, prefix = ("iceberg.control.group-id", "cg-control") if is_tabular else ("iceberg.connect.group-id", "connect")
    return settings.get(key) or (f"{prefix}-{name}" if name else None)

"""An Iceberg sink of Kafka Connect as a pipeline file, and as the target that it would run against.

In: the connector's settings. Out: plain values of both files, and a sentence for each key that fits into neither. What
a pipeline file cannot express (a Hadoop catalog, tables that only records know) is refused by name: no file is better
than one that fills tables differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from framework.config.connector.keys import SMT_REASONS, why_not
from framework.config.connector.target import format_of, target_of
from framework.config.connector.writes import Unsayable, writes_of
from framework.config.patterns import unfit
from framework.config.rules.permitted import is_property_allowed, never_a_property
from framework.config.units import partition_field, partition_text
from framework.errors import ConfigError

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+\Z")
_METADATA = ("topic", "partition", "offset", "timestamp")
Values = dict[str, Any]


@dataclass(frozen=True)
class Note:
    """A key that has no home; `lost` when leaving it out changes what the pipeline does."""

    key: str
    reason: str
    lost: bool


@dataclass(frozen=True)
class Imported:
    """The pipeline file and the target file as plain values, what is not in them, and the keys that only the target
    holds."""

    pipeline: Values
    target: Values
    notes: tuple[Note, ...]
    target_keys: tuple[str, ...]


def import_connector(name: str | None, settings: dict[str, str], tables: tuple[str, ...] = ()) -> Imported:
    """The pipeline and target files of a sink.

    Args:
        tables: the tables that records may name, for dynamic routing; no setting of the sink says them.

    Raises:
        ConfigError: FLOE-R405, a setting that cannot be said in a pipeline file.
    """
    return _Import(dict(settings), tables).imported(name)


@dataclass
class _Import:
    settings: dict[str, str]
    given_tables: tuple[str, ...]
    taken: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    def imported(self, name: str | None) -> Imported:
        self.take("connector.class")
        self.take("name")
        self._refuse()
        tables = self._table_names()
        source, routes = self._source(), self._routes(tables)
        defaults, overrides = self._policies(tables)
        self._add_writes(tables, defaults, overrides)
        control = self.take("iceberg.control.topic") or "control-iceberg"
        # Connect writes Avro to its control topic, and floe refuses a control topic that holds what is not its own.
        self.note("iceberg.control.topic", f"`{control}` belongs to Connect; floe's commit log is `{control}-floe`")
        pipeline: Values = {
            "apiVersion": "floe/v1",
            "kind": "Pipeline",
            "metadata": {"name": re.sub(r"[^A-Za-z0-9_-]+", "-", name or "imported").strip("-_")[:100] or "imported"},
            "source": source,
            "routes": routes,
            "tables": {"defaults": defaults, **({"overrides": overrides} if overrides else {})},
            "errors": self._errors(tables),
            "commit": {"control_topic": f"{control}-floe"[:249]},
        }
        both = self.taken - {"value.converter"}  # it says the format here, and there that a registry is needed
        target, used = target_of({key: value for key, value in self.settings.items() if key not in both})
        for key in self.settings:
            if key not in self.taken and key not in used:
                lost, reason = why_not(key)
                self.note(key, reason, lost)
        return Imported(
            _as_written(pipeline), target, tuple(self.notes), tuple(key for key in self.settings if key in used)
        )

    # ---- settings ----------------------------------------------------------------------------------------------

    def take(self, key: str) -> str | None:
        self.taken.add(key)
        return self.settings.get(key)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.take(key)
        return default if value is None else value.strip().lower() == "true"

    def note(self, key: str, reason: str, lost: bool = False) -> None:
        self.notes.append(Note(key, reason, lost))

    def _refuse(self) -> None:
        converter = self.settings.get("value.converter", "")
        if "ByteArray" in converter:
            raise _refused("value.converter", f"the values are read with {converter}, which gives no fields", "")
        if (
            converter.endswith("JsonConverter")
            and self.settings.get("value.converter.schemas.enable", "true") != "false"
        ):
            raise _refused(
                "value.converter.schemas.enable",
                "each record carries its schema (`schema` and `payload`), which floe does not unpack",
                "if the records are plain JSON objects, set it to false here, as in the worker",
            )
        if "hadoop" in (self.settings.get("iceberg.catalog.type", "").lower()) or "HadoopCatalog" in self.settings.get(
            "iceberg.catalog.catalog-impl", ""
        ):
            raise _refused(
                "iceberg.catalog.type",
                "a Hadoop catalog cannot commit safely from two writers",
                "move to another catalog",
            )

    # ---- source and routes -------------------------------------------------------------------------------------

    def _source(self) -> Values:
        kafka: Values = {"connection": "main"}
        topics, pattern = self.take("topics"), self.take("topics.regex")
        if topics:
            kafka["topics"] = _listed(topics)
        elif pattern:
            kafka["topic_pattern"] = f"^(?:{_regex('topics.regex', pattern)})$"
        else:
            raise _refused("topics", "neither `topics` nor `topics.regex` is given", "")
        reset = self.take("consumer.override.auto.offset.reset") or "earliest"
        kafka["starting_offsets"] = "latest" if reset == "latest" else "earliest"
        source: Values = {"kafka": kafka, "format": self._format()}
        if columns := self._metadata_columns():
            source["metadata_columns"] = columns
        return source

    def _format(self) -> Values:
        """The format of a converter that uses a schema registry; the registry is the target's `main`."""
        converter = self.settings.get("value.converter", "")
        kind = format_of(converter)
        if kind is None:
            return {"type": "json"}
        self.taken.add("value.converter")
        if "value.converter.schema.registry.url" not in self.settings:
            self.note(
                "value.converter", "the target must declare the registry as `connections.registry.main`", lost=True
            )
        return {"type": kind, "registry": "main"}

    def _metadata_columns(self) -> list[str]:
        """The one transform with a home: Kafka's own fields as columns."""
        names = _listed(self.settings.get("transforms", ""))
        for name in names:
            prefix = f"transforms.{name}."
            kind = self.settings.get(f"{prefix}type", "").rpartition(".")[2]
            if kind in SMT_REASONS:
                self.taken |= {key for key in self.settings if key.startswith(prefix)}
                self.note(f"{prefix}type", SMT_REASONS[kind], lost=True)
            if kind != "KafkaMetadataTransform":
                continue
            for key in [key for key in self.settings if key.startswith(prefix)]:
                self.taken.add(key)
            if len(names) == 1:
                self.taken.add("transforms")
            self.note(f"{prefix}type", "the columns are `_kafka_topic`, `_kafka_partition` and so on", lost=True)
            return list(_METADATA)
        return []

    def _table_names(self) -> list[str]:
        listed = _listed(self.take("iceberg.tables") or "")
        if self.flag("iceberg.tables.dynamic-enabled"):
            if listed:
                raise _refused("iceberg.tables", "`iceberg.tables.dynamic-enabled` is true, so it cannot be given", "")
            names = list(self.given_tables)
            if not names:
                route_field = self.settings.get("iceberg.tables.route-field", "?")
                raise _refused(
                    "iceberg.tables.dynamic-enabled",
                    f"records can name any table in `{route_field}`, but floe only writes to tables that the file names",
                    "name the tables: `--tables db.one,db.two`",
                )
        else:
            names = listed
        if not names:
            raise _refused("iceberg.tables", "it names no table", "")
        for name in names:
            if not _TABLE.match(name):
                raise _refused("iceberg.tables", f"`{name}` is not `namespace.name`", "")
        return list(dict.fromkeys(names))

    def _routes(self, tables: list[str]) -> Values:
        dynamic = self.flag("iceberg.tables.dynamic-enabled")
        route_field = self.take("iceberg.tables.route-field")
        if route_field and not re.match(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*\Z", route_field):
            raise _refused("iceberg.tables.route-field", f"`{route_field}` is not a field's name", "")
        if dynamic and not route_field:
            raise _refused("iceberg.tables.route-field", "dynamic routing needs it", "")
        rules: list[Values] = []
        for table in tables:
            key = f"iceberg.table.{table}.route-regex"
            regex = self.take(key)
            if dynamic:
                rules.append({"when": {"field": route_field, "equals": table}, "table": table})
            elif route_field is None:
                rules.append({"table": table})
                if regex is not None:
                    self.note(key, "without `iceberg.tables.route-field` it has no effect", lost=False)
            elif regex is not None:
                rules.append({"when": {"field": route_field, "matches": _regex(key, regex)}, "table": table})
            else:
                self.note("iceberg.tables", f"`{table}` has no `route-regex`, so no record goes there", lost=False)
        if not rules:
            raise _refused("iceberg.tables.route-field", "no table has a `route-regex`, so no record goes anywhere", "")
        used = [rule["table"] for rule in rules]
        # The sink gives a record to every table whose expression matches, and skips one that matches none.
        several = {"mode": "all_match"} if len(rules) > 1 and not dynamic else {}
        return {**several, "rules": rules, "unrouted": "drop", "allow_tables": used}

    # ---- tables ------------------------------------------------------------------------------------------------

    def _policies(self, tables: list[str]) -> tuple[Values, list[Values]]:
        create: Values = {"enabled": self.flag("iceberg.tables.auto-create-enabled")}
        partition = self._partition("iceberg.tables.default-partition-by", create["enabled"])
        if partition:
            create["partition_by"] = partition
        properties = self._properties(create["enabled"])
        if properties:
            create["properties"] = properties
        evolves = self.flag("iceberg.tables.evolve-schema-enabled")
        if not evolves:
            self.note(
                "iceberg.tables.evolve-schema-enabled", "new fields are ignored; columns are still widened and relaxed"
            )
        insensitive = self.flag("iceberg.tables.schema-case-insensitive")
        commit: Values = {"interval": _duration(self.take("iceberg.control.commit.interval-ms") or "300000")}
        branch = self.take("iceberg.tables.default-commit-branch")
        if branch:
            commit["branch"] = branch
        defaults = {
            "create": create,
            "evolve": {"columns": "evolve" if evolves else "discard_value"},
            "commit": commit,
            "case": "insensitive" if insensitive else "sensitive",
        }
        return defaults, [one for table in tables if (one := self._override(table, create["enabled"])) is not None]

    def _override(self, table: str, creates: bool) -> Values | None:
        override: Values = {"match": table}
        partition = self._partition(f"iceberg.table.{table}.partition-by", creates)
        if partition:
            override["create"] = {"partition_by": partition}
        branch = self.take(f"iceberg.table.{table}.commit-branch")
        if branch:
            override["commit"] = {"branch": branch}
        return override if len(override) > 1 else None

    def _add_writes(self, tables: list[str], defaults: Values, overrides: list[Values]) -> None:
        """`write` of the policies of a sink that upserts, or that follows a field of changes."""
        writes = writes_of(self.settings, tables)
        if isinstance(writes, Unsayable):
            raise _refused(writes.key, writes.message, writes.remedy)
        self.taken |= writes.taken
        for key, reason in writes.notes:
            self.note(key, reason, lost=True)
        if writes.defaults:
            defaults["write"] = writes.defaults
        for table, write in writes.tables:
            override = next((one for one in overrides if one["match"] == table), None)
            if override is None:
                overrides.append(override := {"match": table})
            override["write"] = write

    def _partition(self, key: str, creates: bool) -> list[str]:
        text = self.take(key)
        if not text:
            return []
        if not creates:
            self.note(key, "tables are not created (`iceberg.tables.auto-create-enabled`), so it has no effect")
            return []
        fields = []
        for part in re.split(r",(?![^()]*\))", text):
            written = re.sub(r"^(year|month|day|hour)s\(", r"\1(", part.strip())
            found = partition_field(re.sub(r"\s+", "", written))
            if found is None:
                raise _refused(key, f"`{part.strip()}` is not a partition field", "")
            fields.append(partition_text(found))
            if found.transform in ("year", "month", "day", "hour"):
                reason = f"`{found.column}` must be a date or a moment: declare its type under `source.schema`"
                self.note(key, reason, lost=True)
        return fields

    def _properties(self, creates: bool) -> Values:
        properties: Values = {}
        for kind in ("auto-create-props", "write-props"):
            prefix = f"iceberg.tables.{kind}."
            for key in [key for key in self.settings if key.startswith(prefix)]:
                name, value = key.removeprefix(prefix), self.take(key) or ""
                if name == "format-version" and value not in ("1", "2", "3"):
                    self.note(key, f"floe writes format versions 1, 2 and 3, not {value}", lost=True)
                elif name == "write.format.default" and value.lower() != "parquet":
                    self.note(key, f"floe writes Parquet, not {value}", lost=True)
                elif not creates:
                    reason = "it has no effect while tables are not created"
                    if kind == "write-props":
                        reason = "set it on the tables: ALTER TABLE ... SET TBLPROPERTIES"
                    self.note(key, reason, lost=kind == "write-props")
                elif never_a_property(name):
                    self.note(key, "pipeline files may not set it: it names code, credentials or a place", lost=True)
                elif not is_property_allowed(name):
                    reason = f"the target lets pipeline files set it: put `{name}` under `allow.properties` there, and here into"
                    self.note(key, f"{reason} `tables.defaults.create.properties`", lost=True)
                else:
                    properties[name] = value
                    if kind == "write-props":
                        reason = "it applies to new tables; on existing tables, set it with ALTER TABLE"
                        self.note(key, reason, lost=True)
        return properties

    def _errors(self, tables: list[str]) -> Values:
        tolerance = (self.take("errors.tolerance") or "none").lower()
        topic = self.take("errors.deadletterqueue.topic.name")
        if tolerance != "all":
            return {"policy": "fail"}
        if not topic:
            return {"policy": "drop"}
        table = f"{tables[0].rpartition('.')[0]}.dead_letters"
        self.note("errors.deadletterqueue.topic.name", f"each dead letter is a row of the table `{table}`, too")
        return {"policy": "dead_letter", "dead_letter_table": table, "dead_letter_topic": topic}


def _regex(key: str, pattern: str) -> str:
    """A pattern of Java's that floe runs too. Raises ConfigError."""
    if (found := unfit(pattern)) is not None:
        raise _refused(key, f"`{pattern}` is not a regular expression that floe can run: {found.reason}", found.remedy)
    return pattern


def _as_written(value: Any) -> Any:
    """A value as it must stand in a file where `${` begins a reference; text that begins a template cannot stand
    there."""
    if isinstance(value, dict):
        return {key: _as_written(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        raise _refused(value, "the text would be read as a template", "write it differently")
    return value.replace("${", "$${") if isinstance(value, str) else value


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _duration(text: str) -> str:
    if not re.match(r"[1-9][0-9]{0,8}\Z", text):
        raise _refused("iceberg.control.commit.interval-ms", f"`{text}` is not a number of milliseconds", "")
    number = int(text)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if number % size == 0:
            return f"{number // size}{unit}"
    return f"{number}ms"


def _refused(key: str, message: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"`{key}`: {message}",
        code="FLOE-R405",
        remedy=remedy or "change the setting, or write the pipeline file by hand",
    )

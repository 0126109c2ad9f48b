"""How a sink makes and changes its tables, and what it does with records that it cannot read.

In: the connector's settings and its tables. Out: `tables` and `errors` of a pipeline file. A sink without evolution of
schemas leaves its tables as they are, and so does the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from framework.config.rules.permitted import is_property_allowed, never_a_property
from framework.config.spec import PartitionFieldSpec
from framework.config.units import COLUMN, partition_field, partition_text
from framework.config.values.transforms import TRANSFORMS
from framework.connector.translation.settings_reader import SettingsReader
from framework.connector.translation.untranslatable import refused

Values = dict[str, Any]
_CALL = re.compile(r"([A-Za-z0-9_]+)\((.+)\)")
_MAKES_NONE = "the sink makes tables without a partition"
_LEAVES_TABLES_ALONE = {"columns": "discard_value", "data_type": "freeze", "nullability": "freeze"}


def policies(reader: SettingsReader, tables: list[str]) -> tuple[Values, list[Values]]:
    """`tables.defaults` and `tables.overrides`. Raises ConfigError."""
    create: Values = {"enabled": reader.flag("iceberg.tables.auto-create-enabled")}
    partition = _partition(reader, "iceberg.tables.default-partition-by", create["enabled"])
    if partition:
        create["partition_by"] = partition
    properties = _properties(reader, create["enabled"])
    if properties:
        create["properties"] = properties
    evolves = reader.flag("iceberg.tables.evolve-schema-enabled")
    insensitive = reader.flag("iceberg.tables.schema-case-insensitive")
    commit: Values = {"interval": _duration(reader.take("iceberg.control.commit.interval-ms") or "300000")}
    branch = _branch(reader, "iceberg.tables.default-commit-branch")
    if branch:
        commit["branch"] = branch
    defaults = {
        "create": create,
        "evolve": {"columns": "evolve"} if evolves else dict(_LEAVES_TABLES_ALONE),
        "commit": commit,
        "case": "insensitive" if insensitive else "sensitive",
    }
    return defaults, [one for table in tables if (one := _override(reader, table, create["enabled"])) is not None]


def _override(reader: SettingsReader, table: str, creates: bool) -> Values | None:
    override: Values = {"match": table}
    partition = _partition(reader, f"iceberg.table.{table}.partition-by", creates)
    if partition:
        override["create"] = {"partition_by": partition}
    elif reader.take(f"iceberg.table.{table}.partition-by") == "" and creates:
        override["create"] = {"partition_by": []}  # for the sink, too, an empty one stands in the way of the default
    branch = _branch(reader, f"iceberg.table.{table}.commit-branch")
    if branch:
        override["commit"] = {"branch": branch}
    return override if len(override) > 1 else None


def _branch(reader: SettingsReader, key: str) -> str | None:
    branch = reader.take(key)
    if branch == "":
        raise refused(key, "the sink cannot commit to a branch without a name", "remove the key, or name a branch")
    return branch


def _partition(reader: SettingsReader, key: str, creates: bool) -> list[str]:
    text = reader.take(key)
    if not text:
        return []
    if not creates:
        reader.note(key, "tables are not created (`iceberg.tables.auto-create-enabled`), so it has no effect")
        return []
    fields: list[str] = []
    names: set[str] = set()
    for part in re.findall(r"(?:\A|,)((?:[^,()]|\([^()]*\)?|\))*)", text):
        found = _partition_field(key, part.strip())
        # The names that Iceberg gives the fields; one column has one time at most.
        is_time = TRANSFORMS[found.transform].is_of_time
        name = f"{found.column}_{'time' if is_time else found.transform}"
        if name in names:
            raise refused(key, f"{_MAKES_NONE} where `{found.column}` is used twice alike", "keep one of them")
        names.add(name)
        fields.append(partition_text(found))
        if is_time:
            reason = (
                f"`{found.column}` must be a date or a moment: declare its type under `source.schema`; of plain JSON without "
                "it the sink creates tables without a partition, and so does this file"
            )
            reader.note(key, reason, lost=True)
    return fields


def without_times_of_text(policy: Values, declared: Collection[str]) -> None:
    """Take the partition out of a table's policy where it has a part of a time of what plain JSON gives as text: the sink
    creates such a table without any partition."""
    fields = [partition_field(text) for text in policy.get("create", {}).get("partition_by", ())]
    if any(each and TRANSFORMS[each.transform].is_of_time and each.column.lower() not in declared for each in fields):
        policy["create"]["partition_by"] = []


def _partition_field(key: str, part: str) -> PartitionFieldSpec:
    """One field in the sink's own grammar. It takes blanks and the order of arguments as they stand, and where it cannot
    make a field it creates the table without any partition."""
    column, transform, number = part, "identity", None
    if call := _CALL.fullmatch(part):
        transform, column = re.sub(r"^(year|month|day|hour)s$", r"\1", call[1]), call[2]
        known = TRANSFORMS.get(transform)
        if known and known.counts:
            column, _, width = (each.strip() for each in column.partition(","))
            number = int(width) if re.fullmatch(r"[1-9][0-9]{0,8}", width) else 0
        elif known is None or not known.is_of_time:
            number = 0
    if number == 0 or re.fullmatch(COLUMN, column) is None:
        remedy = "write it as `day(column)`, `bucket(column, 16)` or `truncate(column, 16)`, or name a column"
        raise refused(key, f"`{part}` is not a partition field, and {_MAKES_NONE}", remedy)
    return PartitionFieldSpec(column, transform, number)


def _properties(reader: SettingsReader, creates: bool) -> Values:
    properties: Values = {}
    for kind in ("auto-create-props", "write-props"):
        prefix = f"iceberg.tables.{kind}."
        for key in [key for key in reader.settings if key.startswith(prefix)]:
            name, value = key.removeprefix(prefix), reader.take(key) or ""
            if name == "format-version" and value not in ("1", "2", "3"):
                reader.note(key, f"floe writes format versions 1, 2 and 3, not {value}", lost=True)
            elif name == "write.format.default" and value.lower() != "parquet":
                reader.note(key, f"floe writes Parquet, not {value}", lost=True)
            elif not creates:
                reason = "it has no effect while tables are not created"
                if kind == "write-props":
                    reason = "set it on the tables: ALTER TABLE ... SET TBLPROPERTIES"
                reader.note(key, reason, lost=kind == "write-props")
            elif never_a_property(name):
                reader.note(key, "pipeline files may not set it: it names code, credentials or a place", lost=True)
            elif not is_property_allowed(name):
                reason = (
                    f"the target lets pipeline files set it: put `{name}` under `allow.properties` there, and here into"
                )
                reader.note(key, f"{reason} `tables.defaults.create.properties`", lost=True)
            else:
                properties[name] = value
                if kind == "write-props":
                    reason = "it applies to new tables; on existing tables, set it with ALTER TABLE"
                    reader.note(key, reason, lost=True)
    return properties


def errors(reader: SettingsReader, tables: list[str]) -> Values:
    """`errors` of the pipeline file."""
    tolerance = (reader.take("errors.tolerance") or "none").strip().lower()
    if tolerance not in ("all", "none"):
        raise refused(
            "errors.tolerance", f"it is `all` or `none`, not `{tolerance}`, and Connect starts no such connector"
        )
    topic = reader.take("errors.deadletterqueue.topic.name")
    if tolerance != "all":
        return {"policy": "fail"}
    # Connect tolerates what it cannot read; what the sink cannot write stops it.
    if not topic:
        return {"policy": "fail", "stages": {"decode": "drop"}}
    table = f"{tables[0].rpartition('.')[0]}.dead_letters"
    reader.note("errors.deadletterqueue.topic.name", f"each dead letter is a row of the table `{table}`, too")
    return {
        "policy": "fail",
        "stages": {"decode": "dead_letter"},
        "dead_letter_table": table,
        "dead_letter_topic": topic,
    }


def _duration(text: str) -> str:
    if not re.match(r"[1-9][0-9]{0,8}\Z", text):
        raise refused("iceberg.control.commit.interval-ms", f"`{text}` is not a number of milliseconds")
    number = int(text)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if number % size == 0:
            return f"{number // size}{unit}"
    return f"{number}ms"

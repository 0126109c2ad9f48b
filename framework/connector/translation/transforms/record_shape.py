"""What a record is like after some of a connector's transforms: its columns, each as an expression over the record.

In: the declared fields of a record, or none where they are not known. Out: a `RecordShape`, which transforms change step by
step, and at the end the SELECT that gives the same columns. A column that no SQL can give keeps the reason; it is
refused only if it reaches the table or a rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from framework.config.values.type_text import Structure, structure
from framework.connector.translation.transforms.chain import ConnectTransform
from framework.connector.translation.untranslatable import PARTIAL, Untranslatable

Topics = Mapping[str, str | None]  # each topic that is read, and what transforms have made of its name
# Names that SQL gives a meaning where they stand alone.
_WORDS = """
    all and anti any array as asc at between both by case cast check collate column constraint create cross cube
    current current_date current_time current_timestamp current_user date delete desc describe distinct drop else
    end escape except exists false fetch filter for foreign from full function grant group grouping having in inner
    insert intersect interval into is join key lateral leading left like limit local map minus natural not null of
    offset on only or order out outer overlaps partition percent position primary range references right rollup row
    rows select semi session_user set some source start struct sum table then time timestamp to trailing true union
    unique unknown user using values when where window with max min count avg explode
"""


@dataclass(frozen=True)
class RecordColumn:
    """One column. Without `sql` it cannot be said: `key` is the property that makes it, `why` the reason.

    Args:
        metadata: Kafka's own field that the column is, such as `topic`; floe appends those itself.
        field: the field of the record that it is unchanged.
        topics: for each topic that is read, the text that the column holds.
    """

    name: str
    kind: Structure
    sql: str | None = None
    key: str = ""
    why: str = ""
    metadata: str | None = None
    field: str | None = None
    topics: Topics | None = None


@dataclass(frozen=True)
class RecordShape:
    """The records at one point between the topic and the sink.

    Args:
        columns: None where the fields of the records are not known and all of them pass unchanged.
        added: columns beside unknown fields; Kafka's own only.
        where: conditions that a record meets, or the sink never sees it.
        topics: None where the connector reads topics by a pattern.
        is_rerouted: a transform has changed the names of topics.
        hints: how floe is to read a field, in the words of `source.schema`.
        has_schema: the records carry a schema, so Connect's transforms treat them otherwise.
    """

    columns: tuple[RecordColumn, ...] | None
    topics: Topics | None
    has_schema: bool = False
    is_rerouted: bool = False
    added: tuple[RecordColumn, ...] = ()
    where: tuple[str, ...] = ()
    hints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def known(self, step: ConnectTransform) -> tuple[RecordColumn, ...]:
        """The columns, for a transform that shapes records.

        Raises:
            Untranslatable: the fields of the records are not known, or their schema is in a registry.
        """
        if self.has_schema:
            step.refuse(
                "type", f"`{step.kind}` changes records whose schema is in a registry, not in the configuration"
            )
        if self.columns is None:
            raise Untranslatable(
                step.key(),
                f"`{step.kind}` shapes records, and no setting of the connector says which fields they have",
                f"list all fields and their types in a file, and give it with `--fields`, or: {PARTIAL}",
            )
        return self.columns

    def one(self, step: ConnectTransform, option: str, name: str) -> RecordColumn:
        """The column that a transform names. Connect would make a null of what no record has.

        Raises:
            Untranslatable: there is no such column at this point.
        """
        found = next((one for one in self.known(step) if one.name == name), None)
        if found is None:
            reported = f"no record has the field `{name}` at this point"
            step.refuse(option, reported, "correct the field, or add it to `--fields`")
        return found

    def column(self, name: str) -> RecordColumn | None:
        return next((one for one in (*(self.columns or ()), *self.added) if one.name == name), None)

    def put(self, *columns: RecordColumn) -> RecordShape:
        """With these columns, in the place of those with the same names."""
        by_name = {one.name: one for one in columns}
        if self.columns is None:
            kept = tuple(one for one in self.added if one.name not in by_name)
            return replace(self, added=(*kept, *columns))
        old = {one.name for one in self.columns}
        changed = tuple(by_name.get(one.name, one) for one in self.columns)
        return replace(self, columns=(*changed, *(one for one in columns if one.name not in old)))


def shape_of(fields: Mapping[str, str] | None, topics: list[str] | None, has_schema: bool) -> RecordShape:
    """The records as they are in the topic.

    Args:
        fields: each field's name and type; None where they are not known.

    Raises:
        ValueError: a type is none.
    """
    columns = None
    if fields is not None:
        columns = tuple(RecordColumn(name, structure(kind), quoted(name), field=name) for name, kind in fields.items())
    return RecordShape(columns, None if topics is None else {topic: topic for topic in topics}, has_schema)


def changed(step: ConnectTransform, column: RecordColumn, kind: Structure, sql: str) -> RecordColumn:
    """A column with another value; `sql` holds for one that SQL can give."""
    if column.sql is not None:
        return RecordColumn(column.name, kind, sql)
    why = column.why or f"floe adds the column `{column.name}` behind its SQL, which cannot change it"
    return RecordColumn(column.name, kind, key=column.key or step.key(), why=why)


def named(step: ConnectTransform, column: RecordColumn, name: str) -> RecordColumn:
    """A column under another name."""
    if column.metadata is not None and name != f"_kafka_{column.metadata}":
        why = f"floe's column of the record's {column.metadata} is `_kafka_{column.metadata}`, not `{name}`"
        return RecordColumn(name, column.kind, key=step.key(), why=why, topics=column.topics)
    return replace(column, name=name)


def inside(column: RecordColumn) -> list[RecordColumn]:
    """The fields of a struct as columns."""
    assert isinstance(column.kind, list)
    return [
        RecordColumn(name, kind, None if column.sql is None else f"{column.sql}.{quoted(name)}", column.key, column.why)
        for name, kind in column.kind[1]
    ]


def is_struct(kind: Structure) -> bool:
    return isinstance(kind, list) and kind[0] == "struct"


def quoted(name: str) -> str:
    """A name as SQL takes it. Raises ValueError for one that cannot be quoted."""
    if "`" in name or not name.isprintable():
        raise ValueError(f"`{name}` cannot be the name of a column")
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _WORDS.split()
    return name if plain else f"`{name}`"


def literal(text: str) -> str:
    """Text as SQL takes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def is_unchanged(shape: RecordShape) -> bool:
    """Whether the records reach the sink with the fields that they have in the topic."""
    if shape.columns is None:
        return True
    own = [one for one in shape.columns if one.metadata is None]
    return not shape.where and all(one.field == one.name for one in own)


def select(shape: RecordShape, fields: Mapping[str, str]) -> str | None:
    """The SELECT that gives the columns; None where the records are unchanged.

    Raises:
        Untranslatable: a column that no SQL can give.
    """
    if shape.columns is None or (is_unchanged(shape) and len(shape.columns) >= len(fields)):
        return None
    items = []
    for column in shape.columns:
        if column.metadata is not None:
            continue  # floe appends it behind the SQL.
        if column.sql is None:
            raise Untranslatable(column.key, column.why, PARTIAL)
        name = quoted(column.name)
        is_itself = column.sql == name or (column.sql.endswith(f".{name}") and " " not in column.sql)
        items.append(column.sql if is_itself else f"{column.sql} AS {name}")
    if not items:
        raise Untranslatable("transforms", "no field of the records is left", PARTIAL)
    where = f" WHERE {' AND '.join(shape.where)}" if shape.where else ""
    return f"SELECT {', '.join(items)} FROM source{where}"
